//! Access to the ports of a sandbox: set at creation and kept over restarts.

use serde_json::{Value, json};

use crate::server::TestServer;

#[test]
fn private_ports_have_a_token() {
    let server = TestServer::start();
    let network =
        json!({"allowPublicTraffic": false, "maskRequestHost": "localhost:${PORT}", "httpsPorts": [8443, 443]});
    let made = server.post("/v2/sandboxes", json!({"templateID": "base", "network": network})).is(201);
    let (id, token) = (made.member("sandboxID"), made.member("trafficAccessToken"));
    assert_eq!(token.len(), 64);
    assert_ne!(token, made.member("envdAccessToken"), "each secret is different");
    let shown = json!({"allowPublicTraffic": false, "maskRequestHost": "localhost:${PORT}", "httpsPorts": [443, 8443]});
    let detail = server.get(&format!("/sandboxes/{id}")).is(200);
    assert_eq!(detail.json()["network"], shown);
    assert!(!detail.text.contains(&token));

    let server = server.restart();
    assert_eq!(server.get(&format!("/sandboxes/{id}")).is(200).json()["network"], shown);
    for path in ["/v2/sandboxes", "/sandboxes"] {
        let connected = server.post(&format!("{path}/{id}/connect"), json!({"timeout": 60})).is(200);
        assert_eq!(connected.member("trafficAccessToken"), token);
    }
    server.kill(&id).is(204);
    assert!(!server.get(&format!("/events/sandboxes/{id}?limit=100")).is(200).text.contains(&token));
}

#[test]
fn ports_are_public_by_default() {
    let server = TestServer::start();
    for network in [json!(null), json!({}), json!({"allowPublicTraffic": null}), json!({"allowPublicTraffic": true})] {
        let made = server.post("/v2/sandboxes", json!({"templateID": "base", "network": network})).is(201);
        assert_eq!(made.json()["trafficAccessToken"], Value::Null, "{network}");
        let detail = server.get(&format!("/sandboxes/{}", made.member("sandboxID"))).is(200).json();
        assert_eq!(detail["network"], json!({"allowPublicTraffic": true}));
    }
    let cut = server.create_with(json!({"allow_internet_access": false}));
    let detail = server.get(&format!("/sandboxes/{cut}")).is(200).json();
    assert_eq!(detail["network"], json!({"allowPublicTraffic": true, "denyOut": ["0.0.0.0/0"]}));
}

#[test]
fn private_ports_require_a_secure_guest() {
    let server = TestServer::start();
    let body =
        |secure: Value| json!({"templateID": "base", "network": {"allowPublicTraffic": false}, "secure": secure});
    for secure in [json!(null), json!(false)] {
        let message = server.post("/sandboxes", body(secure)).error(400, "invalid_request");
        assert!(message.contains("secure: true"), "{message}");
    }
    let made = server.post("/sandboxes", body(json!(true))).is(201);
    assert_eq!(made.member("trafficAccessToken").len(), 64);
    for wrong in [json!({"httpsPorts": [49983]}), json!({"maskRequestHost": "a\nb"}), json!({"allowPublicTraffic": 1})]
    {
        server.post("/v2/sandboxes", json!({"templateID": "base", "network": wrong})).error(400, "invalid_request");
    }
    assert_eq!(server.world.ids().len(), 1);
}
