//! What keys may do: every route of the description with a key of every scope, and what keys are limited to.

use cabana_server::auth::table::needs;
use cabana_types::Permission;
use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::openapi::routes;
use crate::server::TestServer;
use crate::tenants::parameters;

fn with_key(server: &TestServer, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [("x-api-key", key), ("content-type", "application/json")];
    send(server.address, method, path, &headers, Some(body.to_string().as_bytes())).expect("answer")
}

fn made(server: &TestServer, body: Value) -> String {
    server.post("/api-keys", body).is(201).member("key")
}

fn lacks_scope(answer: &Answer) -> bool {
    answer.status == 403 && answer.text.contains("has no scope")
}

/// A path whose parameters name nothing that exists.
fn filled(route: &str) -> String {
    parameters(route).into_iter().fold(route.to_owned(), |path, name| path.replace(&format!("{{{name}}}"), "none"))
}

#[test]
fn every_route_is_closed_to_keys_without_its_scope() {
    let server = TestServer::start();
    let routes: Vec<_> = routes().into_iter().filter(|(_, _, private)| *private).collect();
    let mut refused = 0;
    for scope in Permission::ALL {
        let key = made(&server, json!({"name": "one", "scopes": [scope]}));
        for (method, route, _) in &routes {
            let needed = needs(&method.parse().expect("method"), route).expect("an entry");
            let answer = with_key(&server, &key, method, &filled(route), &json!({}));
            let open = needed.permission().is_none_or(|needed| needed == *scope);
            assert_eq!(lacks_scope(&answer), !open, "{method} {route} with {scope}: {}", answer.text);
            refused += usize::from(!open);
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn the_operators_key_may_do_everything_and_plain_keys_what_e2bs_do() {
    let server = TestServer::start();
    let listed = |id: &str| {
        let rows = server.get("/api-keys").is(200).json();
        rows.as_array().expect("rows").iter().find(|row| row["id"] == id || id.is_empty()).expect("row").clone()
    };
    let first = listed("");
    assert_eq!(first["scopes"].as_array().map(Vec::len), Some(Permission::ALL.len()), "{first}");
    assert_eq!((&first["creatorID"], &first["expiresAt"], &first["cidrs"]), (&json!(null), &json!(null), &json!([])));
    server.post("/auth/codes", json!({})).is(201);
    let plain = server.post("/api-keys", json!({"name": "plain"})).is(201);
    let row = listed(&plain.member("id"));
    assert_eq!(row["creatorID"], first["id"]);
    let scopes: Vec<_> = row["scopes"].as_array().expect("scopes").iter().filter_map(Value::as_str).collect();
    assert!(scopes.len() == Permission::ALL.len() - 3);
    assert!(!["admin", "members", "audit:read"].iter().any(|scope| scopes.contains(scope)), "{scopes:?}");
    let key = plain.member("key");
    with_key(&server, &key, "POST", "/v2/sandboxes", &json!({"templateID": "base"})).is(201);
    let message = with_key(&server, &key, "POST", "/auth/codes", &json!({})).error(403, "forbidden");
    assert!(message.contains("`admin`") && message.contains("key file"), "{message}");
    let server = server.restart();
    with_key(&server, &key, "POST", "/auth/codes", &json!({})).error(403, "forbidden");
    server.post("/auth/codes", json!({})).is(201);
}

#[test]
fn no_key_makes_a_key_that_may_do_more() {
    let server = TestServer::start();
    let key = made(&server, json!({"name": "maker", "scopes": ["keys", "sandboxes:read"]}));
    let ask = |body: Value| with_key(&server, &key, "POST", "/api-keys", &body);
    let message = ask(json!({"name": "n", "scopes": ["sandboxes:read", "tools"]})).error(403, "forbidden");
    assert!(message.contains("tools") && !message.contains("sandboxes:read"), "{message}");
    assert_eq!(ask(json!({"name": "n"})).is(201).json()["scopes"], json!(["sandboxes:read", "keys"]));
    ask(json!({"name": "n", "scopes": ["sandboxes:read"]})).is(201);
    for wrong in [json!([]), json!(["all"]), json!("tools"), json!([1])] {
        server.post("/api-keys", json!({"name": "n", "scopes": wrong})).error(400, "invalid_request");
    }
}

#[test]
fn keys_are_for_their_time_and_networks() {
    let server = TestServer::start();
    let far = made(&server, json!({"name": "far", "cidrs": ["10.0.0.0/8"]}));
    // Clients of this machine have no address of their own: they may be a proxy. Addresses are compared in a unit test.
    let message = with_key(&server, &far, "GET", "/teams", &json!({})).error(403, "forbidden");
    assert!(message.contains("cannot be used from an unknown address"), "{message}");
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
    let short = made(&server, json!({"name": "short", "expiresAt": soon.to_string()}));
    with_key(&server, &short, "GET", "/teams", &json!({})).is(200);
    // To the moment that was named, and a little longer.
    let left = soon.duration_since(jiff::Timestamp::now()) + jiff::SignedDuration::from_millis(5);
    std::thread::sleep(left.try_into().unwrap_or_default());
    let message = with_key(&server, &short, "GET", "/teams", &json!({})).error(401, "unauthorized");
    assert!(message.contains("expired at"), "{message}");
    let too_many: Vec<_> = (0..101).map(|n| format!("10.0.0.{n}")).collect();
    for wrong in [
        json!(["10.0.0.0/33"]),
        json!(["example.com"]),
        json!(["fd00::1"]),
        json!([""]),
        json!(too_many),
        json!("10.0.0.0/8"),
    ] {
        server.post("/api-keys", json!({"name": "n", "cidrs": wrong})).error(400, "invalid_request");
    }
    for wrong in ["2020-01-01T00:00:00Z", "tomorrow"] {
        server.post("/api-keys", json!({"name": "n", "expiresAt": wrong})).error(400, "invalid_request");
    }
}

#[test]
fn a_session_has_no_more_than_the_key_it_was_signed_in_with() {
    let server = TestServer::start();
    let own = format!("http://{}", server.address);
    let sign_in = |key: &str| {
        let headers = [("origin", own.as_str()), ("content-type", "application/json")];
        let body = json!({"apiKey": key}).to_string();
        send(server.address, "POST", "/auth/sign-in", &headers, Some(body.as_bytes())).expect("answer")
    };
    let far = made(&server, json!({"name": "far", "cidrs": ["10.0.0.0/8"]}));
    sign_in(&far).error(403, "forbidden");
    let cookie = |answer: &Answer| {
        let set = answer.header("set-cookie").expect("a cookie");
        set.split(';').next().expect("pair").to_owned()
    };
    let full = sign_in(&server.key).is(200).member("id");
    let signed_in = sign_in(&made(&server, json!({"name": "reader", "scopes": ["sandboxes:read"]}))).is(200);
    let reader = cookie(&signed_in);
    let ask = |method: &str, path: &str| {
        let headers = [("cookie", reader.as_str()), ("origin", own.as_str()), ("x-cabana-team", "default")];
        send(server.address, method, path, &headers, Some(b"{}")).expect("answer")
    };
    ask("GET", "/v2/sandboxes").is(200);
    for (method, path) in [("POST", "/v2/sandboxes"), ("POST", "/api-keys"), ("POST", "/auth/codes"), ("GET", "/chats")]
    {
        assert!(lacks_scope(&ask(method, path)), "{method} {path}");
    }
    // The other sessions of the person are not its own.
    let own = ask("GET", "/auth/sessions").is(200).json();
    assert_eq!(own.as_array().map(Vec::len), Some(1), "{own}");
    ask("DELETE", &format!("/auth/sessions/{full}")).error(404, "session_not_found");
}

#[test]
fn a_key_that_only_reads_gets_no_token_of_a_sandbox() {
    let server = TestServer::start();
    let made_sandbox = server.post("/v2/sandboxes", json!({"templateID": "base", "secure": true})).is(201);
    let path = format!("/sandboxes/{}", made_sandbox.member("sandboxID"));
    assert!(server.get(&path).is(200).json()["envdAccessToken"].is_string());
    let reader = made(&server, json!({"name": "reader", "scopes": ["sandboxes:read"]}));
    let seen = with_key(&server, &reader, "GET", &path, &json!({})).is(200).json();
    assert!(seen["envdAccessToken"].is_null(), "{seen}");
}
