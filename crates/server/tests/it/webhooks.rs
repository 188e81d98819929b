//! Webhooks: managed over the API; events are delivered in order and retried until they arrive.

use std::collections::HashSet;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::eventually;
use crate::receiver::{Got, Receiver, Reply};
use crate::server::TestServer;

const SECRET: &str = "a sécret";

/// A server that sends to loopback, with short delays.
fn server() -> TestServer {
    server_with("1")
}

fn server_with(retry_seconds: &str) -> TestServer {
    TestServer::with(&[
        ("webhooks.allow_private", "true"),
        ("webhooks.retry_seconds", retry_seconds),
        ("webhooks.timeout_seconds", "1"),
    ])
}

fn request(url: &str) -> Value {
    let events = ["sandbox.lifecycle.created", "sandbox.lifecycle.killed"];
    json!({"name": "mine", "url": url, "events": events, "signatureSecret": SECRET})
}

/// Creates a webhook for `created` and `killed`.
fn add(server: &TestServer, url: &str) -> String {
    server.post("/events/webhooks", request(url)).is(201).member("id")
}

fn deliveries(server: &TestServer, id: &str) -> Vec<Value> {
    let rows = server.get(&format!("/events/webhooks/{id}/deliveries?limit=100")).is(200).json();
    rows.as_array().expect("rows").clone()
}

fn ids(got: &[Got]) -> Vec<String> {
    got.iter().map(|g| g.json()["id"].as_str().expect("id").to_owned()).collect()
}

#[test]
fn a_webhook_is_created_changed_and_deleted() {
    let server = server();
    assert_eq!(server.get("/events/webhooks").is(200).json(), json!([]));
    let made = server.post("/events/webhooks", request("https://example.com/hook")).is(201);
    let (id, body) = (made.member("id"), made.json());
    let form: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(form, [8, 4, 4, 4, 12], "a UUID");
    assert_eq!((&body["name"], &body["enabled"], &body["teamId"]), (&json!("mine"), &json!(true), &json!("default")));
    assert_eq!(body["events"], json!(["sandbox.lifecycle.created", "sandbox.lifecycle.killed"]));
    assert_eq!((&body["url"], body["createdAt"].is_string()), (&json!("https://example.com/hook"), true));
    let path = format!("/events/webhooks/{id}");
    let update = json!({"url": "https://example.com/new", "enabled": false, "events": ["sandbox.lifecycle.paused"],
        "signatureSecret": "another"});
    let changed = server.call("PATCH", &path, Some(update)).is(200).json();
    assert_eq!((&changed["name"], &changed["enabled"]), (&json!("mine"), &json!(false)), "absent fields stay");
    let server = server.restart();
    assert_eq!(server.get(&path).is(200).json(), changed);
    assert_eq!(server.get("/events/webhooks").is(200).json(), json!([changed]));
    for answer in [server.get(&path), server.get("/events/webhooks"), made] {
        assert!(!answer.text.contains("ecret") && !answer.text.contains("another"), "{}", answer.text);
    }
    assert_eq!(deliveries(&server, &id), [] as [Value; 0]);
    server.call("DELETE", &path, None).is(200);
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("PATCH", path.clone()),
        ("GET", format!("{path}/deliveries")),
    ] {
        server.call(method, &path, Some(json!({}))).error(404, "webhook_not_found");
    }
}

#[test]
fn invalid_webhooks_are_refused() {
    let server = TestServer::start();
    let post = |member: &str, value: Value| {
        let mut body = request("https://example.com/");
        body[member] = value;
        server.post("/events/webhooks", body)
    };
    for (member, value) in [
        ("name", json!("")),
        ("name", json!("x".repeat(257))),
        ("name", json!(null)),
        ("url", json!("ftp://example.com/")),
        ("url", json!("example.com")),
        ("url", json!(format!("https://example.com/{}", "x".repeat(2048)))),
        ("url", json!(5)),
        ("events", json!([])),
        ("events", json!("sandbox.lifecycle.created")),
        ("signatureSecret", json!("")),
        ("signatureSecret", json!("x".repeat(513))),
        ("signatureSecret", json!(null)),
        ("enabled", json!("yes")),
    ] {
        let message = post(member, value.clone()).error(400, "invalid_request");
        assert!(!message.contains(SECRET), "{message}");
    }
    let message = post("events", json!(["sandbox.lifecycle.exploded"])).error(400, "invalid_request");
    for kind in ["created", "updated", "paused", "resumed", "snapshotted", "killed", "requested", "ending"] {
        assert!(message.contains(&format!("sandbox.lifecycle.{kind}")), "{message}");
    }
    for url in
        ["http://127.0.0.1:3000/", "http://localhost/", "http://[::1]/", "http://10.0.0.1/", "http://100.96.0.6/"]
    {
        let message = post("url", json!(url)).error(400, "invalid_request");
        assert!(message.contains("webhooks.allow_private"), "{message}");
    }
    post("url", json!("http://169.254.169.254/latest/meta-data/")).error(400, "invalid_request");
    let id = add(&server, "https://example.com/");
    for update in
        [json!({"url": "http://127.0.0.1/"}), json!({"events": []}), json!({"signatureSecret": ""}), json!([])]
    {
        server.call("PATCH", &format!("/events/webhooks/{id}"), Some(update)).error(400, "invalid_request");
    }
    for _ in 1..20 {
        add(&server, "https://example.com/");
    }
    let message = server.post("/events/webhooks", request("https://example.com/")).error(400, "invalid_request");
    assert!(message.contains("20 webhooks"), "{message}");
}

#[test]
fn events_arrive_signed_and_in_order() {
    let server = server();
    let receiver = Receiver::start(&[]);
    let id = add(&server, &receiver.url());
    let sandbox = server.create_with(json!({"metadata": {"project": "x"}}));
    server.kill(&sandbox).is(204);
    let got = receiver.wait(2);
    assert_eq!(receiver.kinds(), ["created", "killed"], "and no other types");
    let events = server.get(&format!("/events/sandboxes/{sandbox}?orderAsc=true")).is(200).json();
    for got in &got {
        got.is_signed(SECRET);
        assert_eq!(
            (got.header("e2b-webhook-id"), got.header("content-type")),
            (Some(id.as_str()), Some("application/json"))
        );
        assert!(got.header("user-agent").is_some_and(|agent| agent.starts_with("cabana/")));
        let mut body = got.json();
        assert_eq!(body["eventData"]["sandbox_metadata"], json!({"project": "x"}));
        assert_eq!(body["deliveryId"].as_str(), got.header("e2b-delivery-id"));
        // The rest is the event as the API returns it.
        for extra in ["sandbox_metadata", "execution"] {
            body["eventData"].as_object_mut().expect("details").remove(extra);
        }
        let event = events.as_array().expect("rows").iter().find(|e| e["id"] == body["id"]).expect("the event");
        for (name, value) in event.as_object().expect("event") {
            assert_eq!(&body[name], value, "{name}");
        }
    }
    eventually("both are noted", || deliveries(&server, &id).iter().all(|d| d["status"] == "delivered"));
    let listed = deliveries(&server, &id);
    assert_eq!(
        (&listed[1]["eventType"], &listed[0]["eventType"]),
        (&json!("sandbox.lifecycle.created"), &json!("sandbox.lifecycle.killed"))
    );
    assert_eq!(
        (&listed[0]["lastStatus"], &listed[0]["tries"], &listed[0]["sandboxId"]),
        (&json!(200), &json!(1), &json!(sandbox))
    );
    assert_eq!(listed[0]["deliveryId"].as_str(), got[1].header("e2b-delivery-id"));
    assert!(
        listed[0]["finishedAt"].is_string() && listed[0]["nextTryAt"].is_null() && listed[0]["lastError"].is_null()
    );
}

#[test]
fn failed_deliveries_are_retried() {
    // A long delay follows each failure; updating the webhook ends it, so every attempt can be observed.
    let server = server_with("3600");
    let elsewhere = Receiver::start(&[]);
    let receiver = Receiver::start(&[Reply::Status(500), Reply::Hang, Reply::Redirect(elsewhere.url()), Reply::Close]);
    let id = add(&server, &receiver.url());
    let sandbox = server.create();
    server.kill(&sandbox).is(204);
    let failures =
        [("status 500", json!(500)), ("no answer within 1 s", json!(null)), ("307", json!(307)), ("send", json!(null))];
    for (tries, (error, status)) in (1..).zip(failures) {
        eventually("the failure is noted", || {
            deliveries(&server, &id).len() == 2 && deliveries(&server, &id)[1]["tries"] == tries
        });
        let listed = deliveries(&server, &id);
        let (killed, created) = (&listed[0], &listed[1]);
        assert_eq!((&created["status"], &created["lastStatus"]), (&json!("pending"), &status));
        assert!(created["lastError"].as_str().is_some_and(|e| e.contains(error)), "{created}");
        assert!(created["nextTryAt"].is_string(), "{created}");
        assert_eq!(
            (&killed["status"], &killed["tries"]),
            (&json!("pending"), &json!(0)),
            "it waits until the earlier one is delivered"
        );
        server.call("PATCH", &format!("/events/webhooks/{id}"), Some(json!({"name": "changed"}))).is(200);
    }
    let got = receiver.wait(6);
    assert_eq!(receiver.kinds(), ["created", "created", "created", "created", "created", "killed"]);
    let ids = ids(&got);
    assert!(ids[..5].iter().all(|id| *id == ids[0]), "the same event: receivers know it by its id");
    let tries: HashSet<_> = got.iter().map(|g| g.header("e2b-delivery-id").expect("id").to_owned()).collect();
    assert_eq!(tries.len(), 6, "every attempt has its own id");
    got.iter().for_each(|g| g.is_signed(SECRET));
    eventually("the success is noted", || deliveries(&server, &id).iter().all(|d| d["status"] == "delivered"));
    assert_eq!(deliveries(&server, &id)[1]["tries"], 5);
    assert_eq!(elsewhere.got().len(), 0, "redirects are not followed");
}

#[test]
fn a_receiver_that_was_down_gets_everything_after_a_restart() {
    let mut server = server();
    let place = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address");
    let id = add(&server, &format!("http://{place}/"));
    let sandbox = server.create();
    eventually("it was tried", || deliveries(&server, &id)[0]["tries"].as_u64() > Some(0));
    let error = deliveries(&server, &id)[0]["lastError"].as_str().expect("error").to_owned();
    assert!(error.contains("connect to 127.0.0.1"), "{error}");
    server.crash();
    let server = server.restart();
    server.kill(&sandbox).is(204);
    let receiver = Receiver::at(place, &[]);
    receiver.wait(2);
    assert_eq!(receiver.kinds(), ["created", "killed"]);
    eventually("nothing waits", || server.get(&format!("/events/webhooks/{id}")).is(200).json()["pending"] == 0);
    let mut server = server;
    server.stop();
    let server = server.restart();
    server.create();
    let got = receiver.wait(3);
    assert_eq!(ids(&got).into_iter().collect::<HashSet<_>>().len(), 3, "what was delivered is not sent again");
}

#[test]
fn deleted_and_disabled_webhooks_get_nothing() {
    let server = server_with("2");
    let (gone, off) = (Receiver::start(&[Reply::Status(503)]), Receiver::start(&[Reply::Status(503)]));
    let (gone_id, off_id) = (add(&server, &gone.url()), add(&server, &off.url()));
    server.create();
    gone.wait(1);
    off.wait(1);
    server.call("DELETE", &format!("/events/webhooks/{gone_id}"), None).is(200);
    let path = format!("/events/webhooks/{off_id}");
    let changed = server.call("PATCH", &path, Some(json!({"enabled": false}))).is(200).json();
    assert_eq!(changed["pending"], 0);
    assert_eq!(deliveries(&server, &off_id)[0]["lastError"], "the webhook was disabled");
    // Another webhook fails; during its retries the two would have been retried as well.
    let other = Receiver::start(&[Reply::Status(500), Reply::Status(500)]);
    add(&server, &other.url());
    server.create();
    other.wait(3);
    assert_eq!((gone.got().len(), off.got().len()), (1, 1));
    server.call("PATCH", &path, Some(json!({"enabled": true}))).is(200);
    let sandbox = server.create();
    let got = off.wait(2);
    assert_eq!(got[1].json()["sandboxId"], sandbox.as_str(), "events from while it was disabled are not sent");
}

#[test]
fn a_slow_receiver_delays_nothing_else() {
    let server = TestServer::with(&[("webhooks.allow_private", "true"), ("webhooks.timeout_seconds", "30")]);
    let (slow, quick) = (Receiver::start(&[Reply::Hang]), Receiver::start(&[]));
    add(&server, &slow.url());
    add(&server, &quick.url());
    let made: Vec<String> = (0..5).map(|_| server.create()).collect();
    made.iter().for_each(|id| drop(server.kill(id).is(204)));
    quick.wait(10);
    assert_eq!(slow.got().len(), 1, "one at a time");
    for id in &made {
        let kinds: Vec<_> =
            quick.got().iter().filter(|g| g.json()["sandboxId"] == id.as_str()).map(Got::kind).collect();
        assert_eq!(kinds, ["created", "killed"]);
    }
    let mut server = server;
    server.stop();
}
