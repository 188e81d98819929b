//! The program `cabana-guest`; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    cabana_guest::main()
}
