//! The control plane over real sockets, with a real store and the fake backend.

mod agents;
mod attachments;
mod audit;
mod auth;
mod build_world;
mod builds;
mod capacity;
mod completions;
mod create;
mod expiry;
mod file_uploads;
mod guest;
mod http;
mod idempotency;
mod isolation;
mod keys;
mod kill;
mod listing;
mod live;
mod matrix;
mod mcp;
mod metrics;
mod network;
mod novita;
mod openapi;
mod pause;
mod people;
mod quotas;
mod rates;
mod readiness;
mod reading;
mod receiver;
mod restart;
mod roles;
mod scopes;
mod secrets;
mod server;
mod sessions;
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

/// Waits until a condition holds; fails the test on a timeout.
fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < Duration::from_secs(20), "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
