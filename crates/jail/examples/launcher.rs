//! The launcher alone, for this crate's tests: `launcher launcher <guest>`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(2).map(|guest| cabana_jail::launcher::main(Path::new(&guest))) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
