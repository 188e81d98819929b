//! Output under load: large, slow, shared, replayed, background processes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Guest, eventually};

const MIB: u64 = 1 << 20;

fn connect(guest: &Guest, pid: u64) -> crate::client::Frames {
    guest.stream("process.Process/Connect", &[], &json!({"process": {"pid": pid}}))
}

#[test]
fn everything_arrives_before_the_end() {
    let guest = Guest::start();
    let done = guest.command("head -c 20000000 /dev/zero; head -c 3000000 /dev/zero >&2").finish();
    assert_eq!((done.stdout.len(), done.stderr.len()), (20_000_000, 3_000_000));
    assert_eq!(done.end["exited"], true);
}

#[test]
fn a_stalled_reader_blocks_the_process_with_bounded_memory() {
    let guest = Guest::start();
    let count = guest.file("count");
    let script = format!("i=0; while :; do head -c 100000 /dev/zero; i=$((i+1)); echo $i > {count}; done");
    let mut frames = guest.command(&script);
    let pid = frames.pid();
    let written = || std::fs::read_to_string(&count).ok().and_then(|t| t.trim().parse::<u64>().ok()).unwrap_or(0);
    let (mut last, mut since) = (0, Instant::now());
    eventually("the process is held up", || {
        if written() != last {
            (last, since) = (written(), Instant::now());
        }
        last > 0 && since.elapsed() > Duration::from_millis(700)
    });
    assert!(last < 15, "the process wrote {last}00 kB to a reader that reads nothing");
    assert!(guest.memory() < 24 * MIB, "{} bytes", guest.memory());

    // Without a reader it runs freely, and only the newest output is kept.
    drop(frames);
    eventually("it continues", || written() > last + 500);
    assert!(guest.memory() < 24 * MIB, "{} bytes", guest.memory());
    guest.call("process.Process/SendSignal", &json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}));
    let done = connect(&guest, pid).finish();
    assert!(done.stdout.len() as u64 <= MIB && done.stdout.len() > 500_000, "{} bytes", done.stdout.len());
    assert_eq!(done.end["status"], "signal: killed");
    assert!(dropped(&done.stderr) > 40_000_000, "what is no longer there is counted");
}

/// The number of dropped bytes in the line that replaces them.
fn dropped(seen: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(seen);
    let number = text.strip_prefix("[cabana: ").and_then(|rest| rest.split_once(" bytes of output were dropped]"));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_late_reader_learns_how_much_it_missed() {
    let guest = Guest::start();
    let written = guest.file("written");
    let script = format!("head -c 3000000 /dev/zero; echo end; touch {written}; sleep 300");
    let mut first = guest.command(&script);
    let pid = first.pid();
    drop(first);
    eventually("everything is written", || Path::new(&written).exists());
    guest.call("process.Process/SendSignal", &json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}));
    for _ in 0..2 {
        let late = connect(&guest, pid).finish();
        assert_eq!(dropped(&late.stderr) + late.stdout.len() as u64, 3_000_004);
        assert!(late.stdout.ends_with(b"end\n"));
    }

    // On a terminal the line is part of the single stream.
    let written = guest.file("written on a terminal");
    let terminal = json!({"pty": {"size": {"cols": 80, "rows": 24}}});
    let script = format!("head -c 3000000 /dev/zero | tr '\\0' x; echo end; touch '{written}'; sleep 300");
    let mut first = guest.command_with(&[], &terminal, &script);
    let pid = first.pid();
    drop(first);
    eventually("everything is written", || Path::new(&written).exists());
    guest.call("process.Process/SendSignal", &json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}));
    let late = connect(&guest, pid).finish();
    let line = late.pty.split_inclusive(|b| *b == b'\n').next().unwrap();
    assert!(line.ends_with(b"\r\n"));
    assert_eq!(dropped(line) + (late.pty.len() - line.len()) as u64, 3_000_005);
}

#[test]
fn a_late_reader_gets_old_and_new_output() {
    let guest = Guest::start();
    let go = guest.file("go");
    let mut frames = guest.command(&format!("echo before; until test -e {go}; do sleep 0.02; done; echo after"));
    let pid = frames.pid();
    assert!(frames.event()["data"]["stdout"].is_string());
    let mut late = connect(&guest, pid);
    assert_eq!(late.pid(), pid);
    assert!(late.event()["data"]["stdout"].is_string());
    std::fs::write(&go, "").unwrap();
    assert_eq!(frames.finish().stdout(), "after\n");
    let done = late.finish();
    assert_eq!((done.stdout().as_str(), &done.end["exited"]), ("after\n", &json!(true)));
    // Again after the end.
    assert_eq!(connect(&guest, pid).finish().stdout(), "before\nafter\n");
}

#[test]
fn a_background_process_does_not_delay_the_end() {
    let guest = Guest::start();
    let marker = guest.file("marker");
    let started = Instant::now();
    let done = guest.command(&format!("(sleep 1; echo late; echo later; touch {marker}) & echo now")).finish();
    assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    assert_eq!((done.stdout().as_str(), &done.end["exited"]), ("now\n", &json!(true)));
    // Its pipe stays open, so it is not killed by SIGPIPE.
    eventually("it continues", || Path::new(&marker).exists());
}

#[test]
fn a_background_flood_does_not_delay_the_end() {
    let guest = Guest::start();
    let started = Instant::now();
    let mut frames = guest.command("yes & echo $! >&2");
    let pid = frames.pid();
    let done = frames.finish();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let left: i32 = String::from_utf8(done.stderr.clone()).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(left).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    assert!(pid > 0);
}

#[test]
fn idle_streams_get_keepalives() {
    let guest = Guest::start();
    let done = guest.command_with(&[("keepalive-ping-interval", "1")], &json!({}), "sleep 2.5").finish();
    assert_eq!((done.keepalives, &done.end["exited"]), (2, &json!(true)));
}

#[test]
fn a_stream_has_its_own_deadline() {
    let guest = Guest::start();
    let mut frames = guest.command("sleep 300");
    let pid = frames.pid();
    let message = json!({"process": {"pid": pid}});
    let done = guest.stream("process.Process/Connect", &[("connect-timeout-ms", "300")], &message).finish();
    assert_eq!(done.code(), "deadline_exceeded");
    let (_, list) = guest.call("process.Process/List", &json!({}));
    assert_eq!(list["processes"][0]["pid"], json!(pid), "the command keeps running");
}

#[test]
fn a_hundred_readers_get_the_same_output() {
    let guest = Guest::start();
    let go = guest.file("go");
    let mut frames = guest.command(&format!("until test -e {go}; do sleep 0.02; done; seq 20000"));
    let pid = frames.pid();
    let readers: Vec<_> = (0..100).map(|_| connect(&guest, pid)).collect();
    std::fs::write(&go, "").unwrap();
    let expected = frames.finish().stdout();
    assert_eq!(expected.lines().count(), 20000);
    for reader in readers {
        assert_eq!(reader.finish().stdout(), expected);
    }
    assert_eq!(guest.call("process.Process/List", &json!({})).1, Value::Object(Default::default()));
}

#[test]
fn a_stalled_reader_is_disconnected() {
    let guest = Guest::start();
    let go = guest.file("go");
    let mut frames = guest.command(&format!("until test -e {go}; do sleep 0.02; done; head -c 30000000 /dev/zero"));
    let pid = frames.pid();
    let mut stalled = connect(&guest, pid);
    stalled.pid();
    std::fs::write(&go, "").unwrap();
    assert_eq!(frames.finish().stdout.len(), 30_000_000);
    assert_eq!(stalled.finish().code(), "aborted");
}
