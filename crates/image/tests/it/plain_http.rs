//! The other side of HTTP: a client to push with, and a server that answers as a test wants it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
}

/// Sends one request and reads the status and headers of its answer.
pub(crate) fn request(at: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Heard {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    stream.write_all(body).unwrap();
    let mut reader = BufReader::new(stream);
    let (first, headers) = head_of(&mut reader).expect("an answer");
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    Heard { status, headers }
}

fn head_of(reader: &mut impl BufRead) -> Option<(String, BTreeMap<String, String>)> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => return Some((first.trim_end().to_owned(), headers)),
        };
    }
}

/// What the server was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

/// What it answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The connection ends after so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Nothing more comes after so many bytes of the body, and the connection stays.
    pub(crate) stall: Option<usize>,
    /// One byte of the body at a time, with this between.
    pub(crate) drip: Option<Duration>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

type Handler = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server on a free port of this machine, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let handler: Arc<Handler> = Arc::new(handler);
        let (log, end) = (asked.clone(), ended.clone());
        let thread = std::thread::spawn(move || {
            // Stalled connections stay open as long as the server.
            let held = Arc::new(Mutex::new(Vec::new()));
            for stream in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let (handler, log, end, held) = (handler.clone(), log.clone(), end.clone(), held.clone());
                let Ok(stream) = stream else { continue };
                std::thread::spawn(move || answer(stream, &*handler, &log, &end, &held));
            }
        });
        Self { address, asked, ended, thread: Some(thread) }
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| asked.path.clone()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(
    stream: TcpStream,
    handler: &Handler,
    log: &Mutex<Vec<Asked>>,
    end: &AtomicBool,
    held: &Mutex<Vec<TcpStream>>,
) {
    let mut reader = BufReader::new(stream);
    let Some((first, headers)) = head_of(&mut reader) else { return };
    let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let asked = Asked { path: first.split(' ').nth(1).unwrap_or_default().to_owned(), headers };
    let reply = handler(&asked);
    log.lock().unwrap().push(asked);
    let mut head = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.len());
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = reader.into_inner();
    // The client may have had enough: that is its right.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(b"\r\n");
    if let Some(pause) = reply.drip {
        for byte in &reply.body {
            if end.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(pause);
        }
    } else {
        let until = reply.cut.or(reply.stall).unwrap_or(reply.body.len()).min(reply.body.len());
        let _ = stream.write_all(&reply.body[..until]);
        let _ = stream.flush();
    }
    if reply.stall.is_some() {
        held.lock().unwrap().push(stream);
    }
}
