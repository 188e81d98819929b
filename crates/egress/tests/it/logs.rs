//! Values of secrets are in no log line, whatever the level.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::support::{World, ask, get, plain_echo};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_value_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::start(json!({
        "allowOut": ["a.com"], "denyOut": ["0.0.0.0/0"],
        "rules": {"a.com": {"x-key": "${e2b.secrets.key}"}},
        "egressProxy": {"address": "4.4.4.4:1080", "username": "user", "password": "canary-password"},
    }))
    .await;
    world.name("a.com", &["1.1.1.1"]);
    world.serve("1.1.1.1:80", plain_echo("a").await);
    world.secrets.lock().expect("lock").insert("key".to_owned(), "canary-secret".to_owned());
    let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
    assert!(answer.contains("cannot connect"), "{answer}");
    world.set_policy(json!({
        "allowOut": ["a.com"], "denyOut": ["0.0.0.0/0"], "rules": {"a.com": {"x-key": "${e2b.secrets.key}"}},
    }));
    assert!(ask(world.connect("1.1.1.1:80").await, &get("a.com")).await.contains("canary-secret"));
    world.secrets.lock().expect("lock").insert("key".to_owned(), "canary\nsecret".to_owned());
    assert!(ask(world.connect("1.1.1.1:80").await, &get("a.com")).await.contains("a line break"));
    let log = String::from_utf8_lossy(&log.0.lock().expect("lock")).into_owned();
    assert!(log.contains("cannot connect for a sandbox"), "it is a log: {log}");
    assert!(!log.contains("canary"), "{log}");
}
