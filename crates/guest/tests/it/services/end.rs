//! The end of a service, of all of its processes and of no others.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Service, guest, number_in, runs, tag};
use crate::client::{Guest, config, eventually};

/// Waits for the numbers that scripts write.
fn pids(guest: &Guest, names: &[&str]) -> Vec<u64> {
    let path = |name: &str| guest.dir().join(name);
    eventually("they run", || names.iter().all(|name| number_in(&path(name)).is_some()));
    names.iter().filter_map(|name| number_in(&path(name))).collect()
}

#[test]
fn in_order_and_then_by_force() {
    let guest = guest();
    let polite = Service::start(
        &guest,
        "polite",
        "trap 'echo bye; exit 7' TERM; echo $$ > polite; while :; do sleep 0.05; done",
    );
    pids(&guest, &["polite"]);
    let began = Instant::now();
    assert_eq!(polite.end(30).status, 204);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let output = polite.output("&wait=20&end=true");
    let farewells = super::data(&output).matches("bye").count();
    assert_eq!((farewells, &output["end"]["code"]), (1, &json!(7)), "one signal");
    assert_eq!(polite.end(30).status, 204, "it has ended");

    let script = "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 0.05; done' & \
        setsid bash -c 'echo $$ > stopped; kill -STOP $$; sleep 600' & echo $$ > first; while :; do sleep 0.05; done";
    let stubborn = Service::start(&guest, "stubborn", script);
    let processes = pids(&guest, &["first", "stubborn", "stopped"]);
    let began = Instant::now();
    assert_eq!(stubborn.end(1).status, 204);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(processes.iter().all(|pid| !runs(*pid)));
    assert_eq!(stubborn.output("&wait=20")["end"]["status"], "signal: killed");
}

#[test]
fn without_the_first_process() {
    let guest = guest();
    let script = "trap '' TERM; (setsid bash -c 'echo $$ > away; while :; do sleep 0.05; done' &) ; \
        (echo $BASHPID > stays; while :; do sleep 0.05; done) & exit 0";
    let service = Service::start_as(&guest, "nobody", "orphans", script);
    let processes = pids(&guest, &["away", "stays"]);
    assert_eq!(service.output("&wait=20&end=true")["end"]["code"], 0);
    assert!(processes.iter().all(|pid| runs(*pid)));
    assert_eq!(service.end(0).status, 204);
    assert!(processes.iter().all(|pid| !runs(*pid)));
}

#[test]
fn others_live_on() {
    let guest = guest();
    let one = Service::start(&guest, "one", "setsid bash -c 'echo $$ > one; sleep 600' & sleep 600");
    let two = Service::start(&guest, "two", "setsid bash -c 'echo $$ > two; sleep 600' & sleep 600");
    let mut command = guest.command("sleep 600");
    let pid = command.pid();
    let processes = pids(&guest, &["one", "two"]);
    assert_eq!(guest.control("POST", &format!("/end?tag={}", tag("none")), &[], b"").status, 204);
    assert_eq!(one.end(5).status, 204);
    assert!(!runs(processes[0]) && !runs(one.pid));
    assert!(runs(processes[1]) && runs(two.pid) && runs(pid));
}

#[test]
fn the_daemon_is_never_meant() {
    // As an ordinary process, and as process 1 of a namespace; with the mark in its own environment.
    for namespace in [&[][..], &["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child", "--"]] {
        let dir = tempfile::tempdir().unwrap();
        let (socket, tag) = (dir.path().join("socket"), tag("daemon"));
        std::fs::write(dir.path().join("config.json"), config(None).to_string()).unwrap();
        let mut line = namespace.to_vec();
        line.push(env!("CARGO_BIN_EXE_cabana-guest"));
        let child = Command::new(line[0])
            .args(&line[1..])
            .args(["--listen", &format!("unix:{}", socket.display()), "--config"])
            .arg(dir.path().join("config.json"))
            .arg("--control")
            .arg(dir.path().join("control"))
            .env("CABANA_SERVICE", if namespace.is_empty() { tag.as_str() } else { "service:unused" })
            .spawn();
        let Ok(child) = child else { continue }; // no unshare here
        let guest = Guest::adopt(child, socket, dir);
        eventually("the host can connect", || guest.dir().join("control").exists());
        // A process that fakes the mark ends; the daemon, and commands that it has started, do not.
        let mut frames = guest.command("sleep 600");
        frames.pid();
        let script = format!("CABANA_SERVICE={tag} setsid sleep 600 & jobs -p; wait $!; echo ended $?");
        let faked = guest.command(&script);
        eventually("it runs", || {
            guest.control_get(&format!("/listening?tag={tag}&wait=0")).json()["alive"] == json!(true)
        });
        assert_eq!(guest.control("POST", &format!("/end?tag={tag}&seconds=0"), &[], b"").status, 204);
        assert!(faked.finish().stdout().ends_with("ended 137\n"));
        assert_eq!(guest.control_get("/activity").json()["commands"], 1);
    }
}

#[test]
fn many_processes_and_huge_environments() {
    let guest = guest();
    // The mark comes last, after more than a megabyte; the session and the parent are others.
    let program = "import os,time\n\
        if os.fork(): os._exit(0)\n\
        os.setsid()\n\
        if os.fork(): os._exit(0)\n\
        mark = os.environ['CABANA_SERVICE']\n\
        huge = {'V%d' % i: 'x' * 100_000 for i in range(15)}\n\
        os.execve('/bin/bash', ['bash', '-c', 'echo $$ > huge; exec sleep 600'], {**huge, 'PATH': os.environ['PATH'], 'CABANA_SERVICE': mark})\n";
    std::fs::write(guest.dir().join("huge.py"), program).unwrap();
    let mut script = String::from("python3 huge.py; ");
    script.write_str("for i in $(seq 200); do (setsid sleep 600 &) ; done; for i in $(seq 50); do sleep 600 & done; echo $$ > first; wait").unwrap();
    let service = Service::start_as(&guest, "nobody", "many", &script);
    let processes = pids(&guest, &["first", "huge"]);
    let began = Instant::now();
    assert_eq!(service.end(10).status, 204);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(processes.iter().all(|pid| !runs(*pid)));
    assert_eq!(service.listening("")["alive"], false);
}

#[test]
fn processes_that_start_others_all_the_time() {
    let guest = guest();
    let script = "f() { trap '' TERM; echo $BASHPID > spawner; while :; do (setsid sleep 600 &) ; sleep 0.02; done; }; f & f & f & wait";
    let service = Service::start(&guest, "spawner", script);
    pids(&guest, &["spawner"]);
    assert_eq!(service.end(1).status, 204);
    assert_eq!(service.listening("")["alive"], false);
}

#[test]
fn goes_on_when_the_host_goes_away() {
    let guest = guest();
    let service = Service::start(&guest, "away", "trap '' TERM; echo $$ > first; while :; do sleep 0.05; done");
    pids(&guest, &["first"]);
    let mut stream = std::os::unix::net::UnixStream::connect(guest.dir().join("control")).unwrap();
    let request = format!("POST /end?tag={}&seconds=1 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", service.tag);
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    drop(stream);
    eventually("it is killed", || !runs(service.pid));
}
