//! The description of the API: committed, correct and complete.

use serde_json::Value;

use crate::http::send;
use crate::server::TestServer;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/cabana.json");

#[test]
fn the_committed_description_is_current() {
    let current = cabana_server::api::document();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(std::path::Path::new(COMMITTED).parent().expect("parent")).expect("directory");
        std::fs::write(COMMITTED, current).expect("write");
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(committed == current, "openapi/cabana.json is out of date: run this test with UPDATE=1 and commit it");
}

#[test]
fn it_is_served() {
    let server = TestServer::start();
    let answer = send(server.address, "GET", "/openapi.json", &[], None).expect("answer").is(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.text, cabana_server::api::document());
}

/// Every route of the description, as `(method, path, requires a key)`.
pub(crate) fn routes() -> Vec<(String, String, bool)> {
    let document: Value = serde_json::from_str(cabana_server::api::document()).expect("JSON");
    let mut routes = vec![];
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("item") {
            let public =
                operation["security"].as_array().is_some_and(|s| s.iter().any(|s| s == &serde_json::json!({})));
            routes.push((method.to_uppercase(), path.clone(), !public));
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

#[test]
fn every_route_requires_a_key() {
    let server = TestServer::start();
    let id = server.create();
    let before = server.world.ids();
    let mut public = vec![];
    for (method, path, private) in routes() {
        let path = path.replace("{sandboxID}", &id).replace("{templateID}", "base").replace("{alias}", "base");
        let path = path.replace("{teamID}", "default").replace(['{', '}'], "");
        for headers in [&[][..], &[("x-api-key", "e2b_ffffffffffffffffffffffffffffffffffffffff")]] {
            let answer = send(server.address, &method, &path, headers, Some(b"{}")).expect("answer");
            if private {
                answer.error(401, "unauthorized");
            } else if path.starts_with("/auth/") && method == "POST" {
                // For the console's own page, which a program is not.
                answer.error(403, "forbidden");
            } else {
                assert!(answer.status < 300, "{method} {path}: {}", answer.text);
                public.push(path.clone());
            }
        }
        // With the key the route exists: any response but that of a missing route.
        if private && method == "GET" {
            let answer = server.call(&method, &path, None);
            assert!(!answer.text.contains("route_not_found"), "{method} {path}: {}", answer.text);
        }
    }
    public.dedup();
    // Verifiers of workload identity tokens have no key of this server.
    let identity = ["/.well-known/jwks.json", "/.well-known/openid-configuration"];
    assert_eq!(public, [&identity[..], &["/auth/methods", "/health", "/openapi.json"]].concat());
    assert_eq!(server.world.ids(), before);
}
