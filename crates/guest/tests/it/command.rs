//! Starting commands and how they end: exit codes, signals, deadlines, users, directories, environment.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Guest, basic, eventually};

#[test]
fn output_and_exit_codes() {
    let guest = Guest::start();
    let done = guest.command("echo out; echo err >&2; exit 3").finish();
    assert_eq!((done.stdout.as_slice(), done.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(done.end, json!({"exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3"}));
    let done = guest.command("true").finish();
    assert_eq!(done.end, json!({"exited": true, "status": "exit status 0"}));
}

#[test]
fn streams_have_the_connect_form() {
    let guest = Guest::start();
    let mut frames = guest.command("true");
    assert_eq!(frames.answer.status, 200);
    assert_eq!(frames.answer.header("content-type"), Some("application/connect+json"));
    assert!(frames.pid() > 1);
    assert!(frames.event().get("end").is_some());
    assert_eq!(frames.frame(), (2, json!({})));
}

#[test]
fn killing_reaches_the_whole_group() {
    let guest = Guest::start();
    let mut frames = guest.command("sleep 300 & echo $!; wait");
    let pid = frames.pid();
    let child = frames.event();
    let child = String::from_utf8(decode(child["data"]["stdout"].as_str().unwrap())).unwrap();
    let select = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    assert_eq!(guest.call("process.Process/SendSignal", &select), (200, json!({})));
    let done = frames.finish();
    assert_eq!(done.end, json!({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}));
    eventually("the child is gone", || !std::path::Path::new(&format!("/proc/{}", child.trim())).exists());
    assert_eq!(guest.call("process.Process/SendSignal", &select).0, 404);
}

#[test]
fn sigterm_is_reported() {
    let guest = Guest::start();
    let mut frames = guest.command_with(&[], &json!({"tag": "mine"}), "exec sleep 300");
    let pid = frames.pid();
    let (status, list) = guest.call("process.Process/List", &json!({}));
    assert_eq!(status, 200);
    assert_eq!(list["processes"][0]["pid"], pid);
    assert_eq!(list["processes"][0]["tag"], "mine");
    assert_eq!(list["processes"][0]["config"]["cmd"], "/bin/bash");
    let select = json!({"process": {"tag": "mine"}, "signal": "SIGNAL_SIGTERM"});
    assert_eq!(guest.call("process.Process/SendSignal", &select).0, 200);
    assert_eq!(frames.finish().end["status"], "signal: terminated");
    assert_eq!(guest.call("process.Process/List", &json!({})), (200, json!({})));
}

#[test]
fn unknown_processes_and_methods() {
    let guest = Guest::start();
    let (status, body) =
        guest.call("process.Process/SendSignal", &json!({"process": {"pid": 999_999}, "signal": "SIGNAL_SIGKILL"}));
    assert_eq!((status, &body["code"]), (404, &json!("not_found")));
    let done = guest.stream("process.Process/Connect", &[], &json!({"process": {"tag": "none"}})).finish();
    assert_eq!(done.code(), "not_found");
    assert_eq!(guest.call("process.Process/Nonsense", &json!({})).1["code"], "unimplemented");
    assert_eq!(
        guest.call("process.Process/SendSignal", &json!({"signal": "SIGNAL_SIGKILL"})).1["code"],
        "invalid_argument"
    );
}

#[test]
fn the_deadline_kills() {
    let guest = Guest::start();
    let started = Instant::now();
    let mut frames = guest.command_with(&[("connect-timeout-ms", "2000")], &json!({}), "sleep 300 & echo $!; wait");
    frames.pid();
    let child = frames.event();
    let child = String::from_utf8(decode(child["data"]["stdout"].as_str().unwrap())).unwrap();
    let done = frames.finish();
    assert_eq!(done.code(), "deadline_exceeded");
    assert!(started.elapsed() < Duration::from_secs(10));
    eventually("the child is gone", || !std::path::Path::new(&format!("/proc/{}", child.trim())).exists());
}

#[test]
fn the_deadline_kills_without_readers() {
    let guest = Guest::start();
    let mut frames = guest.command_with(&[("connect-timeout-ms", "600")], &json!({}), "sleep 300");
    let pid = frames.pid();
    drop(frames);
    eventually("it is killed", || guest.call("process.Process/List", &json!({})) == (200, json!({})));
    let done = guest.stream("process.Process/Connect", &[], &json!({"process": {"pid": pid}})).finish();
    assert_eq!(done.end["status"], "signal: killed");
}

#[test]
fn a_disconnected_client_does_not_kill() {
    let guest = Guest::start();
    let marker = guest.file("marker");
    let mut frames = guest.command(&format!("sleep 0.5; echo late; touch {marker}"));
    let pid = frames.pid();
    drop(frames);
    eventually("it continues", || std::path::Path::new(&marker).exists());
    let done = guest.stream("process.Process/Connect", &[], &json!({"process": {"pid": pid}})).finish();
    assert_eq!((done.pid, done.stdout().as_str()), (Some(pid), "late\n"));
    assert_eq!(done.end["status"], "exit status 0");
}

#[test]
fn users_and_their_environment() {
    let guest = Guest::start();
    let user = basic("nobody");
    let script = "id -u; id -g; echo $USER $LOGNAME $HOME $GLOBAL $E2B_SANDBOX $E2B_SANDBOX_ID $MINE; umask; ulimit -c; \
                  cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l; \
                  test $(ps -o pgid= $$) = $$ && test $(ps -o sid= $$) = $$ && echo leader";
    let message = json!({"process": {"cmd": "/bin/sh", "args": ["-c", script],
        "envs": {"MINE": "x", "GLOBAL": "override"}, "cwd": "/tmp"}});
    let done = guest.stream("process.Process/Start", &[("authorization", &user)], &message).finish();
    let text = done.stdout();
    let expected =
        "65534\n65534\nnobody nobody /nonexistent override true iabcdefghij0123456789 x\n0022\n0\n900\n4\nleader\n";
    assert_eq!(text, expected, "{}", String::from_utf8_lossy(&done.stderr));

    let done = guest.command_with(&[("authorization", &basic("nope"))], &json!({}), "id").finish();
    assert_eq!((done.code(), done.message()), ("unauthenticated", "invalid username: 'nope'"));
}

#[test]
fn working_directories() {
    let guest = Guest::start();
    let at = |cwd: &str| {
        let message = json!({"process": {"cmd": "/bin/pwd", "cwd": cwd}});
        guest.stream("process.Process/Start", &[], &message).finish()
    };
    assert_eq!(at("/usr/../tmp").stdout(), "/tmp\n");
    assert_eq!(at("").stdout(), "/root\n");
    assert_eq!(at("~").stdout(), "/root\n");
    let refused = at("/no/such");
    assert_eq!((refused.code(), refused.message()), ("invalid_argument", "cwd '/no/such' does not exist"));
    std::fs::write(guest.file("plain"), "").unwrap();
    std::os::unix::fs::symlink("/proc/self/fd", guest.file("sly")).unwrap();
    for bad in ["/proc/self/fd/3", "/proc", "/proc/self/cwd", "~other", &guest.file("plain"), &guest.file("sly")] {
        assert_eq!(at(bad).code(), "invalid_argument", "{bad}");
    }
}

#[test]
fn programs_that_cannot_start() {
    let guest = Guest::start();
    let run = |process: serde_json::Value| {
        guest.stream("process.Process/Start", &[], &json!({"process": process})).finish().code().to_owned()
    };
    assert_eq!(run(json!({"cmd": "/no/such"})), "invalid_argument");
    assert_eq!(run(json!({"cmd": ""})), "invalid_argument");
    assert_eq!(run(json!({"cmd": "/etc/passwd"})), "permission_denied");
    assert_eq!(run(json!({"cmd": "true", "args": ["x".repeat(2 << 20)]})), "resource_exhausted");
    assert_eq!(run(json!({"cmd": "true", "envs": {"A=B": "x"}})), "invalid_argument");
    assert_eq!(run(json!({"cmd": "true", "args": ["a\u{0}b"]})), "invalid_argument");
    assert_eq!(run(json!({"cmd": "true"})), "");
}

#[test]
fn orphans_are_reaped() {
    let guest = Guest::start();
    guest.command("(setsid sleep 0.2 >/dev/null 2>&1 &); (setsid sleep 0.3 >/dev/null 2>&1 &)").finish();
    let pid = guest.child.id();
    let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    eventually("no child is left", || children().trim().is_empty());
}

#[test]
fn many_commands_at_once_and_a_limit() {
    let guest = Guest::start();
    let frames: Vec<_> = (0..40).map(|i| guest.command(&format!("echo {i}; exit {i}"))).collect();
    for (i, frames) in frames.into_iter().enumerate() {
        let done = frames.finish();
        assert_eq!(done.stdout(), format!("{i}\n"));
        assert_eq!(done.end["exitCode"].as_u64().unwrap_or(0), i as u64);
    }
    let message = json!({"process": {"cmd": "/bin/sleep", "args": ["300"]}});
    let mut refused = None;
    for _ in 0..520 {
        let mut frames = guest.stream("process.Process/Start", &[], &message);
        let (flags, end) = frames.frame();
        if flags & 2 != 0 {
            refused = Some(end["error"]["code"].clone());
            break;
        }
    }
    assert_eq!(refused, Some(json!("resource_exhausted")));
}

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}
