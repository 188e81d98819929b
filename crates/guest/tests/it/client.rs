//! Starts one daemon per test, and speaks HTTP/1.1 and Connect's JSON framing with it over plain sockets.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(u16),
}

/// A running daemon. Dropping it kills it and everything it started.
pub(crate) struct Guest {
    pub(crate) child: Child,
    pub(crate) address: Address,
    dir: tempfile::TempDir,
}

pub(crate) fn config(token: Option<&str>) -> Value {
    json!({
        "sandbox_id": "iabcdefghij0123456789", "template_id": "base", "access_token": token,
        "env_vars": {"GLOBAL": "everywhere", "HOME_OVERRIDE": "1"}, "default_user": "root", "default_workdir": null,
        "cpu_count": 2, "memory_bytes": 536_870_912u64, "disk_bytes": 1_073_741_824u64,
    })
}

impl Guest {
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    pub(crate) fn with(token: Option<&str>) -> Self {
        Self::configured(tempfile::tempdir().unwrap(), &config(token))
    }

    /// Starts with a custom configuration.
    pub(crate) fn configured(dir: tempfile::TempDir, config: &Value) -> Self {
        let socket = dir.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        let guest = Self::launch(dir, &listen, config, Address::Unix(socket));
        eventually("the daemon listens for the host", || guest.try_control().is_ok());
        guest
    }

    pub(crate) fn over_tcp(token: Option<&str>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Self::launch(tempfile::tempdir().unwrap(), &format!("127.0.0.1:{port}"), &config(token), Address::Tcp(port))
    }

    fn launch(dir: tempfile::TempDir, listen: &str, config: &Value, address: Address) -> Self {
        let file = dir.path().join("config.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cabana-guest"));
        command.args(["--listen", listen, "--config"]).arg(&file);
        if let Address::Unix(_) = &address {
            command.arg("--control").arg(dir.path().join("control"));
        }
        let child = command.spawn().unwrap();
        let guest = Self { child, address, dir };
        eventually("the daemon listens", || guest.try_connect().is_ok());
        guest
    }

    /// Wraps a daemon that the test started itself.
    pub(crate) fn adopt(child: Child, socket: PathBuf, dir: tempfile::TempDir) -> Self {
        let guest = Self { child, address: Address::Unix(socket), dir };
        eventually("the daemon listens", || guest.try_connect().is_ok());
        guest
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The path of a file in the test's directory, as text.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn try_connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match &self.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Address::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        })
    }

    pub(crate) fn connect(&self) -> Box<dyn Stream> {
        self.try_connect().unwrap()
    }

    fn try_control(&self) -> io::Result<Box<dyn Stream>> {
        let stream = UnixStream::connect(self.dir.path().join("control"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Box::new(stream))
    }

    /// Sends a request and reads the head of the response.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        Self::send_over(self.try_connect().unwrap(), method, path, headers, body)
    }

    /// The same on the control socket.
    pub(crate) fn control_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        Self::send_over(self.try_control().unwrap(), method, path, headers, body)
    }

    /// A plain request on the control socket with its whole response.
    pub(crate) fn control(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Whole {
        self.control_send(method, path, headers, body).whole()
    }

    pub(crate) fn control_get(&self, path: &str) -> Whole {
        self.control("GET", path, &[], b"")
    }

    fn send_over(
        mut stream: Box<dyn Stream>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: guest\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding")) {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A daemon that rejects early may close the connection before everything was sent.
        let _ = stream.write_all(body);
        Answer::read(stream, method == "HEAD")
    }

    /// A plain request with its whole response.
    pub(crate) fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Whole {
        self.send(method, path, headers, body).whole()
    }

    pub(crate) fn get(&self, path: &str) -> Whole {
        self.http("GET", path, &[], b"")
    }

    pub(crate) fn upload(&self, file: &str, headers: &[(&str, &str)], body: &[u8]) -> Whole {
        let mut all = vec![("content-type", "application/octet-stream")];
        all.extend_from_slice(headers);
        self.http("POST", &format!("/files?path={file}"), &all, body)
    }

    /// A unary call.
    pub(crate) fn call(&self, method: &str, message: &Value) -> (u16, Value) {
        self.call_with(method, &[], message)
    }

    pub(crate) fn call_with(&self, method: &str, headers: &[(&str, &str)], message: &Value) -> (u16, Value) {
        let mut all = vec![("content-type", "application/json"), ("connect-protocol-version", "1")];
        all.extend_from_slice(headers);
        let answer = self.http("POST", &format!("/{method}"), &all, message.to_string().as_bytes());
        (answer.status, answer.json())
    }

    /// A streaming call.
    pub(crate) fn stream(&self, method: &str, headers: &[(&str, &str)], message: &Value) -> Frames {
        self.stream_raw(method, headers, &frame(message))
    }

    pub(crate) fn stream_raw(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Frames {
        let mut all = vec![("content-type", "application/connect+json"), ("connect-protocol-version", "1")];
        all.extend_from_slice(headers);
        Frames { answer: self.send("POST", &format!("/{method}"), &all, body) }
    }

    pub(crate) fn command(&self, script: &str) -> Frames {
        self.command_with(&[], &json!({}), script)
    }

    /// Starts a script; `extra` are additional fields of the request.
    pub(crate) fn command_with(&self, headers: &[(&str, &str)], extra: &Value, script: &str) -> Frames {
        // Without a home: the login files of this machine's root are irrelevant here, and some leave locks when killed.
        let home = json!({"HOME": "/nonexistent"});
        let mut message = json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", script], "envs": home}});
        for (key, value) in extra.as_object().unwrap() {
            message[key] = value.clone();
        }
        self.stream("process.Process/Start", headers, &message)
    }

    /// Resident memory of the daemon in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && !matches!(self.child.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A response whose body is streamed.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) reader: BufReader<Box<dyn Stream>>,
    left: Left,
}

enum Left {
    Bytes(u64),
    Chunk(u64),
    Nothing,
}

impl Answer {
    pub(crate) fn read(stream: Box<dyn Stream>, head_only: bool) -> Self {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {line:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None => break,
            }
        }
        let mut answer = Self { status, headers, reader, left: Left::Nothing };
        answer.left = match answer.header("content-length") {
            _ if head_only || status == 204 || status == 304 || status == 101 => Left::Nothing,
            Some(length) => Left::Bytes(length.parse().unwrap()),
            None => Left::Chunk(0),
        };
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn whole(mut self) -> Whole {
        let mut body = Vec::new();
        self.read_to_end(&mut body).unwrap();
        Whole { status: self.status, headers: std::mem::take(&mut self.headers), body }
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunk(0) = self.left {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            if line.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let size = u64::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
            if size == 0 {
                self.reader.read_line(&mut line)?;
                self.left = Left::Nothing;
                return Ok(0);
            }
            self.left = Left::Chunk(size);
        }
        let (Left::Bytes(left) | Left::Chunk(left)) = &mut self.left else { return Ok(0) };
        let count = (&mut self.reader).take(*left).read(buffer)?;
        if count == 0 && *left > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= count as u64;
        if matches!(self.left, Left::Chunk(0)) {
            self.reader.read_line(&mut String::new())?;
        }
        Ok(count)
    }
}

/// A response with its body.
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Whole {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// One framed client message.
pub(crate) fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The frames of a streaming response.
pub(crate) struct Frames {
    pub(crate) answer: Answer,
}

impl Frames {
    /// The next frame, with its flag byte.
    pub(crate) fn frame(&mut self) -> (u8, Value) {
        let mut head = [0; 5];
        self.answer.read_exact(&mut head).unwrap();
        let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize];
        self.answer.read_exact(&mut body).unwrap();
        (head[0], serde_json::from_slice(&body).unwrap())
    }

    /// The next event; panics on the last frame.
    pub(crate) fn event(&mut self) -> Value {
        let (flags, message) = self.frame();
        assert_eq!(flags, 0, "the stream ended: {message}");
        message["event"].clone()
    }

    /// The process id in the first event.
    pub(crate) fn pid(&mut self) -> u64 {
        self.event()["start"]["pid"].as_u64().unwrap()
    }

    /// Reads everything up to the end.
    pub(crate) fn finish(mut self) -> Finished {
        let mut finished = Finished::default();
        loop {
            let (flags, message) = self.frame();
            if flags & 2 != 0 {
                finished.error = message.get("error").cloned();
                return finished;
            }
            let event = &message["event"];
            for (name, bytes) in
                [("stdout", &mut finished.stdout), ("stderr", &mut finished.stderr), ("pty", &mut finished.pty)]
            {
                if let Some(text) = event["data"][name].as_str() {
                    let data = STANDARD.decode(text).unwrap();
                    assert!(data.len() <= if name == "pty" { 16 << 10 } else { 32 << 10 });
                    bytes.extend_from_slice(&data);
                }
            }
            if event.get("keepalive").is_some() {
                finished.keepalives += 1;
            }
            if event.get("start").is_some() {
                finished.pid = event["start"]["pid"].as_u64();
            }
            if event.get("end").is_some() {
                finished.end = event["end"].clone();
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) pid: Option<u64>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) pty: Vec<u8>,
    pub(crate) keepalives: usize,
    pub(crate) end: Value,
    pub(crate) error: Option<Value>,
}

impl Finished {
    pub(crate) fn stdout(&self) -> String {
        assert_eq!(self.error, None);
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn code(&self) -> &str {
        self.error.as_ref().and_then(|e| e["code"].as_str()).unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.error.as_ref().and_then(|e| e["message"].as_str()).unwrap_or_default()
    }
}

/// Waits for a condition that must hold soon.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn basic(user: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:")))
}

pub(crate) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}
