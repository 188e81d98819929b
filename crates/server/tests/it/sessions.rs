//! Sessions of people: how they begin and end, and that their cookie counts for the console's own page only.

use serde_json::json;

use crate::http::{Answer, send};
use crate::server::TestServer;

/// A browser with the console open.
struct Browser {
    server: TestServer,
    cookie: String,
}

fn origin(server: &TestServer) -> String {
    format!("http://{}", server.address)
}

fn sign_in(server: &TestServer, path: &str, body: &serde_json::Value) -> Answer {
    let headers = [("origin", origin(server)), ("content-type", "application/json".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    send(server.address, "POST", path, &headers, Some(body.to_string().as_bytes())).expect("answer")
}

fn cookie(answer: &Answer) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    set.split(';').next().expect("pair").to_owned()
}

fn code(server: &TestServer) -> String {
    let url = server.post("/auth/codes", json!({})).is(201).member("url");
    url.split_once("/console/welcome#").expect("link").1.to_owned()
}

impl Browser {
    fn open() -> Self {
        let server = TestServer::start();
        let answer = sign_in(&server, "/auth/welcome", &json!({"code": code(&server)})).is(200);
        let cookie = cookie(&answer);
        Self { server, cookie }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
        let mut all = vec![("cookie", self.cookie.as_str())];
        all.extend(headers);
        send(self.server.address, method, path, &all, body.map(str::as_bytes)).expect("answer")
    }

    /// As the console's page does.
    fn fetch(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let origin = origin(&self.server);
        let headers = [("origin", origin.as_str()), ("sec-fetch-site", "same-origin"), ("x-cabana-team", "default")];
        self.send(method, path, &headers, body)
    }
}

#[test]
fn a_link_signs_in_once() {
    let server = TestServer::start();
    let code = code(&server);
    let answer = sign_in(&server, "/auth/welcome", &json!({"code": code})).is(200);
    assert_eq!(answer.json()["user"]["name"], "admin");
    let set = answer.header("set-cookie").expect("a cookie");
    let name = format!("cabana_session_{}=", server.address.port());
    assert!(set.starts_with(&name) && set.contains("; HttpOnly; SameSite=Lax;"), "{set}");
    assert!(!set.contains("Domain"), "{set}");
    let message = sign_in(&server, "/auth/welcome", &json!({"code": code})).error(401, "invalid_code");
    assert!(message.contains("cabana login"), "{message}");
    for wrong in [json!({}), json!({"code": 1}), json!([])] {
        sign_in(&server, "/auth/welcome", &wrong).error(400, "invalid_request");
    }
}

#[test]
fn another_page_cannot_sign_a_person_in() {
    let server = TestServer::start();
    let body = json!({"code": code(&server)}).to_string();
    for headers in [&[][..], &[("origin", "http://evil.test")], &[("origin", "null")]] {
        let answer = send(server.address, "POST", "/auth/welcome", headers, Some(body.as_bytes())).expect("answer");
        answer.error(403, "forbidden");
    }
    let own = origin(&server);
    let cross = [("origin", own.as_str()), ("sec-fetch-site", "same-site")];
    let answer = send(server.address, "POST", "/auth/welcome", &cross, Some(body.as_bytes())).expect("answer");
    answer.error(403, "forbidden");
    // The code is still there.
    sign_in(&server, "/auth/welcome", &serde_json::from_str(&body).expect("json")).is(200);
}

#[test]
fn a_key_signs_in_and_its_session_ends_with_it() {
    let mut browser = Browser::open();
    sign_in(&browser.server, "/auth/sign-in", &json!({"apiKey": "e2b_wrong"})).error(401, "unauthorized");
    let made = browser.server.post("/api-keys", json!({"name": "for the console"})).is(201);
    let answer = sign_in(&browser.server, "/auth/sign-in", &json!({"apiKey": made.member("key")})).is(200);
    let first = std::mem::replace(&mut browser.cookie, cookie(&answer));
    browser.fetch("GET", "/auth/session", None).is(200);
    browser.server.call("DELETE", &format!("/api-keys/{}", made.member("id")), None).is(204);
    browser.fetch("GET", "/auth/session", None).error(401, "unauthorized");
    browser.cookie = first;
    browser.fetch("GET", "/auth/session", None).is(200);
}

#[test]
fn a_session_does_what_a_key_does() {
    let browser = Browser::open();
    let made = browser.fetch("POST", "/v2/sandboxes", Some(r#"{"templateID": "base"}"#)).is(201);
    let id = made.member("sandboxID");
    assert!(browser.fetch("GET", "/v2/sandboxes", None).is(200).text.contains(&id));
    let user = browser.fetch("GET", "/auth/session", None).is(200).json()["user"]["id"].clone();
    let events = browser.server.get(&format!("/events/sandboxes/{id}?orderAsc=true")).is(200).json();
    assert_eq!(events[0]["eventData"]["by"], user, "{events}");
    browser.fetch("DELETE", &format!("/sandboxes/{id}"), None).is(204);
    // A person sees no key; programs have no session.
    assert_eq!(browser.fetch("GET", "/teams", None).is(200).json()[0]["apiKey"], "");
    browser.server.get("/auth/session").error(404, "session_not_found");
    browser.server.call("DELETE", "/auth/session", None).error(404, "session_not_found");
}

#[test]
fn other_pages_cannot_use_the_cookie() {
    let browser = Browser::open();
    let own = origin(&browser.server);
    let body = Some(r#"{"name": "stolen"}"#);
    let same = ("sec-fetch-site", "same-origin");
    let team = ("x-cabana-team", "default");
    let json = ("content-type", "application/json");
    for headers in [
        &[][..],
        &[("origin", "http://evil.test"), team, json],
        &[("origin", "http://8080-iabc.localhost:3000"), ("sec-fetch-site", "same-site"), team, json],
        &[("origin", "null"), team, json],
        &[same, team, json],
        &[("origin", &own), same, json],
        &[("origin", &own), same, team, ("content-type", "text/plain")],
        &[("origin", &own), same, team, ("content-type", "application/x-www-form-urlencoded")],
    ] {
        browser.send("POST", "/api-keys", headers, body).error(403, "forbidden");
    }
    let other = [("origin", own.as_str()), same, ("x-cabana-team", "other"), json];
    browser.send("POST", "/api-keys", &other, body).error(404, "team_not_found");
    for site in ["same-site", "cross-site"] {
        browser.send("GET", "/api-keys", &[("sec-fetch-site", site)], None).error(403, "forbidden");
    }
    assert_eq!(browser.server.get("/api-keys").json().as_array().map(Vec::len), Some(1));
    // The control.
    browser.send("POST", "/api-keys", &[("origin", &own), same, team, json], body).is(201);
}

#[test]
fn signing_out_ends_a_session() {
    let browser = Browser::open();
    let answer = sign_in(&browser.server, "/auth/welcome", &json!({"code": code(&browser.server)})).is(200);
    let (other_id, other) = (answer.member("id"), cookie(&answer));
    let listed = browser.fetch("GET", "/auth/sessions", None).is(200).json();
    let current: Vec<_> = listed.as_array().expect("list").iter().map(|session| session["current"].clone()).collect();
    assert_eq!(current, [json!(false), json!(true)], "newest first");
    browser.fetch("DELETE", &format!("/auth/sessions/{other_id}"), None).is(204);
    browser.fetch("DELETE", &format!("/auth/sessions/{other_id}"), None).error(404, "session_not_found");
    browser.fetch("DELETE", "/auth/sessions/nonsense", None).error(404, "session_not_found");
    let ended = send(browser.server.address, "GET", "/auth/session", &[("cookie", &other)], None).expect("answer");
    ended.error(401, "unauthorized");
    let out = browser.fetch("DELETE", "/auth/session", None).is(204);
    assert!(out.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")), "{out:?}");
    browser.fetch("GET", "/auth/session", None).error(401, "unauthorized");
}

#[test]
fn a_session_survives_a_restart() {
    let browser = Browser::open();
    let server = browser.server.restart();
    // The test's server has another port now, and so another name of the cookie.
    let value = browser.cookie.split_once('=').expect("pair").1;
    let cookie = format!("cabana_session_{}={value}", server.address.port());
    send(server.address, "GET", "/auth/session", &[("cookie", &cookie)], None).expect("answer").is(200);
}

#[test]
fn signing_in_is_limited() {
    let server = TestServer::start();
    let try_once = || sign_in(&server, "/auth/welcome", &json!({"code": "guess"}));
    let limited = (0..100).map(|_| try_once()).find(|answer| answer.status == 429).expect("limited");
    limited.error(429, "rate_limited");
    assert!(limited.header("retry-after").is_some());
    server.get("/v2/sandboxes").is(200);
}

#[test]
fn the_console_has_its_headers_and_browsers_find_it() {
    let server = TestServer::start();
    let get = |path: &str, headers: &[(&str, &str)]| send(server.address, "GET", path, headers, None).expect("answer");
    let entered = get("/", &[("accept", "text/html,*/*")]);
    assert_eq!((entered.status, entered.header("location")), (307, Some("/console/")));
    get("/", &[]).is(404);
    // The test's server has no files; the page of every path has the same protection.
    for path in ["/console/", "/console/sandboxes/i1", "/console/assets/none.js"] {
        let page = get(path, &[]);
        assert!(page.header("access-control-allow-origin").is_none());
        let policy = page.header("content-security-policy").expect("policy");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("script-src 'self';"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    }
    get("/console/", &[("host", "evil.test")]).is(400);
}
