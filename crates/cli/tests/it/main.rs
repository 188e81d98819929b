//! Tests of the command line: help, errors, output and exit codes, against a fake server.

mod chats;
mod copies;
mod errors;
mod fake;
mod fake_chats;
mod fake_guest;
mod fake_services;
mod fake_templates;
mod help;
mod listings;
mod services;
mod sessions;
mod templates;
mod terminals;
mod tls;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use fake::{Fake, KEY};

/// The program, without environment variables that it would read.
fn cabana(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cabana"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| n.starts_with("CABANA_") || n.starts_with("E2B_")) {
            command.env_remove(name);
        }
    }
    command.args(args).env("NO_COLOR", "1").env("CABANA_DATA_DIR", "/nonexistent").stdin(Stdio::null());
    command
}

/// Runs it against a fake server and waits.
fn against(fake: &Fake, args: &[&str]) -> Output {
    client(fake, args).output().expect("run")
}

fn client(fake: &Fake, args: &[&str]) -> Command {
    let mut command = cabana(args);
    command.env("CABANA_API_URL", &fake.url).env("CABANA_API_KEY", KEY);
    command
}

/// Runs it with standard input.
fn with_input(fake: &Fake, args: &[&str], input: &[u8]) -> Output {
    let mut child =
        client(fake, args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let mut stdin = child.stdin.take().expect("stdin");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("wait");
    writer.join().expect("writer");
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit code and output, for snapshots.
fn report(output: &Output) -> String {
    format!("exit {:?}\n--- stdout\n{}--- stderr\n{}", output.status.code(), stdout(output), stderr(output))
}
