//! The daemon inside every sandbox: process 1, and the server of E2B's guest API (commands, files, metrics).
//!
//! The launcher passes two listening Unix sockets (control and traffic), the configuration and a readiness pipe as
//! inherited descriptors. For development it runs as an ordinary process:
//! `cabana-guest --listen unix:PATH|ADDRESS:PORT --config FILE [--control PATH]`.

mod auth;
mod blocking;
mod bridge;
mod command;
mod commands;
mod compose;
mod directory;
mod download;
mod entry;
mod error;
mod events;
mod filesystem_service;
mod guest;
mod init;
mod input;
mod journal;
mod linger;
mod metadata;
mod metrics;
mod open;
mod path;
mod process_service;
mod pty;
mod pump;
mod query;
mod range;
mod readiness;
mod reaper;
mod removal;
mod reply;
mod ring;
mod route;
mod server;
mod services;
mod signature;
mod sink;
mod spawn;
mod startup;
mod stop;
mod survivors;
mod tail;
mod tools;
mod trust;
mod upload;
mod users;
mod watch;
mod watchers;

use std::process::ExitCode;

/// Runs the daemon. A library function, so that tests of other crates can build it as their own program.
pub fn main() -> ExitCode {
    match startup::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            startup::report(&error);
            ExitCode::FAILURE
        }
    }
}
