//! Start and ready commands of a template: how they run, and when the sandbox is ready.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Guest, config, eventually};

/// A guest whose template has these commands, in a directory known to them as `$DIR`.
fn prepared(start: Value, ready: Value) -> Guest {
    prepared_as("root", None, start, ready)
}

fn prepared_as(user: &str, workdir: Option<&str>, start: Value, ready: Value) -> Guest {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut config = config(None);
    config["default_user"] = user.into();
    config["default_workdir"] = workdir.into();
    config["env_vars"]["DIR"] = dir.path().to_str().unwrap().into();
    config["start"] = start;
    config["ready"] = ready;
    Guest::configured(dir, &config)
}

fn shell(script: &str) -> Value {
    json!(["/bin/bash", "-c", script])
}

fn readiness(guest: &Guest) -> Value {
    guest.control_get("/ready?seconds=15").json()
}

fn journal_entries(guest: &Guest) -> Vec<(String, String)> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let journal = guest.control_get("/journal").json();
    journal.as_array().unwrap().iter().map(|e| (text(e, "level"), text(e, "message"))).collect()
}

#[test]
fn without_commands_it_is_ready_at_once() {
    let guest = Guest::start();
    assert_eq!(guest.control_get("/ready").json(), json!({"ready": true}));
    assert_eq!(guest.control_get("/ready?seconds=0").json(), json!({"ready": true}));
    assert_eq!(guest.control_get("/ready?seconds=soon").status, 400);
    assert_eq!(prepared(json!([]), json!([])).control_get("/ready").json(), json!({"ready": true}));
}

#[test]
fn a_start_command_is_an_ordinary_command() {
    let script = "id -un; pwd; echo $GLOBAL $E2B_SANDBOX_ID; echo trouble >&2; exec sleep 300";
    let guest = prepared_as("nobody", Some("/tmp"), shell(script), Value::Null);
    assert_eq!(readiness(&guest), json!({"ready": true}));
    eventually("its output is journal_entries", || journal_entries(&guest).len() >= 5);
    let mut entries = journal_entries(&guest);
    assert!(entries.remove(0).1.contains("started: /bin/bash -c id -un"));
    entries.sort();
    let info = ["everywhere iabcdefghij0123456789", "/tmp", "nobody"];
    let mut wanted: Vec<_> = info.iter().map(|line| ("info".to_owned(), format!("Start command: {line}"))).collect();
    wanted.push(("warn".to_owned(), "Start command: trouble".to_owned()));
    wanted.sort();
    assert_eq!(entries, wanted);

    // It is listed, can be connected to, does not count as activity, and can be killed.
    let (_, list) = guest.call("process.Process/List", &json!({}));
    assert_eq!((&list["processes"][0]["tag"], &list["processes"][1]), (&json!("service:start"), &Value::Null));
    assert_eq!(guest.control_get("/activity").json(), json!({"commands": 0}));
    let select = json!({"process": {"tag": "service:start"}});
    let mut connected = guest.stream("process.Process/Connect", &[], &select);
    assert_eq!(connected.pid(), list["processes"][0]["pid"].as_u64().unwrap());
    let mut signal = select;
    signal["signal"] = "SIGNAL_SIGKILL".into();
    assert_eq!(guest.call("process.Process/SendSignal", &signal).0, 200);
    let done = connected.finish();
    assert_eq!(done.end["status"], "signal: killed");
    assert!(done.stdout().contains("nobody\n"));
    assert_eq!(readiness(&guest), json!({"ready": true}), "what was ready stays ready");
}

#[test]
fn the_ready_command_is_tried_until_it_succeeds() {
    let start = shell("sleep 0.4; touch $DIR/up; exec sleep 300");
    let ready = shell("echo tried >> $DIR/tries; test -e $DIR/up");
    let started = Instant::now();
    let guest = prepared(start, ready);
    assert_eq!(readiness(&guest), json!({"ready": true}));
    assert!(started.elapsed() >= Duration::from_millis(400));
    let tries = std::fs::read_to_string(guest.file("tries")).unwrap().lines().count();
    assert!((2..=8).contains(&tries), "{tries} tries");
    // Waits longer than any backoff, because there is no signal for something that does not happen.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(std::fs::read_to_string(guest.file("tries")).unwrap().lines().count(), tries, "it is not tried again");
    // Only the start command is logged.
    assert_eq!(journal_entries(&guest).len(), 1);
    assert_eq!(guest.call("process.Process/List", &json!({})).1["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_ready_command_alone() {
    let guest = prepared(Value::Null, shell("test $(id -un) = root && test $GLOBAL = everywhere"));
    assert_eq!(readiness(&guest), json!({"ready": true}));
    let guest = prepared(Value::Null, shell("echo 'not yet'; exit 7"));
    let reply = guest.control_get("/ready?seconds=1").json();
    let message = "its ready command did not succeed: exit status 7";
    assert_eq!(reply, json!({"ready": false, "message": message, "output": ["not yet"], "exit_code": 7}));
    assert_eq!(guest.control_get("/ready").json(), reply, "that stays so");
    assert_eq!(guest.control_get("/journal").json(), json!([]));
}

#[test]
fn a_start_command_that_fails() {
    let script = "for n in $(seq 30); do echo line $n; done; printf 'no end' >&2; exit 3";
    let guest = prepared(shell(script), shell("sleep 300"));
    let reply = readiness(&guest);
    assert_eq!((&reply["ready"], &reply["exit_code"]), (&json!(false), &json!(3)));
    assert_eq!(reply["message"], "its start command ended (exit status 3) before the ready command succeeded");
    let output: Vec<_> = reply["output"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    assert_eq!((output.len(), output.contains(&"line 30"), output.contains(&"no end")), (20, true, true), "{output:?}");
    eventually("the try under way is ended", || guest.call("process.Process/List", &json!({})).1 == json!({}));
    assert_eq!(guest.get("/health").status, 204);

    let guest = prepared(shell("kill -9 $$"), shell("false"));
    let reply = readiness(&guest);
    assert_eq!(reply["message"], "its start command ended (signal: killed) before the ready command succeeded");
    assert_eq!(reply["exit_code"], Value::Null);
}

#[test]
fn a_start_command_that_goes_to_the_background() {
    let start = shell("(sleep 0.3; touch $DIR/up) > /dev/null 2>&1 & exit 0");
    let guest = prepared(start, shell("test -e $DIR/up"));
    assert_eq!(readiness(&guest), json!({"ready": true}));
}

#[test]
fn commands_that_cannot_be_started() {
    let guest = prepared(json!(["/no/such/program"]), shell("true"));
    let reply = readiness(&guest);
    assert_eq!(reply["ready"], false);
    let message = reply["message"].as_str().unwrap();
    assert!(
        message.starts_with("its start command could not be started: cannot start '/no/such/program': "),
        "{reply}"
    );
    assert_eq!(journal_entries(&guest)[0].0, "warn");

    let guest = prepared(Value::Null, json!(["/no/such/program"]));
    let reply = guest.control_get("/ready?seconds=1").json();
    assert!(reply["message"].as_str().unwrap().contains("did not succeed: cannot start '/no/such/program'"), "{reply}");
}

#[test]
fn a_hanging_ready_command_times_out() {
    let guest = prepared(Value::Null, shell("sleep 300 & wait"));
    let asked = Instant::now();
    let reply = guest.control_get("/ready?seconds=1").json();
    assert!(asked.elapsed() < Duration::from_secs(5));
    assert_eq!(reply, json!({"ready": false, "message": "its ready command has not ended"}));
    eventually("it is killed", || guest.call("process.Process/List", &json!({})).1 == json!({}));
}

#[test]
fn long_output_is_truncated() {
    let guest = prepared(shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; exit 1"), shell("sleep 300"));
    let reply = readiness(&guest);
    let output = reply["output"].as_array().unwrap();
    assert_eq!((output.len(), output[0].as_str().unwrap().len(), &output[1]), (2, 1024, &json!("end")));
    assert!(guest.memory() < 64 << 20);
}

#[test]
fn small_images_have_only_sh() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (program, name) in [("/bin/sh", "sh"), ("/bin/sleep", "sleep")] {
        std::fs::copy(program, bin.join(name)).unwrap();
    }
    let mut config = config(None);
    config["start"] = shell("echo from $0; exec sleep 300");
    config["ready"] = shell("true");
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let socket = dir.path().join("socket");
    // In its own mount namespace, with nothing else in /bin.
    let script = "set -e; mount --bind $DIR/bin /bin; \
                  exec $GUEST --listen unix:$DIR/socket --config $DIR/config.json --control $DIR/control";
    let child = Command::new("unshare")
        .args(["--mount", "--", "/bin/sh", "-c", script])
        .env("DIR", dir.path())
        .env("GUEST", env!("CARGO_BIN_EXE_cabana-guest"))
        .spawn()
        .unwrap();
    let guest = Guest::adopt(child, socket, dir);
    assert_eq!(readiness(&guest), json!({"ready": true}));
    eventually("its output is journal_entries", || journal_entries(&guest).len() == 2);
    assert_eq!(journal_entries(&guest)[1].1, "Start command: from /bin/sh");
}
