//! Tests of the built daemon, over its sockets, as clients and the host use it. Run as root.

#![allow(clippy::unwrap_used, reason = "tests")]

mod access;
mod client;
mod command;
mod files;
mod host;
mod input;
mod output;
mod output_file;
mod readiness;
mod search;
mod services;
mod tools;
mod watch;
