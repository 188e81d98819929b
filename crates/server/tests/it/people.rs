//! People: invitations, passwords, roles, teams and projects, each person with a browser of their own.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::server::TestServer;

/// Password of everybody.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// The browser of a person.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) server: Arc<TestServer>,
    pub(crate) cookie: String,
    /// The team that its requests name.
    pub(crate) team: String,
}

/// Makes a request as the console's page does, with a cookie or without.
fn fetch(server: &TestServer, cookie: &str, team: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let origin = format!("http://{}", server.address);
    let mut headers = vec![
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("x-cabana-team", team),
        ("content-type", "application/json"),
    ];
    if !cookie.is_empty() {
        headers.push(("cookie", cookie));
    }
    let text = body.map(Value::to_string);
    send(server.address, method, path, &headers, text.as_ref().map(String::as_bytes)).expect("answer")
}

pub(crate) fn anonymous(server: &TestServer, path: &str, body: &Value) -> Answer {
    fetch(server, "", "default", "POST", path, Some(body))
}

pub(crate) fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").expect("a cookie").split(';').next().expect("pair").to_owned()
}

/// The code of a link.
pub(crate) fn code(answer: &Answer) -> String {
    answer.member("url").split_once('#').expect("link").1.to_owned()
}

impl Browser {
    /// The owner of the first team, who is admin of the server.
    pub(crate) fn owner() -> Self {
        Self::owner_of(Arc::new(TestServer::with(&[("rates.sign_in_requests", "0"), ("rates.account_requests", "0")])))
    }

    pub(crate) fn owner_of(server: Arc<TestServer>) -> Self {
        let code = code(&server.post("/auth/codes", json!({})).is(201));
        let answer = anonymous(&server, "/auth/welcome", &json!({"code": code})).is(200);
        Self { server, cookie: cookie(&answer), team: "default".to_owned() }
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if method == "GET" { None } else { Some(&body) };
        fetch(&self.server, &self.cookie, &self.team, method, path, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path, Value::Null)
    }

    pub(crate) fn in_team(&self, team: &str) -> Self {
        Self { team: team.to_owned(), ..self.clone() }
    }

    pub(crate) fn id(&self) -> String {
        self.get("/auth/session").is(200).json()["user"]["id"].as_str().expect("id").to_owned()
    }

    fn team_path(&self, rest: &str) -> String {
        format!("/teams/{}{rest}", self.team)
    }

    fn members_path(&self, user: &str) -> String {
        self.team_path(&format!("/members/{user}"))
    }

    pub(crate) fn invitation(&self, email: &str, role: &str) -> Answer {
        self.call("POST", &self.team_path("/invitations"), json!({"email": email, "role": role}))
    }

    /// Somebody new in the team.
    pub(crate) fn joined(&self, name: &str, role: &str) -> Self {
        let code = code(&self.invitation(&format!("{name}@example.com"), role).is(201));
        let body = json!({"code": code, "name": name, "password": PASSWORD});
        let answer = anonymous(&self.server, "/auth/invitation/accept", &body).is(200);
        Self { cookie: cookie(&answer), ..self.clone() }
    }
}

fn sign_in(server: &TestServer, email: &str, password: &str) -> Answer {
    anonymous(server, "/auth/sign-in", &json!({"email": email, "password": password}))
}

#[test]
fn an_invitation_is_accepted_once() {
    let owner = Browser::owner();
    let made = owner.invitation(" Ada@Example.com ", "developer").is(201);
    assert_eq!(made.member("email"), "ada@example.com");
    let code = code(&made);
    let shown = anonymous(&owner.server, "/auth/invitation", &json!({"code": code})).is(200).json();
    assert_eq!(
        (&shown["team"], &shown["role"], &shown["hasAccount"]),
        (&json!("default"), &json!("developer"), &json!(false))
    );
    let accept = |name: &str, password: &str| {
        let body = json!({"code": code, "name": name, "password": password});
        anonymous(&owner.server, "/auth/invitation/accept", &body)
    };
    for weak in ["short", "aaaaaaaaaaaaa", "ada@example.com"] {
        accept("Ada", weak).error(400, "invalid_request");
    }
    let session = accept("Ada", PASSWORD).is(200).json();
    assert_eq!((&session["role"], &session["user"]["email"]), (&json!("developer"), &json!("ada@example.com")));
    accept("Eve", PASSWORD).error(409, "invitation_invalid");
    anonymous(&owner.server, "/auth/invitation", &json!({"code": code})).error(409, "invitation_invalid");
    let members = owner.get("/teams/default/members").is(200).json();
    assert_eq!(members.as_array().map(Vec::len), Some(2), "{members}");
    assert!(!owner.get("/teams/default/invitations").is(200).text.contains("ada"), "none is open");
    owner.invitation("ada@example.com", "viewer").error(409, "account_conflict");
}

#[test]
fn an_invitation_is_revoked_replaced_and_bound_to_its_email() {
    let owner = Browser::owner();
    let accept = |code: &str| {
        let body = json!({"code": code, "name": "Ada", "password": PASSWORD});
        anonymous(&owner.server, "/auth/invitation/accept", &body)
    };
    let first = owner.invitation("ada@example.com", "developer").is(201);
    let second = owner.invitation("ada@example.com", "viewer").is(201);
    accept(&code(&first)).error(409, "invitation_invalid");
    let path = format!("/teams/default/invitations/{}", second.member("id"));
    owner.call("DELETE", &path, Value::Null).is(204);
    owner.call("DELETE", &path, Value::Null).error(404, "invitation_not_found");
    accept(&code(&second)).error(409, "invitation_invalid");
    accept("never made").error(409, "invitation_invalid");
    for wrong in ["", "x", "a b@c", "a@b@c"] {
        owner.invitation(wrong, "viewer").error(400, "invalid_request");
    }
    // Somebody with an account accepts as who they are; nobody else can.
    let ada = owner.joined("ada", "developer");
    let team = owner.call("POST", "/teams", json!({"name": "research"})).is(201).member("id");
    let there = owner.in_team(&team);
    let made = there.invitation("ada@example.com", "viewer").is(201);
    accept(&code(&made)).error(409, "account_conflict");
    let body = json!({"code": code(&made)});
    owner.call("POST", "/auth/invitation/accept", body.clone()).error(409, "invitation_invalid");
    anonymous(&owner.server, "/auth/invitation/accept", &body).error(401, "unauthorized");
    ada.call("POST", "/auth/invitation/accept", body.clone()).is(200);
    ada.call("POST", "/auth/invitation/accept", body).error(409, "invitation_invalid");
    let teams = ada.get("/teams").is(200).json();
    let roles: Vec<_> =
        teams.as_array().expect("teams").iter().map(|t| (t["name"].clone(), t["role"].clone())).collect();
    assert_eq!(roles, [(json!("default"), json!("developer")), (json!("research"), json!("viewer"))]);
}

#[test]
fn passwords_sign_in_and_say_nothing_when_wrong() {
    let owner = Browser::owner();
    let server = &owner.server;
    let ada = owner.joined("ada", "developer");
    let right = sign_in(server, "ADA@example.com", PASSWORD).is(200);
    assert_ne!(cookie(&right), ada.cookie, "each sign-in has a token of its own");
    let wrong = sign_in(server, "ada@example.com", "another password");
    let unknown = sign_in(server, "nobody@example.com", PASSWORD);
    assert_eq!(wrong.error(401, "wrong_password"), unknown.error(401, "wrong_password"));
    for body in [json!({}), json!({"email": "ada@example.com"}), json!({"apiKey": "x", "email": "a", "password": "b"})]
    {
        anonymous(server, "/auth/sign-in", &body).error(400, "invalid_request");
    }
    // A new password ends the other sessions, and only those.
    let other = Browser { cookie: cookie(&right), ..ada.clone() };
    let new = json!({"currentPassword": "wrong", "password": "another good one"});
    ada.call("PUT", "/auth/password", new).error(401, "wrong_password");
    ada.call("PUT", "/auth/password", json!({"password": "another good one"})).error(401, "wrong_password");
    let new = json!({"currentPassword": PASSWORD, "password": "another good one"});
    ada.call("PUT", "/auth/password", new).is(204);
    ada.get("/auth/session").is(200);
    other.get("/auth/session").error(401, "unauthorized");
    sign_in(server, "ada@example.com", PASSWORD).error(401, "wrong_password");
    sign_in(server, "ada@example.com", "another good one").is(200);
    // The first admin has neither until they choose them.
    owner.call("PUT", "/auth/password", json!({"password": PASSWORD})).error(400, "invalid_request");
    owner.call("PATCH", "/auth/user", json!({"email": "ada@example.com"})).error(409, "account_conflict");
    owner.call("PATCH", "/auth/user", json!({"email": "root@example.com", "name": "Root"})).is(200);
    owner.call("PUT", "/auth/password", json!({"password": PASSWORD})).is(204);
    sign_in(server, "root@example.com", PASSWORD).is(200);
}

#[test]
fn attempts_to_guess_a_password_are_limited() {
    let server = Arc::new(TestServer::with(&[("rates.account_requests", "3"), ("rates.sign_in_requests", "0")]));
    let owner = Browser::owner_of(Arc::clone(&server));
    owner.joined("ada", "developer");
    for _ in 0..3 {
        sign_in(&server, "ada@example.com", "wrong password").error(401, "wrong_password");
    }
    sign_in(&server, "Ada@example.com ", PASSWORD).error(429, "rate_limited");
    sign_in(&server, "bob@example.com", PASSWORD).error(401, "wrong_password");
}

#[test]
fn who_is_disabled_is_out_at_once() {
    let owner = Browser::owner();
    let ada = owner.joined("ada", "developer");
    let key = ada.call("POST", "/api-keys", json!({"name": "adas"})).is(201).member("key");
    let path = format!("/admin/users/{}", ada.id());
    ada.call("PATCH", &path, json!({"disabled": true})).error(403, "forbidden");
    assert_eq!(owner.call("PATCH", &path, json!({"disabled": true})).is(200).json()["disabled"], true);
    ada.get("/auth/session").error(401, "unauthorized");
    sign_in(&owner.server, "ada@example.com", PASSWORD).error(401, "wrong_password");
    // Keys are programs', not hers: the list of members says that she made one.
    let by_key = send(owner.server.address, "GET", "/v2/sandboxes", &[("x-api-key", &key)], None).expect("answer");
    by_key.is(200);
    let members = owner.get("/teams/default/members").is(200).json();
    assert_eq!((&members[1]["keys"], &members[1]["disabled"]), (&json!(1), &json!(true)), "{members}");
    owner.call("PATCH", &path, json!({"disabled": false})).is(200);
    sign_in(&owner.server, "ada@example.com", PASSWORD).is(200);
    let own = format!("/admin/users/{}", owner.id());
    owner.call("PATCH", &own, json!({"disabled": true})).error(409, "last_admin");
    owner.call("PATCH", &own, json!({"admin": false})).error(409, "last_admin");
    owner.get("/auth/session").is(200);
}

#[test]
fn a_team_keeps_an_owner() {
    let owner = Browser::owner();
    let own = owner.members_path(&owner.id());
    owner.call("PATCH", &own, json!({"role": "viewer"})).error(409, "last_owner");
    owner.call("DELETE", &own, Value::Null).error(409, "last_owner");
    owner.call("POST", "/teams/default/leave", json!({})).error(409, "last_owner");
    let admin = owner.joined("ada", "admin");
    let theirs = owner.members_path(&admin.id());
    admin.call("PATCH", &own, json!({"role": "viewer"})).error(403, "forbidden");
    admin.call("PATCH", &theirs, json!({"role": "owner"})).error(403, "forbidden");
    admin.invitation("eve@example.com", "owner").error(403, "forbidden");
    owner.call("PATCH", &theirs, json!({"role": "owner"})).is(204);
    // Both owners leave at the same time: one stays.
    let leave = |browser: &Browser| browser.call("POST", "/teams/default/leave", json!({})).status;
    let left: Vec<u16> = std::thread::scope(|scope| {
        let both = [scope.spawn(|| leave(&owner)), scope.spawn(|| leave(&admin))];
        both.map(|thread| thread.join().expect("answer")).to_vec()
    });
    assert_eq!(left.iter().filter(|status| **status == 204).count(), 1, "{left:?}");
    assert_eq!(left.iter().filter(|status| **status == 409).count(), 1, "{left:?}");
}

#[test]
fn a_role_has_effect_at_once() {
    let owner = Browser::owner();
    let ada = owner.joined("ada", "developer");
    let create = || ada.call("POST", "/v2/sandboxes", json!({"templateID": "base"}));
    let sandbox = create().is(201).member("sandboxID");
    let path = owner.members_path(&ada.id());
    owner.call("PATCH", &path, json!({"role": "viewer"})).is(204);
    create().error(403, "forbidden");
    ada.get(&format!("/sandboxes/{sandbox}")).is(200);
    owner.call("DELETE", &path, Value::Null).is(204);
    ada.get("/v2/sandboxes").error(403, "forbidden");
    assert_eq!(ada.get("/auth/session").is(200).json()["teams"], json!([]), "the account stays");
    owner.call("DELETE", &path, Value::Null).error(404, "member_not_found");
}

#[test]
fn teams_are_made_renamed_switched_and_deleted() {
    let owner = Browser::owner();
    let ada = owner.joined("ada", "developer");
    ada.call("POST", "/teams", json!({"name": "research"})).error(403, "forbidden");
    for wrong in ["", "A", "a b", "-a", "a/b", &"a".repeat(41)] {
        owner.call("POST", "/teams", json!({"name": wrong})).error(400, "invalid_request");
    }
    owner.call("POST", "/teams", json!({"name": "default"})).error(409, "team_conflict");
    let team = owner.call("POST", "/teams", json!({"name": "research"})).is(201).member("id");
    let there = owner.in_team(&team);
    let path = format!("/teams/{team}");
    owner.call("PATCH", &path, json!({"name": "lab"})).error(404, "team_not_found");
    there.call("PATCH", &path, json!({"name": "lab"})).is(204);
    ada.in_team(&team).get("/v2/sandboxes").error(404, "team_not_found");
    ada.call("PUT", "/auth/session", json!({"teamId": team})).error(404, "team_not_found");
    let switched = owner.call("PUT", "/auth/session", json!({"teamId": team})).is(200).json();
    assert_eq!((&switched["team"]["name"], &switched["role"]), (&json!("lab"), &json!("owner")));
    let made = there.call("POST", "/v2/sandboxes", json!({"templateID": "base"})).is(201).member("sandboxID");
    owner.get(&format!("/sandboxes/{made}")).error(404, "sandbox_not_found");
    let key = there.call("POST", "/api-keys", json!({"name": "k"})).is(201).member("key");
    let message = there.call("DELETE", &path, Value::Null).error(409, "team_conflict");
    assert!(message.contains(&made), "{message}");
    there.call("DELETE", &format!("/sandboxes/{made}"), Value::Null).is(204);
    there.call("DELETE", &path, Value::Null).is(204);
    let by_key = send(owner.server.address, "GET", "/v2/sandboxes", &[("x-api-key", &key)], None).expect("answer");
    by_key.error(401, "unauthorized");
    owner.call("DELETE", "/teams/default", Value::Null).error(409, "team_conflict");
    owner.call("PATCH", "/teams/default", json!({"name": "x"})).error(409, "team_conflict");
    // The operator makes a team for somebody else, and sees no more of it than that.
    let made = owner.call("POST", "/admin/teams", json!({"name": "lab", "owner": "bob@example.com"})).is(201).json();
    let id = made["team"]["id"].as_str().expect("id").to_owned();
    owner.in_team(&id).get("/v2/sandboxes").error(404, "team_not_found");
    let code = made["invitation"]["url"].as_str().expect("url").split_once('#').expect("link").1.to_owned();
    let body = json!({"code": code, "name": "Bob", "password": PASSWORD});
    assert_eq!(anonymous(&owner.server, "/auth/invitation/accept", &body).is(200).json()["role"], "owner");
    assert!(owner.get("/admin/teams").is(200).text.contains("\"lab\""));
    ada.get("/admin/teams").error(403, "forbidden");
}

#[test]
fn projects_are_seen_by_their_people_alone() {
    let owner = Browser::owner();
    let (ada, bob) = (owner.joined("ada", "developer"), owner.joined("bob", "viewer"));
    let project = owner.call("POST", "/projects", json!({"name": "secret"})).is(201).member("id");
    owner.call("POST", "/projects", json!({"name": "secret"})).error(409, "project_conflict");
    let new = json!({"templateID": "base", "projectId": project});
    let inside = owner.call("POST", "/v2/sandboxes", new.clone()).is(201).member("sandboxID");
    let outside = ada.call("POST", "/v2/sandboxes", json!({"templateID": "base"})).is(201).member("sandboxID");
    let listed = |browser: &Browser| {
        let rows = browser.get("/v2/sandboxes").is(200).json();
        let mut ids: Vec<_> = rows.as_array().expect("rows").iter().map(|row| row["sandboxID"].clone()).collect();
        ids.sort_by_key(|id| id != &json!(inside));
        ids
    };
    let path = format!("/sandboxes/{inside}");
    assert_eq!(listed(&owner), [json!(inside), json!(outside)]);
    assert_eq!(listed(&ada), [json!(outside)]);
    ada.get(&path).error(404, "sandbox_not_found");
    ada.call("POST", "/v2/sandboxes", new.clone()).error(404, "project_not_found");
    assert!(!ada.get("/projects").is(200).text.contains("secret"));
    ada.get(&format!("/projects/{project}")).error(404, "project_not_found");
    // Members have at most their role in the team.
    let role = |browser: &Browser, role: &str| {
        let path = format!("/projects/{project}/members/{}", browser.id());
        owner.call("PUT", &path, json!({"role": role}))
    };
    role(&bob, "developer").error(400, "invalid_request");
    role(&ada, "owner").error(400, "invalid_request");
    role(&ada, "viewer").is(204);
    ada.get(&path).is(200);
    ada.call("DELETE", &path, Value::Null).error(403, "forbidden");
    ada.call("POST", "/v2/sandboxes", new.clone()).error(403, "forbidden");
    bob.get(&path).error(404, "sandbox_not_found");
    // A key of the project reaches nothing else.
    let key = owner.call("POST", "/api-keys", json!({"name": "p", "projectId": project})).is(201).member("key");
    let by_key = |method: &str, path: &str, body: Value| {
        let headers = [("x-api-key", key.as_str()), ("content-type", "application/json")];
        send(owner.server.address, method, path, &headers, Some(body.to_string().as_bytes())).expect("answer")
    };
    by_key("GET", &path, json!({})).is(200);
    by_key("GET", &format!("/sandboxes/{outside}"), json!({})).error(404, "sandbox_not_found");
    by_key("POST", "/events/webhooks", json!({})).error(403, "forbidden");
    let made = by_key("POST", "/v2/sandboxes", json!({"templateID": "base"})).is(201).member("sandboxID");
    ada.get(&format!("/sandboxes/{made}")).is(200);
    by_key("POST", "/v2/sandboxes", json!({"templateID": "base", "projectId": "default"}))
        .error(404, "project_not_found");
    // Its quota counts its own sandboxes.
    let quotas = format!("/projects/{project}/quotas");
    owner.call("PUT", &quotas, json!({"limits": {"turns": 1}})).error(400, "invalid_request");
    owner.call("PUT", &quotas, json!({"limits": {"instances": 2}})).is(200);
    let message = owner.call("POST", "/v2/sandboxes", new).error(429, "quota_exceeded");
    assert!(message.contains("This project uses 2 of 2 sandboxes"), "{message}");
    owner.call("POST", "/v2/sandboxes", json!({"templateID": "base"})).is(201);
    let message = owner.call("DELETE", &format!("/projects/{project}"), Value::Null).error(409, "project_conflict");
    assert!(message.contains(&inside), "{message}");
    owner.call("DELETE", "/projects/default", Value::Null).error(409, "project_conflict");
}

#[test]
fn a_session_survives_a_restart_with_what_it_may_do() {
    let owner = Browser::owner();
    let ada = owner.joined("ada", "viewer");
    let Browser { server, cookie, team } = ada;
    drop(owner);
    let before = server.address.port().to_string();
    let server = Arc::new(Arc::into_inner(server).expect("the only one").restart());
    // Without TLS the cookie is named by the port.
    let cookie = cookie.replacen(&before, &server.address.port().to_string(), 1);
    let ada = Browser { server, cookie, team };
    assert_eq!(ada.get("/auth/session").is(200).json()["role"], "viewer");
    ada.call("POST", "/v2/sandboxes", json!({"templateID": "base"})).error(403, "forbidden");
}
