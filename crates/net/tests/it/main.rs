//! The network with real namespaces, links and rules. Needs root; every test has a machine of its own.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod dns;
mod isolation;
mod lifecycle;
mod machine;
mod resolver;
mod slot;
mod supervision;
