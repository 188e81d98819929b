//! Commands: output, input, signals and exit codes.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::fake::Fake;
use crate::{against, client, report, stderr, stdout, with_input};

#[test]
fn run_passes_output_and_kills_the_sandbox() {
    let fake = Fake::start();
    let output = against(&fake, &["run", "--", "both", "7"]);
    assert_eq!(report(&output), "exit Some(7)\n--- stdout\nout\n--- stderr\nerr\n");
    assert!(fake.live().is_empty());
    let output = against(&fake, &["run", "--keep", "--", "echo", "hi"]);
    assert_eq!(report(&output), "exit Some(0)\n--- stdout\nhi\n--- stderr\nkept sandbox ifake2\n");
    assert_eq!(fake.live(), ["ifake2"]);
}

#[test]
fn arguments_arrive_unchanged() {
    let fake = Fake::start();
    let odd = ["a b", "$HOME", "'", "\"", "*", "", "\\", "ž", "-n", "--", "--help", "-t"];
    for prefix in [&["run", "--", "args"][..], &["run", "args"]] {
        let args: Vec<&str> = prefix.iter().copied().chain(odd).collect();
        let output = against(&fake, &args);
        assert_eq!(serde_json::from_slice::<Vec<String>>(&output.stdout).expect("json"), odd, "{}", report(&output));
    }
}

#[test]
fn exec_sends_directory_user_and_environment() {
    let fake = Fake::start();
    let id = fake.sandbox();
    let output = against(&fake, &["exec", &id, "-u", "root", "--cwd", "/tmp", "--env", "A=1", "--", "env"]);
    assert_eq!(stdout(&output), "Basic cm9vdDo=\n1:Some(\"/tmp\")\n", "{}", report(&output));
    let output = against(&fake, &["exec", &id, "--background", "--", "forever"]);
    assert!(stdout(&output).trim().parse::<u32>().is_ok() && output.status.success(), "{}", report(&output));
    assert_eq!(fake.live(), [id]);
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    let fake = Fake::start();
    let id = fake.sandbox();
    assert_eq!(against(&fake, &["exec", &id, "--", "missing"]).status.code(), Some(127));
    assert_eq!(against(&fake, &["exec", &id, "--", "both", "-9"]).status.code(), Some(137));
    assert_eq!(against(&fake, &["exec", &id, "--timeout", "1", "--", "forever"]).status.code(), Some(124));
    let output = against(&fake, &["exec", &id, "--", "vanish"]);
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(stdout(&output), "partial\n");
    assert!(stderr(&output).contains("the sandbox ran out of memory"), "{}", report(&output));
}

#[test]
fn input_is_passed_when_it_is_piped() {
    let fake = Fake::start();
    let id = fake.sandbox();
    let large: Vec<u8> = (0..1_000_003_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let output = with_input(&fake, &["exec", &id, "--", "cat"], &large);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stdout == large, "{} of {} bytes", output.stdout.len(), large.len());
    assert_eq!(stdout(&with_input(&fake, &["exec", &id, "--", "stdin?"], b"x")), "Some(true)\n");
    assert_eq!(stdout(&with_input(&fake, &["exec", "-n", &id, "--", "stdin?"], b"x")), "Some(false)\n");
}

#[test]
fn a_remote_terminal_has_a_default_size() {
    let fake = Fake::start();
    let id = fake.sandbox();
    assert_eq!(stdout(&against(&fake, &["exec", "-t", &id, "--", "pty"])), "80x24\r\n");
}

#[test]
fn a_signal_reaches_the_command_and_the_sandbox_is_killed() {
    let fake = Fake::start();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let mut child = client(&fake, &["run", "--", "forever"]).stdout(Stdio::piped()).spawn().expect("start");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("read");
        assert_eq!(line, "ready\n");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).expect("signal");
        assert_eq!(child.wait().expect("wait").code(), Some(143));
        assert!(fake.live().is_empty());
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let fake = Fake::start();
    let mut child =
        client(&fake, &["run", "--", "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let mut reader = child.stdout.take().expect("stdout");
    reader.read_exact(&mut [0; 100]).expect("read");
    drop(reader);
    let output = child.wait_with_output().expect("wait");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(141), ""));
    assert!(fake.live().is_empty());
}
