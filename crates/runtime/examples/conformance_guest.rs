//! The guest daemon, built with this crate for the conformance suite.

use std::process::ExitCode;

fn main() -> ExitCode {
    cabana_guest::main()
}
