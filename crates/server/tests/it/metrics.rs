//! Metrics of sandboxes and teams over time.

use cabana_runtime::Stats;
use serde_json::{Value, json};

use crate::eventually;
use crate::server::TestServer;
use crate::world::Fault;

fn history(server: &TestServer, id: &str, query: &str) -> Vec<Value> {
    server.get(&format!("/sandboxes/{id}/metrics?{query}")).is(200).json().as_array().expect("samples").clone()
}

#[test]
fn the_first_sample_is_taken_on_request() {
    let server = TestServer::with(&[("metrics.interval_seconds", "3600")]);
    server.world.set_stats(Stats {
        cpu_usec: 0,
        memory_used: 7 << 20,
        memory_cache: 1 << 20,
        memory_shared: 1 << 10,
        disk_used: 3 << 20,
        network_bytes: 0,
    });
    let id = server.create();
    let metric = &history(&server, &id, "")[0];
    assert_eq!((&metric["cpuCount"], &metric["cpuUsedPct"]), (&json!(2), &json!(0.0)));
    assert_eq!((&metric["memUsed"], &metric["memTotal"]), (&json!(7 << 20), &json!(512 << 20)));
    assert_eq!((&metric["memCache"], &metric["diskUsed"]), (&json!(1 << 20), &json!(3 << 20)));
    assert_eq!(metric["diskTotal"], json!(1024 << 20));
    let at: jiff::Timestamp = metric["timestamp"].as_str().expect("time").parse().expect("RFC 3339");
    assert_eq!(metric["timestampUnix"], at.as_second());
    server.world.set_stats(Stats::default());
    let again = history(&server, &id, "");
    assert_eq!(&again[..], std::slice::from_ref(metric), "frequent requests do not reach the backend");

    let now = at.as_second();
    assert_eq!(history(&server, &id, &format!("start={}&end={}", now - 10, now + 60)).len(), 1);
    assert_eq!(history(&server, &id, &format!("start={now}&end={now}")).len(), 1);
    assert_eq!(history(&server, &id, &format!("end={}", now - 10)), [] as [Value; 0]);
    assert_eq!(history(&server, &id, &format!("start={}", now + 60)), [] as [Value; 0]);
    for query in ["start=5&end=4", "start=x", "end=-1", "end=99999999999999"] {
        server.get(&format!("/sandboxes/{id}/metrics?{query}")).error(400, "invalid_request");
    }

    let other = server.create();
    let many = server.get(&format!("/sandboxes/metrics?sandbox_ids={id},{other},inothing")).is(200).json();
    let known = many["sandboxes"].as_object().expect("map");
    assert_eq!(known.len(), 2);
    assert_eq!(&known[&id], metric);
    server.get("/sandboxes/metrics").error(400, "invalid_request");
    let ids = vec!["i0"; 101].join(",");
    server.get(&format!("/sandboxes/metrics?sandbox_ids={ids}")).error(400, "invalid_request");
}

#[test]
fn samples_are_taken_in_the_background() {
    let server = TestServer::with(&[("metrics.interval_seconds", "1")]);
    let id = server.create();
    let range = |server: &TestServer| history(server, &id, &format!("end={}", jiff::Timestamp::now().as_second() - 1));
    server.world.set_stats(Stats { cpu_usec: 1_000_000_000, memory_used: 5, ..Stats::default() });
    // A range that does not reach now takes no samples of its own.
    eventually("three samples", || range(&server).len() >= 3);
    let samples = range(&server);
    let time = |sample: &Value| sample["timestampUnix"].as_i64().expect("time");
    assert!(samples.windows(2).all(|w| time(&w[0]) < time(&w[1])), "{samples:?}");
    assert!(samples.iter().any(|s| s["cpuUsedPct"] == 100.0), "more than all CPUs is all CPUs: {samples:?}");
    assert_eq!(samples.last().map(|s| &s["cpuUsedPct"]), Some(&json!(0.0)), "nothing since");
    server.kill(&id).is(204);
    server.get(&format!("/sandboxes/{id}/metrics")).error(404, "sandbox_not_found");
}

#[test]
fn a_sandbox_that_cannot_be_measured_delays_no_other() {
    let server = TestServer::with(&[("metrics.interval_seconds", "1")]);
    let stuck: Vec<String> = (0..6).map(|_| server.create()).collect();
    for id in &stuck {
        server.world.on_stats(id, Some(Fault::HangBefore));
    }
    let panics = server.create();
    server.world.on_stats(&panics, Some(Fault::Panic));
    let fine = server.create();
    eventually("two samples", || {
        history(&server, &fine, &format!("end={}", jiff::Timestamp::now().as_second() - 1)).len() >= 2
    });
    for id in &stuck {
        server.world.on_stats(id, None);
    }
    eventually("it is measured again", || !history(&server, &stuck[0], "").is_empty());
    server.kill(&stuck[0]).is(204);
}

#[test]
fn a_team_sees_its_sandbox_counts() {
    let server = TestServer::with(&[("metrics.interval_seconds", "1")]);
    let max = |metric: &str| server.get(&format!("/teams/default/metrics/max?metric={metric}")).is(200).json();
    assert_eq!(max("concurrent_sandboxes")["value"], 0.0);
    let ids: Vec<String> = (0..3).map(|_| server.create()).collect();
    eventually("three run", || max("concurrent_sandboxes")["value"] == 3.0);
    ids.iter().for_each(|id| drop(server.kill(id).is(204)));
    let all = || server.get("/teams/default/metrics").is(200).json();
    eventually("none runs", || {
        all().as_array().and_then(|rows| rows.last().map(|r| r["concurrentSandboxes"] == 0)) == Some(true)
    });
    let peak = max("concurrent_sandboxes");
    assert_eq!(peak["value"], 3.0, "the peak stays");
    let rows = all();
    let at = rows.as_array().and_then(|r| r.iter().find(|r| r["concurrentSandboxes"] == 3)).expect("the row");
    assert_eq!((&at["timestamp"], &at["timestampUnix"]), (&peak["timestamp"], &peak["timestampUnix"]));
    assert!(max("sandbox_start_rate")["value"].as_f64().is_some_and(|r| r > 0.0 && r <= 3.0));
    assert_eq!(server.get("/teams/default/metrics?end=5").is(200).json(), json!([]));
    server.get("/teams/other/metrics").error(403, "forbidden");
    server.get("/teams/other/metrics/max?metric=concurrent_sandboxes").error(403, "forbidden");
    for query in ["", "metric=cpu", "metric=concurrent_sandboxes&start=2&end=1"] {
        server.get(&format!("/teams/default/metrics/max?{query}")).error(400, "invalid_request");
    }
}
