//! Measurements of the control plane alone: the backend answers at once. `cargo test --release -p cabana-server --test it cost -- --ignored --nocapture`

use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::TestServer;

fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    format!("p50 {:?}, p95 {:?}, max {:?}", at(50), at(95), at(100))
}

fn timed(times: &mut Vec<Duration>, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    times.push(start.elapsed());
}

#[test]
#[ignore = "a measurement"]
fn cost_of_a_life() {
    let server = TestServer::with(&[("limits.max_sandboxes", "2000")]);
    let (mut creates, mut reads, mut lists, mut kills) = (vec![], vec![], vec![], vec![]);
    let mut ids = vec![];
    for _ in 0..300 {
        timed(&mut creates, || ids.push(server.create()));
    }
    for id in &ids {
        timed(&mut reads, || drop(server.get(&format!("/sandboxes/{id}")).is(200)));
        timed(&mut lists, || drop(server.get("/v2/sandboxes?limit=100").is(200)));
    }
    for id in &ids {
        timed(&mut kills, || drop(server.kill(id).is(204)));
    }
    println!("create {}", quantiles(creates));
    println!("get    {}", quantiles(reads));
    println!("list   {} (100 of 300)", quantiles(lists));
    println!("kill   {}", quantiles(kills));
}

#[test]
#[ignore = "a measurement"]
fn cost_of_a_rush() {
    let server = TestServer::with(&[("limits.max_sandboxes", "2000")]);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let id = server.create_with(json!({"timeout": 60}));
                    server.kill(&id).is(204);
                }
            });
        }
    });
    let rate = 800.0 / start.elapsed().as_secs_f64();
    println!("{rate:.0} lives a second, 16 at a time");
}
