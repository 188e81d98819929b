//! Data on standard output: stable columns and JSON.

use serde_json::Value;

use crate::fake::Fake;
use crate::{against, report, stderr, stdout};

#[test]
fn sandboxes() {
    let fake = Fake::start();
    assert_eq!(report(&against(&fake, &["ls"])), "exit Some(0)\n--- stdout\n--- stderr\n");
    for _ in 0..3 {
        fake.sandbox();
    }
    insta::assert_snapshot!("ls", report(&against(&fake, &["ls"])));
    assert_eq!(stdout(&against(&fake, &["list", "-q"])), "ifake0\nifake1\nifake2\n");
    let rows: Vec<Value> = serde_json::from_slice(&against(&fake, &["ls", "--json"]).stdout).expect("json");
    assert_eq!(rows.len(), 3, "all pages are read");
    assert_eq!(rows[2]["sandboxID"], "ifake2");
}

#[test]
fn create_sends_its_options() {
    let fake = Fake::start();
    let output = against(
        &fake,
        &[
            "create",
            "--cpu",
            "4",
            "--memory",
            "2G",
            "--disk",
            "20G",
            "--timeout",
            "2h",
            "--env",
            "A=b=c",
            "--metadata",
            "owner=me",
            "--no-internet",
        ],
    );
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("ifake0\n", ""));
    insta::assert_json_snapshot!("create-request", fake.world.created.lock().expect("lock")[0]);
    let output = against(&fake, &["spawn", "--json"]);
    let sandbox: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(sandbox["sandboxID"], "ifake1");
    assert_eq!(fake.world.created.lock().expect("lock")[1], serde_json::json!({"templateID": "base"}));
}

#[test]
fn logs_events_and_templates() {
    let fake = Fake::start();
    let id = fake.sandbox();
    // The log's message contains terminal control sequences.
    insta::assert_snapshot!("logs", report(&against(&fake, &["logs", &id])));
    let line: Value = serde_json::from_slice(&against(&fake, &["logs", &id, "--json"]).stdout).expect("json");
    assert_eq!(line["level"], "info");
    insta::assert_snapshot!("events", report(&against(&fake, &["events"])));
    insta::assert_snapshot!("templates", report(&against(&fake, &["template", "ls"])));
}

#[test]
fn kill_prints_what_it_killed() {
    let fake = Fake::start();
    let (a, b) = (fake.sandbox(), fake.sandbox());
    assert_eq!(stdout(&against(&fake, &["shutdown", &a])), format!("{a}\n"));
    assert_eq!(stdout(&against(&fake, &["kill", "--all", "--yes"])), format!("{b}\n"));
    assert!(fake.live().is_empty());
    assert_eq!(against(&fake, &["kill", "--all"]).status.code(), Some(0), "nothing to ask about");
}

#[test]
fn keys() {
    let fake = Fake::start();
    insta::assert_snapshot!("keys", report(&against(&fake, &["key", "ls"])));
    assert_eq!(stdout(&against(&fake, &["key", "create", "laptop"])), "e2b_0123\n", "for $(...)");
    let made: Value = serde_json::from_slice(&against(&fake, &["key", "create", "ci", "--json"]).stdout).expect("json");
    assert_eq!((&made["name"], &made["key"]), (&"ci".into(), &"e2b_0123".into()));
    let id = "2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f";
    let last = "00000000-0000-4000-8000-000000000000";
    let output = against(&fake, &["key", "rm", last, id]);
    assert_eq!((stdout(&output), output.status.code()), (format!("{id}\n"), Some(1)), "goes on after an error");
    assert!(stderr(&output).contains("the last key stays"), "{}", stderr(&output));
    assert_eq!(against(&fake, &["key", "rm", "laptop"]).status.code(), Some(1), "names are not ids");
}

#[test]
fn webhooks() {
    let fake = Fake::start();
    let id = "2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f";
    insta::assert_snapshot!("webhooks", report(&against(&fake, &["webhooks", "ls"])));
    insta::assert_snapshot!("deliveries", report(&against(&fake, &["webhooks", "deliveries", id])));
    let sent = || fake.world.created.lock().expect("lock").pop().expect("a request");

    // Without a secret, one is generated and printed.
    let output = stdout(&against(&fake, &["webhooks", "add", "https://example.com/hook"]));
    let mut request = sent();
    let secret = request["signatureSecret"].take();
    assert_eq!(secret.as_str().map(str::len), Some(64));
    assert_eq!(output, format!("{id}\t{}\n", secret.as_str().expect("secret")));
    insta::assert_json_snapshot!("webhook-request", request);
    let output = against(&fake, &["webhooks", "add", "https://example.com/hook", "--json"]);
    let made: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!((&made["id"], &made["signatureSecret"]), (&id.into(), &sent()["signatureSecret"]));

    let file = fake.disk.path().join("secret");
    std::fs::write(&file, "hunter2\n").expect("write");
    let file = file.display().to_string();
    let add =
        ["webhooks", "add", "https://example.com/hook", "--secret-file", &file, "--event", "updated", "--event", "a.b"];
    assert_eq!(stdout(&against(&fake, &add)), format!("{id}\n"));
    let request = sent();
    assert_eq!(request["signatureSecret"], "hunter2");
    assert_eq!(request["events"], serde_json::json!(["sandbox.lifecycle.updated", "a.b"]));

    let output = against(&fake, &["webhooks", "rm", "00000000-0000-4000-8000-000000000000", id]);
    assert_eq!((stdout(&output), output.status.code()), (format!("{id}\n"), Some(1)), "goes on after an error");
    assert_eq!(against(&fake, &["webhooks", "rm", "alarms"]).status.code(), Some(1), "names are not ids");
}
