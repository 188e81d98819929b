//! Isolation backends: listed, chosen at creation, and refused where there is none of that name.

use serde_json::json;

use crate::server::TestServer;

#[test]
fn the_backends_of_a_server_are_listed() {
    let server = TestServer::start();
    let status = server.get("/status").is(200).json();
    assert_eq!(status["backend"], "fake");
    let expected = json!([{
        "name": "fake", "default": true, "pauseMemory": true, "checkpoint": false, "memoryOutlivesReboot": false,
        "mounts": false, "outOfMemory": "process",
    }]);
    assert_eq!(status["isolations"], expected);
}

#[test]
fn an_unknown_backend_is_refused() {
    let server = TestServer::start();
    server.create_with(json!({"isolation": "fake"}));
    let body = json!({"templateID": "base", "isolation": "nonesuch"});
    let message = server.post("/v2/sandboxes", body).error(400, "invalid_request");
    assert_eq!(message, "isolation \"nonesuch\" is not available; this server has: fake");
    assert_eq!(server.listed().len(), 1);
}

#[test]
fn a_template_has_a_default() {
    let server = TestServer::start();
    let set = |name: &str| server.call("PATCH", "/v2/templates/base", Some(json!({"isolation": name})));
    set("nonesuch").error(400, "invalid_request");
    set("fake").is(200);
    server.create();
    set("").is(200);
    server.create();
}
