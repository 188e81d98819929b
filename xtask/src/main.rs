//! Repository chores: `cargo xtask codegen [--check]`, `cargo xtask check [--words]` and `cargo xtask package`.

mod check;
mod codegen;
mod package;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["codegen"] => codegen::write()?,
        ["codegen", "--check"] => codegen::check()?,
        ["check"] if !check::run(&root())? => return Ok(ExitCode::FAILURE),
        ["check"] => {}
        ["check", "--words"] => check::words(&root())?,
        ["package", ..] => package::package(&root(), &args[1..])?,
        _ => bail!("usage: cargo xtask codegen [--check] | check [--words] | package"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
