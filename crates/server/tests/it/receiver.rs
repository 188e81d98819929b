//! A webhook receiver: a small HTTP server on loopback with scripted responses, which records its requests.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::eventually;

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Status(u16),
    Redirect(String),
    /// No answer until the other side gives up.
    Hang,
    /// The connection is closed.
    Close,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    head: String,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (n, v) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| v.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// Its type without the common prefix.
    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().expect("type").trim_start_matches("sandbox.lifecycle.").to_owned()
    }

    #[track_caller]
    pub(crate) fn is_signed(&self, secret: &str) {
        let digest = Sha256::digest(format!("{secret}{}", self.body));
        assert_eq!(self.header("e2b-signature"), Some(URL_SAFE_NO_PAD.encode(digest).as_str()));
        assert_eq!(self.header("e2b-signature-version"), Some("v1"));
    }
}

#[derive(Debug, Default)]
struct State {
    replies: Mutex<VecDeque<Reply>>,
    got: Mutex<Vec<Got>>,
    closed: AtomicBool,
}

/// The receiver. Dropping it closes its port.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Receiver {
    /// Sends each of these responses once, then 200.
    pub(crate) fn start(replies: &[Reply]) -> Self {
        Self::at("127.0.0.1:0".parse().expect("address"), replies)
    }

    pub(crate) fn at(address: SocketAddr, replies: &[Reply]) -> Self {
        let listener = TcpListener::bind(address).expect("bind");
        let state = Arc::new(State { replies: Mutex::new(replies.to_vec().into()), ..State::default() });
        let address = listener.local_addr().expect("address");
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.closed.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, shared) = (stream.expect("connection"), Arc::clone(&shared));
                std::thread::spawn(move || answer(stream, &shared));
            }
        });
        Self { address, state, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.state.got.lock().expect("lock").clone()
    }

    /// Waits for this many requests.
    pub(crate) fn wait(&self, count: usize) -> Vec<Got> {
        eventually(&format!("{count} requests arrived"), || self.got().len() >= count);
        self.got()
    }

    /// Types of what arrived.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.got().iter().map(Got::kind).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, state: &State) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
    let mut bytes = vec![];
    let got = loop {
        let mut part = [0; 4096];
        match stream.read(&mut part) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&part[..count]),
            _ => return,
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let got = Got { head: head.to_owned(), body: body.to_owned() };
            let length: usize = got.header("content-length").and_then(|l| l.parse().ok()).expect("length");
            if body.len() >= length {
                break got;
            }
        }
    };
    let reply = state.replies.lock().expect("lock").pop_front().unwrap_or(Reply::Status(200));
    state.got.lock().expect("lock").push(got);
    let _ = match reply {
        Reply::Status(status) => {
            write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        }
        Reply::Redirect(to) => write!(stream, "HTTP/1.1 307 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
        Reply::Hang => stream.read(&mut [0; 16]).map(drop),
        Reply::Close => Ok(()),
    };
}
