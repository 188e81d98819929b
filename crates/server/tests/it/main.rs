//! The control plane over real sockets, with a real store and a backend that lives in memory.

mod auth;
mod build_world;
mod builds;
mod capacity;
mod create;
mod expiry;
mod guest;
mod http;
mod idempotency;
mod isolation;
mod keys;
mod kill;
mod listing;
mod metrics;
mod novita;
mod openapi;
mod readiness;
mod reading;
mod receiver;
mod restart;
mod server;
mod sleep;
mod supervision;
mod tags;
mod templates;
mod tenants;
mod traffic;
mod uploads;
mod vitals;
mod webhooks;
mod world;

use std::time::{Duration, Instant};

/// Waits until something is so; the test fails if it does not become so.
fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < Duration::from_secs(20), "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
