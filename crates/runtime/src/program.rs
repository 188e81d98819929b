//! Finding and running the few programs that we use.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Error;

/// Where a program is. The administration directories count also where `PATH` lacks them, as it does for many users.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .filter(|d| d.is_absolute())
        .chain(usual)
        .map(|d| d.join(name))
        .find(|p| is_executable(p))
}

fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Runs a program to its end; its last lines are the error if it fails.
pub(crate) fn run(name: &'static str, arguments: &[&OsStr]) -> Result<String, Error> {
    let failed = |output: String| Error::Program { program: name, output };
    let program = find(name).ok_or_else(|| failed("not installed".to_owned()))?;
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Io { action: name, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(failed(last_lines(&String::from_utf8_lossy(&text), 20)))
}

/// The last lines that are not empty.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
