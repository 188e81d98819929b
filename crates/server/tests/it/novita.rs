//! Novita's routes beyond those of E2B.

use serde_json::{Value, json};

use crate::eventually;
use crate::server::TestServer;
use crate::world::Fault;

#[test]
fn the_quota_is_that_of_the_server() {
    let server = TestServer::with(&[("limits.max_sandboxes", "10")]);
    server.create_with(json!({"cpuCount": 3, "memoryMB": 256}));
    server.create();
    let quota = server.get("/sandboxes/quota").is(200).json();
    let limit = json!({"concurrentInstances": 10, "concurrentVcpu": 80, "concurrentRamMb": 81920, "maxLengthHours": 720,
        "diskMb": 102_400, "maxVcpu": 8, "maxRamMb": 8192});
    assert_eq!(quota["limit"], limit);
    assert_eq!(quota["usage"], json!({"concurrentInstances": 2, "concurrentVcpu": 5, "concurrentRamMb": 768}));
}

#[test]
fn events_are_mapped_to_fewer_types() {
    let server = TestServer::start();
    let killed = server.create();
    server.kill(&killed).is(204);
    let expired = server.create();
    server.post(&format!("/sandboxes/{expired}/timeout"), json!({"timeout": 0})).is(204);
    server.world.on_launch(Some(Fault::Fail));
    server.post("/v2/sandboxes", json!({"templateID": "base"})).error(500, "sandbox_create_failed");
    let page = |query: &str| server.get(&format!("/sandboxes/events?{query}")).is(200).json();
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items");
        items.iter().map(|i| i["eventName"].as_str().expect("name").to_owned()).collect()
    };
    eventually("all is recorded", || page("events=timeout")["total"] == 1);
    let all = page("orderAsc=true");
    assert_eq!(all["total"], json!(names(&all).len()));
    assert_eq!(all["hasMore"], false);
    let item = &all["items"][0];
    assert_eq!(
        (&item["eventName"], &item["state"], &item["statusCode"]),
        (&json!("create"), &json!("success"), &json!(201))
    );
    assert_eq!(
        (&item["sandboxID"], &item["templateName"], &item["errorMsg"]),
        (&json!(killed), &json!("base"), &json!(""))
    );
    assert!(item["recordAt"].is_i64() && item["eventID"].is_string() && item["templateID"].is_string());
    let failed = page("state=failed");
    assert_eq!(names(&failed), ["create"]);
    assert_eq!(failed["items"][0]["statusCode"], 500);
    assert!(failed["items"][0]["errorMsg"].as_str().is_some_and(|m| m.contains("could not be created")));
    assert_eq!(names(&page(&format!("sandboxID={killed}&orderAsc=true"))), ["create", "delete"]);
    assert_eq!(names(&page("events=delete,timeout&orderAsc=true")), ["delete", "timeout"]);
    let first = page("limit=1&orderAsc=true");
    assert_eq!((&first["hasMore"], first["items"].as_array().map(Vec::len)), (&json!(true), Some(1)));
    assert_eq!(page("offset=100")["items"], json!([]));
    assert_eq!(page("endTime=5")["total"], 0);
    let now = jiff::Timestamp::now().as_second();
    assert_eq!(page(&format!("startTime={}&endTime={now}", now - 600))["total"], all["total"]);
    let template = item["templateID"].as_str().expect("id");
    assert_eq!(page(&format!("templateID={template}"))["total"], all["total"]);
    assert_eq!(page("templateID=nothing")["total"], 0);
    assert_eq!(page("sandboxID=No-Thing!")["total"], 0);
    for query in ["state=odd", "limit=0", "offset=-1", "startTime=x"] {
        server.get(&format!("/sandboxes/events?{query}")).error(400, "invalid_request");
    }
}

#[test]
fn templates_are_paged_by_number() {
    let server = TestServer::start();
    let check = |page: Value| {
        assert_eq!((&page["total"], &page["page"], &page["totalPages"]), (&json!(1), &json!(1), &json!(1)), "{page}");
        assert_eq!(page["templates"][0]["aliases"], json!(["base"]));
    };
    check(server.get("/v2/templates?template_type=template_build&page=1&limit=20").is(200).json());
    let agent = [("user-agent", "novita-sandbox-python-sdk/2.1.1")];
    check(server.call_with("GET", "/v2/templates", &agent, None).is(200).json());
    let second = server.get("/v2/templates?page=2&limit=1").is(200).json();
    assert_eq!((&second["templates"], &second["total"], &second["page"]), (&json!([]), &json!(1), &json!(2)));
    assert_eq!(server.get("/v2/templates?template_type=snapshot_template").is(200).json()["total"], 0);
    assert!(server.get("/v2/templates").is(200).json().is_array(), "E2B's clients expect a list");
    for query in ["page=0", "page=x", "page=1&limit=101", "template_type=odd"] {
        server.get(&format!("/v2/templates?{query}")).error(400, "invalid_request");
    }
}

#[test]
fn connect_accepts_unchanged_options() {
    let server = TestServer::start();
    let open = server.create();
    let connect = |id: &str, extra: Value| {
        let mut body = extra;
        body["timeout"] = json!(60);
        server.post(&format!("/sandboxes/{id}/connect"), body)
    };
    for extra in [
        json!({"secure": true}),
        json!({"allowPublicTraffic": true}),
        json!({"network": {"allowPublicTraffic": true}}),
        json!({"network": null, "autoPause": false}),
    ] {
        connect(&open, extra).is(200);
    }
    for extra in [json!({"allowPublicTraffic": false}), json!({"network": {"allowPublicTraffic": false}})] {
        let message = connect(&open, extra).error(400, "not_supported");
        assert!(message.contains("allowPublicTraffic"), "{message}");
    }
    let private = server.create_with(json!({"network": {"allowPublicTraffic": false}}));
    assert!(connect(&private, json!({"allowPublicTraffic": false})).is(200).json()["trafficAccessToken"].is_string());
    let plain = server.post("/sandboxes", json!({"templateID": "base", "timeout": 60})).is(201).member("sandboxID");
    connect(&plain, json!({"secure": true})).error(400, "not_supported");
    let answer = server.post("/sandboxes", json!({"templateID": "base", "secrets": {"TOKEN": "name"}}));
    assert!(answer.error(400, "invalid_request").contains("does not exist"));
}
