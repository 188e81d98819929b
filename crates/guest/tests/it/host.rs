//! The host's side: inherited descriptors, `/init`, metrics, bridges; and running as process 1.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Guest, PATIENCE, config, eventually};

#[test]
fn settings_change_at_runtime() {
    let guest = Guest::start();
    assert_eq!(guest.get("/envs").json()["GLOBAL"], "everywhere");
    assert_eq!(guest.get("/envs").json()["E2B_TEMPLATE_ID"], "base");
    let change = json!({"envVars": {"ADDED": "1"}, "accessToken": "later", "defaultUser": "nobody",
        "defaultWorkdir": "/tmp", "timestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(guest.control("POST", "/init", &[], change.to_string().as_bytes()).status, 204);
    assert_eq!(guest.get("/envs").status, 401);
    let token = [("x-access-token", "later")];
    let done = guest.command_with(&token, &json!({}), "id -un; pwd; echo $ADDED $GLOBAL").finish();
    assert_eq!(done.stdout(), "nobody\n/tmp\n1 everywhere\n");
    assert_eq!(guest.control("POST", "/init", &[], b"").status, 204);
    assert_eq!(guest.control("POST", "/init", &[], b"nonsense").status, 400);
    assert_eq!(guest.control("POST", "/freeze", &[], b"").status, 404);
}

#[test]
fn metrics() {
    let guest = Guest::start();
    let reply = guest.http("GET", "/metrics", &[("cabana-disk-used", "4242")], b"").json();
    assert_eq!(
        (&reply["cpu_count"], &reply["mem_total_mib"], &reply["disk_used"]),
        (&json!(2), &json!(512), &json!(4242))
    );
    assert_eq!(reply["disk_total"], 1_073_741_824u64);
    assert!(reply["mem_used"].as_u64().unwrap() > 0 && reply["ts"].as_u64().unwrap() > 1_700_000_000);
    assert!(reply["cpu_used_pct"].is_number() && reply["mem_cache"].is_number() && reply["mem_used_mib"].is_number());
    let inside = Guest::over_tcp(None);
    let reply = inside.http("GET", "/metrics", &[("cabana-disk-used", "4242")], b"").json();
    assert_ne!(reply["disk_used"], 4242, "only the host is trusted");
}

#[test]
fn a_bridge_connects_to_a_port() {
    let guest = Guest::with(Some("token"));
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let port = listener.local_addr().unwrap().port();
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = [0; 5];
            stream.read_exact(&mut text).unwrap();
            stream.write_all(&text).unwrap();
        });
        let upgrade = [("connection", "upgrade"), ("upgrade", "cabana-bridge")];
        let mut answer = guest.control_send("GET", &format!("/bridge?port={port}"), &upgrade, b"");
        assert_eq!((answer.status, answer.header("upgrade")), (101, Some("cabana-bridge")));
        answer.reader.get_mut().write_all(b"hello").unwrap();
        let mut text = [0; 5];
        answer.reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        echo.join().unwrap();
        assert_eq!(answer.reader.read(&mut text).unwrap(), 0);
        let closed = guest.control("GET", &format!("/bridge?port={port}"), &upgrade, b"");
        assert_eq!((closed.status, &closed.json()["code"]), (502, &json!(502)));
        assert_eq!(guest.control_get(&format!("/bridge?port={port}")).status, 400);
    }
}

#[test]
fn inherited_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let [traffic, control] = ["traffic", "control"].map(|name| dir.path().join(name));
    let listener = UnixListener::bind(&traffic).unwrap();
    let control_listener = UnixListener::bind(&control).unwrap();
    let memory = rustix::fs::memfd_create("config", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut memory = std::fs::File::from(memory);
    memory.write_all(config(None).to_string().as_bytes()).unwrap();
    rustix::fs::seek(&memory, rustix::fs::SeekFrom::Start(0)).unwrap();
    let (ready, ready_theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    // Move them away from the numbers that they get in the child.
    let high = |fd: OwnedFd| rustix::io::fcntl_dupfd_cloexec(&fd, 50).unwrap();
    let fds = [high(listener.into()), high(memory.into()), high(ready_theirs), high(control_listener.into())];
    let mut command = Command::new(env!("CARGO_BIN_EXE_cabana-guest"));
    let raw = fds.each_ref().map(|fd| fd.as_raw_fd());
    // SAFETY: dup2 is a plain system call on descriptors that stay open until the child has started.
    unsafe {
        command.pre_exec(move || {
            for (number, fd) in (3..).zip(raw) {
                if libc::dup2(fd, number) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    drop(fds);
    let mut byte = Vec::new();
    std::fs::File::from(ready).read_to_end(&mut byte).unwrap();
    let took = started.elapsed();
    let ask = |socket: &Path, path: &str| {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (answer, journal, hidden) = (ask(&traffic, "/health"), ask(&control, "/journal"), ask(&traffic, "/journal"));
    let dumpable = std::fs::metadata(format!("/proc/{}/environ", child.id())).is_ok();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(byte, b"1");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(journal.starts_with("HTTP/1.1 200"), "{journal}");
    assert!(hidden.starts_with("HTTP/1.1 404"), "{hidden}");
    assert!(dumpable);
}

#[test]
fn missing_descriptors_are_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_cabana-guest")).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("inherited descriptor"));
    let output = Command::new(env!("CARGO_BIN_EXE_cabana-guest")).arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage"));
}

#[test]
fn as_process_one() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    std::fs::write(dir.path().join("config.json"), config(None).to_string()).unwrap();
    let child = Command::new("unshare")
        .args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child", "--"])
        .arg(env!("CARGO_BIN_EXE_cabana-guest"))
        .args(["--listen", &format!("unix:{}", socket.display()), "--config"])
        .arg(dir.path().join("config.json"))
        .spawn();
    let Ok(child) = child else { return }; // no unshare here
    let guest = Guest::adopt(child, socket, dir);
    let pid = {
        let mut frames = guest.command("kill -TERM 1; kill -9 1; cat /proc/1/comm; (sleep 0.2 &) ; exec sleep 300");
        frames.pid()
    };
    assert!(pid < 100, "{pid}");
    // No process inside can kill it, and only root with ptrace rights can read its secrets.
    let done = guest.command_with(
        &[("authorization", &crate::client::basic("nobody"))],
        &json!({}),
        "kill -9 -1; kill -9 1; cat /proc/1/environ /proc/1/maps; ls /proc/1/fd",
    );
    let mut frames = done;
    frames.pid();
    drop(frames);
    eventually("no zombie is left", || {
        let (_, list) = guest.call("process.Process/List", &json!({}));
        list["processes"].as_array().map_or(0, Vec::len) == 1
    });
    // A process that has just ended is a zombie until it is reaped.
    eventually("all that ended is collected", || {
        let done = guest.command("ps -e -o stat= | grep -c Z; cat /proc/1/comm").finish();
        done.stdout() == "0\ncabana-guest\n"
    });
}

#[test]
fn the_host_reads_the_journal() {
    let guest = Guest::start();
    assert_eq!(guest.control_get("/journal").json(), json!([]));
    guest.command("echo 'two\nlines'; exit 3").finish();
    let mut slow = guest.command_with(&[("connect-timeout-ms", "200")], &json!({}), "sleep 300");
    let slow_pid = slow.pid();
    assert_eq!(slow.finish().code(), "deadline_exceeded");
    eventually("the end is noted", || guest.control_get("/journal").json().as_array().unwrap().len() == 4);
    let entries = guest.control_get("/journal").json();
    let said: Vec<_> = entries.as_array().unwrap().iter().map(|e| e["message"].as_str().unwrap()).collect();
    let pid = &entries[0]["pid"];
    assert_eq!(said[0], format!("Process {pid} started: /bin/bash -l -c echo 'two lines'; exit 3"));
    assert_eq!(said[1], format!("Process {pid} ended: exit status 3"));
    assert_eq!(said[3], format!("Process {slow_pid} was killed: its deadline passed"));
    assert_eq!((&entries[1]["level"], &entries[3]["level"]), (&json!("info"), &json!("warn")));
    assert!(entries[0]["at"].as_i64().unwrap() > 1_700_000_000_000_000);
}
