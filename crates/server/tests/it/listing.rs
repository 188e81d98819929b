//! Listing: filters, order, pages.

use std::collections::HashSet;

use serde_json::json;

use crate::server::TestServer;

fn ids(server: &TestServer, query: &str) -> Vec<String> {
    let rows = server.get(&format!("/v2/sandboxes?{query}")).is(200).json();
    rows.as_array().expect("rows").iter().map(|r| r["sandboxID"].as_str().expect("id").to_owned()).collect()
}

#[test]
fn filters() {
    let server = TestServer::start();
    let a = server.create_with(json!({"metadata": {"user": "ann", "a b": "c&d"}}));
    let between = jiff::Timestamp::now();
    let b = server.create_with(json!({"metadata": {"user": "bob", "a b": "c&d", "plus": "1+1=2 ä"}}));
    assert_eq!(ids(&server, ""), [b.clone(), a.clone()], "newest first");
    assert_eq!(ids(&server, "order=asc"), [a.clone(), b.clone()]);
    assert_eq!(ids(&server, "limit=1"), [b.as_str()]);
    assert_eq!(ids(&server, "state=running"), [b.clone(), a.clone()]);
    assert_eq!(ids(&server, "state=running,paused"), [b.clone(), a.clone()]);
    assert_eq!(ids(&server, "state=paused&state=running"), [b.clone(), a.clone()]);
    assert!(ids(&server, "state=paused").is_empty());
    assert_eq!(ids(&server, &format!("startedAfter={between}")), [b.as_str()]);
    let started = server.get(&format!("/sandboxes/{b}")).is(200).json()["startedAt"].as_str().expect("time").to_owned();
    assert_eq!(ids(&server, &format!("startedAfter={started}")), [b.as_str()], "at or after");
    assert_eq!(ids(&server, "template=base"), [b.clone(), a.clone()]);
    assert!(ids(&server, "template=other").is_empty());
    assert_eq!(ids(&server, "metadata=user%3Dann"), [a.as_str()]);
    assert!(ids(&server, "metadata=user%3Dann%26plus%3D1").is_empty());
    // As the SDKs encode {"a b": "c&d"} and {"plus": "1+1=2 ä"}.
    assert_eq!(ids(&server, "metadata=a%252520b%3Dc%252526d"), [b.clone(), a.clone()]);
    assert_eq!(ids(&server, "metadata=plus%3D1%25252B1%25253D2%252520%2525C3%2525A4"), [b.as_str()]);
    let answer = server.get("/v2/sandboxes?limit=1").is(200);
    assert_eq!(answer.header("x-total-running"), Some("2"));
    let v1 = server.get("/sandboxes?metadata=user%3Dbob").is(200).json();
    assert_eq!(v1.as_array().map(Vec::len), Some(1));
    assert_eq!(v1[0]["sandboxID"], b.as_str());
    for name in [
        "templateID",
        "sandboxID",
        "clientID",
        "startedAt",
        "endAt",
        "cpuCount",
        "memoryMB",
        "diskSizeMB",
        "state",
        "envdVersion",
        "metadata",
        "alias",
    ] {
        assert!(!v1[0][name].is_null(), "{name}");
    }
}

#[test]
fn bad_queries_are_refused() {
    let server = TestServer::start();
    for query in [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "limit=99999999999999999999",
        "order=up",
        "state=killed",
        "startedAfter=yesterday",
        "nextToken=%21%21",
        "nextToken=AAAA",
        "template=a/b/c",
    ] {
        server.get(&format!("/v2/sandboxes?{query}")).error(400, "invalid_request");
    }
    let many: String = (0..300).map(|n| format!("a{n}=1&")).collect();
    server.get(&format!("/v2/sandboxes?{many}")).error(400, "invalid_request");
    let labels: String = (0..300).map(|n| format!("l{n}%3D1%26")).collect();
    server.get(&format!("/v2/sandboxes?metadata={labels}")).error(400, "invalid_request");
}

#[test]
fn pages_are_stable_while_sandboxes_come_and_go() {
    let server = TestServer::start();
    let made: Vec<String> = (0..10).map(|_| server.create()).collect();
    for order in ["asc", "desc"] {
        let mut seen = vec![];
        let mut token = String::new();
        loop {
            let answer = server.get(&format!("/v2/sandboxes?limit=3&order={order}&nextToken={token}")).is(200);
            let rows = answer.json();
            seen.extend(rows.as_array().expect("rows").iter().map(|r| r["sandboxID"].as_str().expect("id").to_owned()));
            let Some(next) = answer.header("x-next-token") else { break };
            token = next.to_owned();
            // A sandbox of this page ends, and a new one is created.
            server.kill(seen.last().expect("row")).is(204);
            server.create();
        }
        let unique: HashSet<&String> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "nothing repeats");
        let still: Vec<&String> = made.iter().filter(|id| server.listed().contains(id)).collect();
        assert!(still.iter().all(|id| unique.contains(id)), "nothing that was there all the time is missed");
    }
}

#[test]
fn an_exact_page_is_the_last() {
    let server = TestServer::start();
    (0..3).for_each(|_| drop(server.create()));
    assert_eq!(server.get("/v2/sandboxes?limit=3").is(200).header("x-next-token"), None);
    assert!(server.get("/v2/sandboxes?limit=2").is(200).header("x-next-token").is_some());
}
