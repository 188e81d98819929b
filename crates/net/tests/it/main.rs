//! Tests with real namespaces, links and rules. They need root; every test has its own machine.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod connection_table;
mod dns;
mod dns_policy;
mod isolation;
mod lifecycle;
mod machine;
mod ping;
mod policy;
mod resolver;
mod slot;
mod supervision;
