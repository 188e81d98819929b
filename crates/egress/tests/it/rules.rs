//! Hosts with rules: their connections are intercepted, and headers set.

use std::sync::Arc;

use cabana_egress::Authority;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::support::{World, ask, get, is_signed_by, plain_echo, read_response, server};

const VALUE: &str = "sk-canary-7261";

async fn world(headers: serde_json::Value) -> Arc<World> {
    let world = World::start(json!({
        "allowOut": ["api.example.com", "other.com"],
        "denyOut": ["0.0.0.0/0"],
        "rules": {"api.example.com": headers},
    }))
    .await;
    world.name("api.example.com", &["93.184.216.34"]);
    world.name("other.com", &["5.5.5.5"]);
    world.serve("93.184.216.34:443", world.tls_echo("api.example.com", "api").await);
    world.serve("93.184.216.34:80", plain_echo("plain").await);
    world.serve("5.5.5.5:443", world.tls_echo("other.com", "other").await);
    world.secrets.lock().expect("lock").insert("key".to_owned(), VALUE.to_owned());
    world
}

#[tokio::test]
async fn headers_are_set_and_override() {
    let headers = json!({
        "authorization": "Bearer ${e2b.secrets.KEY}",
        "X-Token": "${e2b.identity.tokens.gcp}",
        "x-plain": "text",
    });
    let world = world(headers).await;
    let request = "GET /v1 HTTP/1.1\r\nHost: api.example.com\r\nAuthorization: Bearer mine\r\nauthorization: twice\r\n\
                   Connection: close, authorization, x-token\r\nX-Plain: other\r\nX-Own: stays\r\n\r\n";
    let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.authority), "it is intercepted");
    let answer = ask(stream, request).await;
    for (line, times) in [
        (&*format!("authorization: Bearer {VALUE}\n"), 1),
        ("x-token: token-of-gcp\n", 1),
        ("x-plain: text\n", 1),
        ("x-own: stays\n", 1),
        ("host: api.example.com\n", 1),
        ("mine", 0),
        ("twice", 0),
    ] {
        assert_eq!(answer.matches(line).count(), times, "{line}: {answer}");
    }
    // Plain HTTP likewise; and other hosts are untouched.
    let plain = ask(world.connect("6.6.6.6:80").await, request).await;
    assert!(plain.contains("server: plain") && plain.contains(VALUE), "{plain}");
    let stream = world.connect_tls("5.5.5.5:443", "other.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.internet), "it is not intercepted");
    assert!(!ask(stream, &get("other.com")).await.contains(VALUE));
    assert_eq!(world.dialled(), ["93.184.216.34:443", "93.184.216.34:80", "5.5.5.5:443"]);
}

#[tokio::test]
async fn the_current_value_is_used_for_each_request() {
    let world = world(json!({"x-key": "${e2b.secrets.key}"})).await;
    let mut stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
    for value in ["first", "second"] {
        world.secrets.lock().expect("lock").insert("key".to_owned(), value.to_owned());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n").await.expect("write");
        let response = read_response(&mut stream).await;
        assert!(response.contains(&format!("x-key: {value}\n")), "{response}");
    }
    assert_eq!(world.dialled().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_filled_is_an_error_without_values() {
    for (headers, reason) in [
        (json!({"x-a": "${e2b.secrets.key} ${e2b.secrets.unknown}"}), "the secret unknown: it does not exist"),
        (json!({"x-a": "${e2b.secrets.key}", "x-b": "${e2b.identity.tokens.aws}"}), "no signing key"),
        (json!({"x-a": "${e2b.secrets.key}${e2b.secrets.lines}"}), "a line break"),
        (json!({"x-a": "${e2b.secrets.key}${e2b.secrets.long}"}), "longer than"),
        (json!({"transfer-encoding": "${e2b.secrets.key}"}), "belongs to the connection"),
        (json!({"Host": "other.com"}), "belongs to the connection"),
        (json!({"a b": "${e2b.secrets.key}"}), "its name is malformed"),
    ] {
        let world = world(headers).await;
        let mut secrets = world.secrets.lock().expect("lock").clone();
        secrets.insert("lines".to_owned(), "a\r\nx-injected: b".to_owned());
        secrets.insert("long".to_owned(), "x".repeat(40_000));
        *world.secrets.lock().expect("lock") = secrets;
        let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
        let answer = ask(stream, &get("api.example.com")).await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains(reason), "{answer}");
        assert!(answer.contains("egress_header_unavailable") && !answer.contains(VALUE), "{answer}");
        assert!(world.dialled().is_empty(), "nothing was sent");
    }
}

#[tokio::test]
async fn other_hosts_on_an_intercepted_connection_are_refused() {
    let world = world(json!({"x-key": "${e2b.secrets.key}"})).await;
    for host in ["other.com", "evil.com", "api.example.com:8443", "93.184.216.34"] {
        let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
        let answer = ask(stream, &get(host)).await;
        assert!(answer.starts_with("HTTP/1.1 421"), "{host}: {answer}");
    }
    let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
    let absolute = "GET https://other.com/ HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n";
    assert!(ask(stream, absolute).await.starts_with("HTTP/1.1 400"));
    assert!(world.dialled().is_empty());
}

#[tokio::test]
async fn a_server_is_not_asked_to_repeat_the_headers() {
    let world = world(json!({"x-key": "${e2b.secrets.key}"})).await;
    for method in ["TRACE", "TRACK"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
        let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
        assert!(ask(stream, &request).await.starts_with("HTTP/1.1 400"), "{method}");
        assert!(ask(world.connect("6.6.6.6:80").await, &request).await.starts_with("HTTP/1.1 400"), "{method}");
    }
    assert!(world.dialled().is_empty());
}

#[tokio::test]
async fn a_rule_does_not_open_egress() {
    let world = World::start(json!({
        "allowOut": ["other.com"],
        "denyOut": ["0.0.0.0/0"],
        "rules": {"api.example.com": {"x-a": "b"}},
    }))
    .await;
    world.name("api.example.com", &["93.184.216.34"]);
    world.connect_tls("93.184.216.34:443", "api.example.com").await.expect_err("denied");
    assert_eq!(world.denied(), [("api.example.com:443".to_owned(), "denyOut 0.0.0.0/0".to_owned())]);
}

#[tokio::test]
async fn secrets_go_only_to_the_hosts_own_addresses() {
    // The policy allows every address, so the address that the sandbox made up is allowed.
    let world = World::start(json!({"rules": {"api.example.com": {"x-key": "${e2b.secrets.key}"}}})).await;
    world.secrets.lock().expect("lock").insert("key".to_owned(), VALUE.to_owned());
    world.name("api.example.com", &["93.184.216.34"]);
    world.serve("93.184.216.34:80", plain_echo("right").await);
    world.serve("6.6.6.6:80", plain_echo("wrong").await);
    let answer = ask(world.connect("6.6.6.6:80").await, &get("api.example.com")).await;
    assert!(answer.contains("server: right") && answer.contains(VALUE), "{answer}");
    assert_eq!(world.dialled(), ["93.184.216.34:80"]);
    // Its own addresses must be allowed, too.
    world.set_policy(json!({
        "denyOut": ["93.184.216.0/24"],
        "rules": {"api.example.com": {"x-key": "${e2b.secrets.key}"}},
    }));
    assert_eq!(ask(world.connect("6.6.6.6:80").await, &get("api.example.com")).await, "");
    assert_eq!(world.dialled().len(), 1);
}

#[tokio::test]
async fn the_servers_certificate_is_verified() {
    let world = world(json!({"x-key": "${e2b.secrets.key}"})).await;
    let stranger = Authority::generate().expect("authority");
    let strange = TlsAcceptor::from(stranger.server_config(&"api.example.com".parse().expect("name")).expect("config"));
    let got = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&got);
    let unknown = server(move |stream| {
        let (strange, seen) = (strange.clone(), Arc::clone(&seen));
        async move {
            if let Ok(mut stream) = strange.accept(stream).await {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                seen.lock().expect("lock").extend(bytes);
            }
        }
    })
    .await;
    for impostor in [unknown, world.tls_echo("other.com", "wrong name").await] {
        world.serve("93.184.216.34:443", impostor);
        let stream = world.connect_tls("93.184.216.34:443", "api.example.com").await.expect("TLS");
        let answer = ask(stream, &get("api.example.com")).await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("invalid peer certificate"), "{answer}");
    }
    assert!(got.lock().expect("lock").is_empty());
}

#[tokio::test]
async fn bodies_and_trailers_stream() {
    let world = world(json!({"x-key": "${e2b.secrets.key}"})).await;
    let acceptor =
        TlsAcceptor::from(world.internet.server_config(&"api.example.com".parse().expect("name")).expect("config"));
    // Sends the first half, waits for the body's end, and then sends the rest with a trailer.
    let slow = server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.expect("TLS");
            let mut got = Vec::new();
            while !got.ends_with(b"first\r\n") {
                got.push(stream.read_u8().await.expect("request"));
            }
            let head = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
                        HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n4\r\nhalf\r\n";
            stream.write_all(head.as_bytes()).await.expect("write");
            while !got.ends_with(b"0\r\n\r\n") {
                got.push(stream.read_u8().await.expect("request"));
            }
            stream.write_all(b"4\r\nrest\r\n0\r\nx-sum: 8\r\n\r\n").await.expect("write");
        }
    })
    .await;
    world.serve("93.184.216.34:443", slow);
    let mut stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
    let head = "POST / HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n\
                Connection: te, close\r\n\r\n5\r\nfirst\r\n";
    stream.write_all(head.as_bytes()).await.expect("write");
    let mut got = Vec::new();
    while !got.ends_with(b"half\r\n") {
        got.push(stream.read_u8().await.expect("response"));
    }
    stream.write_all(b"0\r\n\r\n").await.expect("write");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("rest") && rest.contains("x-sum: 8"), "{rest}");
}
