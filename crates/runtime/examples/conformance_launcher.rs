//! The launcher alone, for the conformance suite: `conformance_launcher launcher <guest>`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let guest = std::env::args().nth(2).and_then(|path| std::fs::read(path).ok());
    match guest.map(|guest| cabana_jail::launcher::main(&guest)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
