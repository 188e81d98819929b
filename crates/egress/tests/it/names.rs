//! Which connections are allowed, and where they lead.

use cabana_types::egress::Bounds;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{World, ask, get, is_signed_by, plain_echo, server};

fn only(hosts: &[&str]) -> serde_json::Value {
    json!({"allowOut": hosts, "denyOut": ["0.0.0.0/0"]})
}

#[tokio::test]
async fn a_name_leads_to_its_own_addresses() {
    let world = World::start(only(&["api.example.com"])).await;
    world.name("api.example.com", &["93.184.216.34"]);
    world.serve("93.184.216.34:443", world.tls_echo("api.example.com", "right").await);
    world.serve("6.6.6.6:443", world.tls_echo("api.example.com", "wrong").await);
    // The sandbox connected to an address that it made up.
    let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.internet), "it is passed through");
    assert!(ask(stream, &get("api.example.com")).await.contains("server: right"));
    assert_eq!(world.dialled(), ["93.184.216.34:443"]);
    assert!(world.denied().is_empty());
}

#[tokio::test]
async fn other_names_are_closed_without_an_answer() {
    let world = World::start(only(&["api.example.com", "*.example.org"])).await;
    world.name("evil.com", &["6.6.6.6"]);
    world.serve("6.6.6.6:443", world.tls_echo("evil.com", "evil").await);
    world.serve("6.6.6.6:80", plain_echo("evil").await);
    for name in ["evil.com", "example.org", "api.example.com.evil.com"] {
        world.connect_tls("6.6.6.6:443", name).await.expect_err(name);
        assert_eq!(ask(world.connect("6.6.6.6:80").await, &get(name)).await, "", "{name}");
    }
    assert!(world.dialled().is_empty());
    let denied = world.denied();
    assert_eq!(denied[0], ("evil.com:443".to_owned(), "denyOut 0.0.0.0/0".to_owned()));
    assert_eq!((denied[1].0.as_str(), denied.len()), ("evil.com:80", 6));
}

#[tokio::test]
async fn a_connection_without_a_name_is_judged_by_its_address() {
    let world = World::start(json!({"allowOut": ["9.9.9.9", "a.com"], "denyOut": ["0.0.0.0/0"]})).await;
    // The server speaks first.
    let banner = server(|mut stream| async move {
        let _ = stream.write_all(b"hello").await;
    })
    .await;
    for address in ["9.9.9.9:443", "9.9.9.9:80", "9.9.9.9:22"] {
        world.serve(address, banner);
        let mut greeting = String::new();
        world.connect(address).await.read_to_string(&mut greeting).await.expect("greeting");
        assert_eq!(greeting, "hello", "{address}");
    }
    world.serve("9.9.9.8:443", banner);
    assert_eq!(ask(world.connect("9.9.9.8:443").await, "SSH-2.0-x\r\n").await, "");
    assert_eq!(world.denied(), [("9.9.9.8:443".to_owned(), "denyOut 0.0.0.0/0".to_owned())]);
    assert_eq!(world.dialled().len(), 3);
}

#[tokio::test]
async fn a_name_that_no_rule_mentions_is_connected_at_its_address() {
    let world = World::start(json!({"rules": {"ruled.com": {"x-a": "b"}}})).await;
    world.serve("5.5.5.5:443", world.tls_echo("other.com", "other").await);
    let stream = world.connect_tls("5.5.5.5:443", "other.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.internet));
    assert!(ask(stream, &get("other.com")).await.contains("server: other"));
    assert_eq!(world.dialled(), ["5.5.5.5:443"]);
}

#[tokio::test]
async fn a_name_must_not_lead_inside() {
    let world = World::start(only(&["*"])).await;
    let inside = plain_echo("inside").await;
    for (name, address) in [
        ("rebind.com", "127.0.0.1"),
        ("private.com", "10.0.0.1"),
        ("meta.com", "169.254.169.254"),
        ("mapped.com", "::ffff:10.0.0.1"),
        ("link.com", "203.0.113.9"),
    ] {
        world.bounds.lock().expect("lock").clone_from(&std::sync::Arc::new(Bounds {
            on_link: vec!["203.0.113.0/24".parse().expect("prefix")],
            ..Bounds::default()
        }));
        world.name(name, &[address]);
        world.serve(&std::net::SocketAddr::new(address.parse().expect("address"), 80).to_string(), inside);
        assert_eq!(ask(world.connect("8.8.8.8:80").await, &get(name)).await, "", "{name}");
    }
    assert!(world.dialled().is_empty());
    assert_eq!(world.denied().len(), 5);
    assert_eq!(world.denied()[0].1, "name without an allowed address");
    // An address that may be connected to is enough.
    world.name("mixed.com", &["10.0.0.1", "8.8.4.4"]);
    world.serve("8.8.4.4:80", plain_echo("public").await);
    assert!(ask(world.connect("8.8.8.8:80").await, &get("mixed.com")).await.contains("server: public"));
}

#[tokio::test]
async fn the_next_address_is_tried() {
    let world = World::start(only(&["a.com"])).await;
    world.name("a.com", &["1.1.1.1", "1.0.0.1", "2606:4700::1111"]);
    world.serve("[2606:4700::1111]:80", plain_echo("third").await);
    assert!(ask(world.connect("1.1.1.1:80").await, &get("a.com")).await.contains("server: third"));
    // None answers, or the name does not exist: allowed, but not reachable.
    world.name("b.com", &["1.1.1.1"]);
    world.set_policy(only(&["a.com", "b.com", "c.com"]));
    for name in ["b.com", "c.com"] {
        let answer = ask(world.connect("1.1.1.1:80").await, &get(name)).await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("egress_upstream_failed"), "{answer}");
    }
    assert!(world.denied().is_empty());
}

#[tokio::test]
async fn the_operators_bounds_come_first() {
    let world = World::start(json!({"allowOut": ["*"], "denyOut": ["0.0.0.0/0"]})).await;
    *world.bounds.lock().expect("lock") = std::sync::Arc::new(Bounds {
        deny: vec!["*.evil.org".parse().expect("target"), "7.7.7.7".parse().expect("target")],
        ..Bounds::default()
    });
    world.name("a.evil.org", &["8.8.8.8"]);
    world.name("a.com", &["7.7.7.7"]);
    for name in ["a.evil.org", "a.com"] {
        assert_eq!(ask(world.connect("8.8.8.8:80").await, &get(name)).await, "", "{name}");
    }
    assert!(world.dialled().is_empty());
    assert_eq!(world.denied()[0].1, "operator deny *.evil.org");
}

#[tokio::test]
async fn both_directions_end_on_their_own() {
    let world = World::start(json!({"allowOut": ["9.9.9.9", "a.com"], "denyOut": ["0.0.0.0/0"]})).await;
    // Answers only after the client has ended its side.
    let counter = server(|mut stream| async move {
        let mut all = Vec::new();
        if stream.read_to_end(&mut all).await.is_ok() {
            let _ = stream.write_all(all.len().to_string().as_bytes()).await;
        }
    })
    .await;
    world.serve("9.9.9.9:443", counter);
    let mut stream = world.connect("9.9.9.9:443").await;
    stream.write_all(&vec![b'x'; 1 << 20]).await.expect("write");
    stream.shutdown().await.expect("shutdown");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answer");
    assert_eq!(answer, (1 << 20).to_string());
}
