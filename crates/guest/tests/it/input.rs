//! Input of commands: pipes, terminals, one message or many.

use serde_json::{Value, json};

use crate::client::{Guest, encoded, eventually, frame};

fn send(guest: &Guest, pid: u64, input: &Value) -> (u16, Value) {
    guest.call("process.Process/SendInput", &json!({"process": {"pid": pid}, "input": input}))
}

fn close(guest: &Guest, pid: u64) -> (u16, Value) {
    guest.call("process.Process/CloseStdin", &json!({"process": {"pid": pid}}))
}

#[test]
fn stdin_is_written_and_closed() {
    let guest = Guest::start();
    let mut frames = guest.command("cat");
    let pid = frames.pid();
    assert_eq!(send(&guest, pid, &json!({"stdin": encoded("one ")})), (200, json!({})));
    assert_eq!(send(&guest, pid, &json!({"stdin": encoded("two")})).0, 200);
    assert_eq!(send(&guest, pid, &json!({"pty": encoded("x")})).1["code"], "internal");
    assert_eq!(close(&guest, pid).0, 200);
    let done = frames.finish();
    assert_eq!((done.stdout().as_str(), &done.end["exited"]), ("one two", &json!(true)));
    assert_eq!(close(&guest, pid).0, 404);
}

#[test]
fn without_stdin_reads_return_eof() {
    let guest = Guest::start();
    let done = guest.command_with(&[], &json!({"stdin": false}), "cat; readlink /proc/self/fd/0").finish();
    assert_eq!(done.stdout(), "/dev/null\n");
    let mut frames = guest.command_with(&[], &json!({"stdin": false}), "sleep 300");
    let pid = frames.pid();
    assert_eq!(send(&guest, pid, &json!({"stdin": encoded("x")})).1["code"], "internal");
}

#[test]
fn more_than_a_pipe_holds() {
    let guest = Guest::start();
    let mut frames = guest.command("sleep 0.3; wc -c");
    let pid = frames.pid();
    assert_eq!(send(&guest, pid, &json!({"stdin": encoded(&"x".repeat(1_000_000))})).0, 200);
    close(&guest, pid);
    assert_eq!(frames.finish().stdout().trim(), "1000000");
}

#[test]
fn input_to_a_process_that_never_reads_ends_with_it() {
    let guest = Guest::start();
    let mut frames = guest.command("sleep 0.5");
    let pid = frames.pid();
    let (status, body) = send(&guest, pid, &json!({"stdin": encoded(&"x".repeat(1_000_000))}));
    assert_eq!((status, &body["code"]), (500, &json!("internal")));
    assert_eq!(frames.finish().end["exited"], true);
}

#[test]
fn input_as_a_stream() {
    let guest = Guest::start();
    let mut frames = guest.command_with(&[], &json!({"tag": "reader"}), "cat");
    let pid = frames.pid();
    let mut body = frame(&json!({"start": {"process": {"tag": "reader"}}}));
    body.extend(frame(&json!({"keepalive": {}})));
    for word in ["a", "b", "c"] {
        body.extend(frame(&json!({"data": {"input": {"stdin": encoded(word)}}})));
    }
    let mut answer = guest.stream_raw("process.Process/StreamInput", &[], &body);
    assert_eq!(answer.answer.header("content-type"), Some("application/connect+json"));
    assert_eq!(answer.frame(), (0, json!({})));
    assert_eq!(answer.frame(), (2, json!({})));
    close(&guest, pid);
    assert_eq!(frames.finish().stdout(), "abc");

    let without_start = frame(&json!({"data": {"input": {"stdin": encoded("x")}}}));
    assert_eq!(
        guest.stream_raw("process.Process/StreamInput", &[], &without_start).finish().code(),
        "invalid_argument"
    );
}

#[test]
fn terminals() {
    let guest = Guest::start();
    let message = json!({
        "process": {"cmd": "/bin/bash", "args": ["--norc", "-i"], "envs": {"TERM": "xterm-256color", "PS1": "> "}},
        "pty": {"size": {"cols": 100, "rows": 30}},
    });
    let mut frames = guest.stream("process.Process/Start", &[], &message);
    let pid = frames.pid();
    let resize = json!({"process": {"pid": pid}, "pty": {"size": {"cols": 120, "rows": 40}}});
    assert_eq!(send(&guest, pid, &json!({"pty": encoded("stty size\n")})).0, 200);
    let mut seen = String::new();
    eventually("the first size", || {
        seen.push_str(&text(&frames.event()));
        seen.contains("30 100")
    });
    assert_eq!(guest.call("process.Process/Update", &resize).0, 200);
    assert_eq!(send(&guest, pid, &json!({"stdin": encoded("x")})).1["code"], "internal");
    assert_eq!(close(&guest, pid).1["code"], "failed_precondition");
    send(&guest, pid, &json!({"pty": encoded("stty size; tty; echo $TERM; exit 7\n")}));
    let done = frames.finish();
    let seen = String::from_utf8_lossy(&done.pty);
    assert!(seen.contains("40 120") && seen.contains("/dev/pts/") && seen.contains("xterm-256color"), "{seen}");
    assert!(!seen.contains("no job control"), "{seen}");
    assert_eq!(done.end["exitCode"], 7);

    let mut plain = guest.command("sleep 300");
    let resize = json!({"process": {"pid": plain.pid()}, "pty": {"size": {"cols": 1, "rows": 1}}});
    assert_eq!(guest.call("process.Process/Update", &resize).1["code"], "internal");
}

#[test]
fn closing_a_terminal_kills_its_jobs() {
    let guest = Guest::start();
    let message = json!({
        "process": {"cmd": "/bin/bash", "args": ["--norc", "-i"]}, "pty": {"size": {"cols": 80, "rows": 24}},
    });
    let mut frames = guest.stream("process.Process/Start", &[], &message);
    let pid = frames.pid();
    send(&guest, pid, &json!({"pty": encoded("sleep 300\n")}));
    let session = || {
        let found =
            std::process::Command::new("ps").args(["-o", "pid=,stat=", "-s", &pid.to_string()]).output().unwrap();
        String::from_utf8(found.stdout).unwrap().lines().filter(|l| !l.contains('Z')).count()
    };
    eventually("both run", || session() == 2);
    guest.call("process.Process/SendSignal", &json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}));
    assert_eq!(frames.finish().end["status"], "signal: killed");
    eventually("nothing is left", || session() == 0);
}

fn text(event: &Value) -> String {
    use base64::Engine as _;
    let data = event["data"]["pty"].as_str().unwrap_or_default();
    String::from_utf8_lossy(&base64::engine::general_purpose::STANDARD.decode(data).unwrap()).into_owned()
}
