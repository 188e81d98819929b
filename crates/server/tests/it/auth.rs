//! API keys: valid ones are accepted, others get a clear error.

use std::os::unix::fs::PermissionsExt;

use crate::http::send;
use crate::server::TestServer;

#[test]
fn the_first_start_makes_a_key_and_shows_it_once() {
    let server = TestServer::start();
    assert_eq!(server.fresh_key.as_deref(), Some(server.key.as_str()));
    assert!(server.key.starts_with("e2b_") && server.key.len() == 44);
    let mode = std::fs::metadata(server.data_dir().join("key")).expect("key file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = server.restart();
    assert_eq!(again.fresh_key, None);
    again.get("/teams").is(200);
}

#[test]
fn the_key_itself_is_not_in_the_database() {
    let mut server = TestServer::start();
    server.get("/teams").is(200);
    server.stop();
    for entry in std::fs::read_dir(server.data_dir()).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_file() && path.file_name().is_some_and(|n| n != "key") {
            let bytes = std::fs::read(&path).expect("read");
            let found = bytes.windows(server.key.len()).any(|w| w == server.key.as_bytes());
            assert!(!found, "the key is in {}", path.display());
        }
    }
}

#[test]
fn a_lost_key_file_is_replaced() {
    let server = TestServer::start();
    let old = server.key.clone();
    std::fs::remove_file(server.data_dir().join("key")).expect("remove");
    let again = server.restart();
    assert_eq!(again.fresh_key.as_deref(), Some(again.key.as_str()));
    assert_ne!(again.key, old);
    again.get("/teams").is(200);
    let still = send(again.address, "GET", "/teams", &[("x-api-key", &old)], None).expect("answer");
    assert_eq!(still.status, 200, "the first key stays valid");
}

#[test]
fn both_key_headers_work_and_nothing_else() {
    let server = TestServer::start();
    let get = |headers: &[(&str, &str)]| send(server.address, "GET", "/teams", headers, None).expect("answer");
    let bearer = format!("Bearer {}", server.key);
    get(&[("X-API-KEY", &server.key)]).is(200);
    get(&[("Authorization", &bearer)]).is(200);
    let message = get(&[]).error(401, "unauthorized");
    assert!(message.contains("X-API-KEY"), "{message}");
    let upper = server.key.to_uppercase();
    let long = "e2b_".to_owned() + &"a".repeat(5000);
    for wrong in ["", "e2b_", "nonsense", &server.key[..43], &upper, &long] {
        get(&[("X-API-KEY", wrong)]).error(401, "unauthorized");
    }
    let message = get(&[("X-API-KEY", "e2b_0000")]).error(401, "unauthorized");
    assert!(message.contains("not valid"), "{message}");
    assert!(!message.contains("0000"), "a key is not repeated: {message}");
}

#[test]
fn a_team_sees_its_key() {
    let server = TestServer::start();
    let teams = server.get("/teams").is(200).json();
    assert_eq!(teams[0]["name"], "default");
    assert_eq!(teams[0]["teamID"], "default");
    assert_eq!(teams[0]["apiKey"], server.key.as_str());
    assert_eq!(teams[0]["isDefault"], true);
    assert_eq!(teams.as_array().expect("list").len(), 1);
}

#[test]
fn unknown_routes_and_methods_have_the_same_form() {
    let server = TestServer::start();
    for path in ["/nothing", "/v9/templates", "/sandboxes/x/y/z", "/%ff", "//"] {
        server.get(path).error(404, "route_not_found");
    }
    server.call("PATCH", "/sandboxes", None).error(405, "method_not_allowed");
    server.call("DELETE", "/teams", None).error(405, "method_not_allowed");
    let message = server.call("PUT", "/v2/sandboxes", None).error(405, "method_not_allowed");
    assert!(message.contains("PUT"), "{message}");
}

#[test]
fn cors_requests_are_allowed() {
    let server = TestServer::start();
    let headers = [("origin", "https://a.test"), ("access-control-request-method", "POST")];
    let answer = send(server.address, "OPTIONS", "/v2/sandboxes", &headers, None).expect("answer");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("*"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("*"));
    // Errors need it too, or a page could not read them.
    let origin = [("origin", "https://a.test")];
    for (method, path) in [("GET", "/v2/sandboxes"), ("GET", "/nothing"), ("PUT", "/v2/sandboxes"), ("GET", "/health")]
    {
        let answer = send(server.address, method, path, &origin, None).expect("answer");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{method} {path}");
    }
    let listed = server.call_with("GET", "/v2/sandboxes", &origin, None).is(200);
    assert_eq!(listed.header("access-control-expose-headers"), Some("*"), "pages read x-next-token");
}
