//! The built daemon, driven over its sockets as the clients and the host do it. Run as root.

#![allow(clippy::unwrap_used, reason = "tests")]

mod access;
mod client;
mod command;
mod files;
mod host;
mod input;
mod output;
mod readiness;
mod watch;
