//! Commands of the host on the control socket: the file with their whole output, and ending them with all that they started.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::client::{Frames, Guest, basic, eventually, frame};

const DIR: &str = "/tmp/cabana/outputs";

/// A name that no other test uses.
fn name(what: &str) -> (String, PathBuf) {
    let name = format!("test-{what}-{}.txt", std::process::id());
    let path = Path::new(DIR).join(&name);
    let _ = std::fs::remove_file(&path);
    (name, path)
}

fn start(guest: &Guest, headers: &[(&str, &str)], script: &str) -> Frames {
    let process = json!({"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": false, "tag": "call:1"});
    let mut all = vec![("content-type", "application/connect+json"), ("connect-protocol-version", "1")];
    all.extend_from_slice(headers);
    Frames { answer: guest.control_send("POST", "/process.Process/Start", &all, &frame(&process)) }
}

#[test]
fn the_file_is_made_when_there_is_much_output() {
    let guest = Guest::with(Some("token"));
    let (file, path) = name("lazy");
    let headers = [("cabana-output-file", file.as_str()), ("cabana-output-after", "100")];
    let done = start(&guest, &headers, "printf '%100s' x").finish();
    assert_eq!(done.stdout.len(), 100, "no token is needed");
    assert!(!path.exists());
    let done = start(&guest, &headers, "printf '%100s' x; sleep 0.1; echo err >&2; sleep 0.1; echo out").finish();
    assert_eq!(done.end["exited"], true);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{:>100}err\nout\n", "x"));
    std::fs::remove_file(&path).unwrap();
    // From the first byte.
    start(&guest, &[("cabana-output-file", &file), ("cabana-output-after", "0")], "echo x").finish();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
    std::fs::remove_file(&path).unwrap();
    for bad in ["../../x.txt", "a", "a/b.txt"] {
        assert_eq!(start(&guest, &[("cabana-output-file", bad)], "echo x").finish().code(), "invalid_argument");
    }
}

#[test]
fn only_the_host_can_ask_for_it() {
    let guest = Guest::start();
    let (file, path) = name("traffic");
    guest.command_with(&[("cabana-output-file", &file)], &json!({}), "echo x").finish();
    let inside = Guest::over_tcp(None);
    inside.command_with(&[("cabana-output-file", &file)], &json!({}), "echo x").finish();
    assert!(!path.exists());
}

#[test]
fn a_link_at_its_place_is_not_followed() {
    let guest = Guest::start();
    let (file, path) = name("link");
    std::fs::create_dir_all(DIR).unwrap();
    let victim = guest.dir().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    for target in [victim.clone(), guest.dir().join("not-there")] {
        symlink(&target, &path).unwrap();
        let done = start(&guest, &[("cabana-output-file", &file)], "echo x").finish();
        assert_eq!(done.stdout(), "x\n", "the command does not notice");
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!guest.dir().join("not-there").exists());
}

#[test]
fn much_output_of_two_commands_at_once() {
    let guest = Guest::start();
    let [(one, first), (two, second)] = [name("one"), name("two")];
    let begin = Instant::now();
    let scripts = ["head -c 100000000 /dev/zero", "yes 12345678 | head -c 30000000; exit 3"];
    let mut running = [&one, &two]
        .into_iter()
        .zip(scripts)
        .map(|(file, script)| start(&guest, &[("cabana-output-file", file), ("cabana-output-after", "32768")], script));
    let (a, b) = (running.next().unwrap(), running.next().unwrap());
    let other = std::thread::spawn(move || b.finish());
    let done = a.finish();
    let memory = guest.memory();
    let other = other.join().unwrap();
    assert_eq!((done.stdout.len(), other.stdout.len()), (100_000_000, 30_000_000));
    assert_eq!(other.end["exitCode"], 3);
    assert_eq!(std::fs::metadata(&first).unwrap().size(), 100_000_000);
    assert!(std::fs::read(&second).unwrap() == other.stdout, "everything, in order");
    assert!(memory < 32 << 20, "{memory} bytes");
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    std::fs::remove_file(&first).unwrap();
    std::fs::remove_file(&second).unwrap();
}

#[test]
fn a_quiet_command_has_its_output_in_the_file() {
    let guest = Guest::start();
    let (file, path) = name("quiet");
    let mut frames = start(&guest, &[("cabana-output-file", &file)], "echo 1; echo 2 >&2; echo 3; sleep 300");
    frames.pid();
    eventually("all of it is there while it runs", || std::fs::read_to_string(&path).is_ok_and(|text| text.len() == 6));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_whole_group_can_be_killed_after_its_leader() {
    let guest = Guest::start();
    let marker = guest.file("marker");
    let stubborn = format!("trap '' TERM; echo $BASHPID > {marker}; while :; do sleep 0.1; done");
    let mut frames = start(&guest, &[], &format!("trap 'exit 9' TERM; ({stubborn}) & wait"));
    let pid = frames.pid();
    let child = || std::fs::read_to_string(&marker).ok().and_then(|t| t.trim().parse::<u32>().ok());
    eventually("the child runs", || child().is_some());
    let child = child().unwrap();
    let signal = |signal: &str| {
        let message = json!({"process": {"pid": pid}, "signal": signal}).to_string();
        let headers = [("content-type", "application/json"), ("connect-protocol-version", "1")];
        guest.control("POST", "/process.Process/SendSignal", &headers, message.as_bytes()).status
    };
    assert_eq!(signal("SIGNAL_SIGTERM"), 200);
    assert_eq!(frames.finish().end["exitCode"], 9, "the leader ends");
    let is_alive = || std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
    assert!(is_alive(), "the child ignores it");
    assert_eq!(signal("SIGNAL_SIGKILL"), 200);
    eventually("the child is gone", || !is_alive());
    eventually("nothing is left to signal", || signal("SIGNAL_SIGKILL") == 404);
}

#[test]
fn the_file_belongs_to_the_account() {
    let guest = Guest::start();
    // Directories of another account would refuse it.
    let mine = std::fs::metadata("/tmp/cabana").is_ok_and(|found| found.uid() != 65534);
    let (file, path) = name("owner");
    let user = basic("nobody");
    let done = start(&guest, &[("cabana-output-file", &file), ("authorization", &user)], "id -un").finish();
    assert_eq!(done.stdout(), "nobody\n");
    match mine {
        true => assert!(!path.exists(), "not with the daemon's permissions"),
        false => {
            assert_eq!(std::fs::metadata(&path).unwrap().uid(), 65534);
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
