//! Finding and running programs of the host.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many of a failed program's last lines are reported.
const REPORTED_LINES: usize = 20;

/// Why a program did not run, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is missing, or ended with an error; `output` says which, or has its last lines.
    #[error("{program} failed: {output}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// The end of what it printed.
        output: String,
    },
    /// The kernel did not start it.
    #[error("{program}")]
    Start {
        /// Its name.
        program: &'static str,
        /// The error of `execve` or `fork`.
        #[source]
        source: io::Error,
    },
}

/// The path of a program: searches `PATH`, then the system directories, because many users' `PATH` lacks `sbin`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .chain(system)
        .map(|directory| directory.join(name))
        .find(|program| is_executable(program))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Runs a program to its end and returns its standard output.
pub fn run(name: &'static str, arguments: &[&OsStr]) -> Result<String, ProgramError> {
    let failed = |output: String| ProgramError::Failed { program: name, output };
    let program = find(name).ok_or_else(|| failed("not installed".to_owned()))?;
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ProgramError::Start { program: name, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(failed(last_lines(&String::from_utf8_lossy(&text), REPORTED_LINES)))
}

/// The last lines that are not empty.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_or_the_end_of_it_is_returned() {
        assert_eq!(run("printf", &["%s".as_ref(), "a b".as_ref()]).expect("ran"), "a b");
        let error = run("sh", &["-c".as_ref(), "echo first; echo last >&2; exit 3".as_ref()]).expect_err("failed");
        assert_eq!(error.to_string(), "sh failed: first\nlast");
        let error = run("cabana-no-such-program", &[]).expect_err("missing");
        assert_eq!(error.to_string(), "cabana-no-such-program failed: not installed");
    }

    #[test]
    fn the_last_lines_are_kept() {
        assert_eq!(last_lines("a\n\nb \nc\n\n", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
