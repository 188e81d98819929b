//! What the edge decides before a request goes anywhere: names, rates, and credentials that stay here.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use cabana_edge::listener::Limits;
use cabana_edge::rates::RateLimit;
use sha2::{Digest, Sha256};

use crate::world::*;

/// A web page can make its own name resolve to loopback.
#[tokio::test]
async fn a_server_on_loopback_answers_to_its_own_names_only() {
    let names = ["cabana.lan".to_owned()];
    let world = World::customized(None, Limits::default(), None, |edge| edge.with_names(&names)).await;
    let sandbox = world.sandbox(says("the guest"));
    let ask = async |host: &str, more: &str| {
        world.ask(&format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")).await
    };
    for own in ["localhost:3000", "127.0.0.1", "[::1]:3000", "cabana.lan"] {
        assert_eq!(body(&ask(own, "").await), "the API", "{own}");
    }
    let headers = format!("E2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 49983\r\n", sandbox.id);
    assert_eq!(body(&ask("localhost", &headers).await), "the guest");
    assert_eq!(body(&ask(&format!("49983-{}.any.test", sandbox.id), "").await), "the guest");
    for (other, more) in [("evil.test", ""), ("evil.test:3000", headers.as_str()), ("localhost.evil.test", "")] {
        let answer = ask(other, more).await;
        assert_eq!(status(&answer), 421, "{other}: {answer}");
        assert!(answer.contains("connections.hosts"), "{answer}");
    }
    // What counts is the target, where a request has both.
    let absolute = "GET http://evil.test/health HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&world.ask(absolute).await), 421);
}

#[tokio::test]
async fn requests_of_one_address_are_limited() {
    let rate = RateLimit::new(5, Duration::from_secs(3600)).map(Arc::new);
    let proxies = vec!["127.0.0.1".parse().expect("prefix")];
    let world = World::with(None, Limits { rate, proxies, ..Limits::default() }).await;
    let sandbox = world.sandbox(says("the guest"));
    let ask = async |host: &str, client: &str| {
        let forwarded = format!("X-Forwarded-For: {client}\r\n");
        world.ask(&format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{forwarded}\r\n")).await
    };
    let hosts = ["localhost".to_owned(), format!("49983-{}.e2b.test", sandbox.id)];
    for host in hosts.iter().cycle().take(5) {
        assert_eq!(status(&ask(host, "6.6.6.6, 2001:db8::1").await), 200);
    }
    for host in &hosts {
        let refused = ask(host, "2001:db8::2").await;
        assert_eq!(status(&refused), 429, "{refused}");
        assert!(refused.contains("retry-after: 720\r\n") && refused.contains("\"rate_limited\""), "{refused}");
    }
    assert_eq!(status(&ask("localhost", "2001:db8:0:1::1").await), 200, "another client");
}

#[tokio::test]
async fn keys_and_tokens_do_not_reach_ports() {
    let is_key = Arc::new(|text: &str| text == "key-of-a-team");
    let world = World::customized(None, Limits::default(), None, |edge| edge.with_keys(is_key)).await;
    let sandbox = world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    let id = sandbox.id.as_str();
    let token = format!("token-of-{id}");
    for (header, value) in [
        ("Authorization", "Bearer key-of-a-team".to_owned()),
        ("Authorization", "bearer e2b_0123456789".to_owned()),
        ("Authorization", format!("Bearer {token}")),
        ("X-API-Key", "key-of-a-team".to_owned()),
        ("X-Access-Token", "key-of-a-team".to_owned()),
        ("X-Access-Token", token.clone()),
    ] {
        let seen = world.get(id, port, "/", &format!("{header}: {value}\r\n")).await;
        assert_eq!(status(&seen), 200);
        assert!(!seen.to_ascii_lowercase().contains(&header.to_ascii_lowercase()), "{header}: {value}: {seen}");
    }
    for (header, value) in
        [("authorization", "Bearer the-apps-own"), ("authorization", "Basic dTpw"), ("x-api-key", "own")]
    {
        let seen = world.get(id, port, "/", &format!("{header}: {value}\r\n")).await;
        assert!(seen.contains(&format!("{header}: {value}")), "{seen}");
    }
    // The guest needs its token, and no key.
    let headers = format!("X-Access-Token: {token}\r\nAuthorization: Bearer key-of-a-team\r\n");
    let seen = world.get(id, 49983, "/", &headers).await;
    assert!(seen.contains(&format!("x-access-token: {token}")) && !seen.contains("key-of-a-team"), "{seen}");
}

#[tokio::test]
async fn a_page_behind_a_signed_link_cannot_act_as_the_api() {
    let world = World::new().await;
    let sandbox = world.sandbox(says("<script>"));
    let signature = STANDARD_NO_PAD.encode(Sha256::digest(format!("/x.html:read::token-of-{}", sandbox.id)));
    let signature: String = url_encoded(&format!("v1_{signature}"));
    let request = format!(
        "GET /files?path=/x.html&signature={signature} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    let answer = world.ask(&request).await;
    assert_eq!((status(&answer), body(&answer)), (200, "<script>"));
    assert!(answer.contains("content-security-policy: sandbox\r\n"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
}

fn url_encoded(text: &str) -> String {
    text.replace('+', "%2B").replace('/', "%2F")
}
