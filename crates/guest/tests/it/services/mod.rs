//! Services on the control socket: their output, what listens, and their end.

mod end;
mod listening;
mod output;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Guest, Whole, basic, config};

/// A daemon in a directory that everybody may write to.
fn guest() -> Guest {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    Guest::configured(dir, &config(None))
}

/// A tag that no other test has: all of them see the processes of the machine.
fn tag(name: &str) -> String {
    format!("service:{name}-{}/1", std::process::id())
}

/// A service; dropping it ends all of its processes.
struct Service<'a> {
    guest: &'a Guest,
    tag: String,
    pid: u64,
}

impl<'a> Service<'a> {
    fn start(guest: &'a Guest, name: &str, script: &str) -> Self {
        Self::start_as(guest, "root", name, script)
    }

    fn start_as(guest: &'a Guest, user: &str, name: &str, script: &str) -> Self {
        let tag = tag(name);
        let message = json!({"tag": tag, "process": {"cmd": "/bin/bash", "args": ["-c", script], "cwd": guest.dir(),
            "envs": {"HOME": "/nonexistent", "CABANA_SERVICE": tag}}});
        let user = basic(user);
        let mut frames = guest.stream("process.Process/Start", &[("authorization", &user)], &message);
        Self { pid: frames.pid(), guest, tag }
    }

    fn output(&self, query: &str) -> Value {
        let answer = self.guest.control_get(&format!("/output?tag={}{query}", self.tag));
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["command"].clone()
    }

    fn listening(&self, query: &str) -> Value {
        let answer = self.guest.control_get(&format!("/listening?tag={}&wait=20{query}", self.tag));
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    }

    fn end(&self, seconds: u64) -> Whole {
        self.guest.control("POST", &format!("/end?tag={}&seconds={seconds}", self.tag), &[], b"")
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.end(0).status, 204);
        } else {
            let _ = self.end(0);
        }
    }
}

/// What a command printed, as text.
fn data(output: &Value) -> String {
    String::from_utf8(STANDARD.decode(output["data"].as_str().unwrap()).unwrap()).unwrap()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program that listens for ever.
fn listener(address: &str, port: u16) -> String {
    let family = if address.contains(':') { "AF_INET6" } else { "AF_INET" };
    format!(
        "python3 -c 'import socket,time; s=socket.socket(socket.{family}); s.bind((\"{address}\",{port})); s.listen(); time.sleep(600)'"
    )
}

/// Whether a process runs.
fn runs(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

/// The number in a file that a script writes.
fn number_in(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok())
}

#[test]
fn requests_are_checked() {
    let guest = guest();
    let long = format!("/output?tag=service:{}", "x".repeat(300));
    for (path, words) in [
        ("/output", "tag is required"),
        ("/output?tag=terminal:1", "tag must begin with 'service:'"),
        (long.as_str(), "at most 256 bytes"),
        ("/output?tag=service:a&after=-1", "after must be a whole number"),
        ("/output?tag=service:a&max=1048577", "max must be a whole number up to 1048576"),
        ("/output?tag=service:a&wait=61", "wait must be a number of seconds up to 60"),
        ("/output?tag=service:a&wait=nan", "wait must be a number"),
        ("/output?tag=service:a&end=yes", "end must be true or false"),
        ("/listening", "port or tag is required"),
        ("/listening?port=0", "port must be a number"),
        ("/listening?port=70000", "port must be a whole number up to 65535"),
        ("/listening?tag=a", "tag must begin"),
        ("/listening?port=80&wait=1e9", "wait must be"),
    ] {
        let answer = guest.control_get(path);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.message().contains(words), "{path}: {}", answer.message());
    }
    for path in ["/end", "/end?tag=start", "/end?tag=service:a&seconds=61", "/end?tag=service:a&seconds=x"] {
        assert_eq!(guest.control("POST", path, &[], b"").status, 400, "{path}");
    }
    assert_eq!(guest.control("GET", "/end?tag=service:a", &[], b"").status, 404);
    for (method, path) in
        [("GET", "/output?tag=service:a"), ("GET", "/listening?port=80"), ("POST", "/end?tag=service:a")]
    {
        assert_eq!(guest.http(method, path, &[], b"").status, 404, "clients cannot: {path}");
    }
}

#[test]
fn ports_name_their_service() {
    let guest = guest();
    let port = free_port();
    let service = Service::start_as(&guest, "nobody", "ports", &format!("setsid {} &", listener("127.0.0.1", port)));
    let found = service.listening(&format!("&port={port}"));
    assert_eq!((&found["own"], &found["process"]), (&json!(true), &json!("python3")), "{found}");
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = guest.control_get("/ports").json();
    let at = |port: u16| ports.as_array().unwrap().iter().find(|p| p["port"] == port).unwrap().clone();
    assert_eq!(at(port)["service"], service.tag.as_str());
    assert_eq!(at(other.local_addr().unwrap().port()).get("service"), None);
}
