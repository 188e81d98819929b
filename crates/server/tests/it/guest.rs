//! A guest daemon whose readiness a test controls; every other request succeeds.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

#[derive(Debug, Default)]
struct Said {
    asked: Mutex<Vec<String>>,
    answer: Mutex<Option<Vec<u8>>>,
    changed: Condvar,
}

/// One for all sandboxes of a test.
pub(crate) struct Guest {
    said: Arc<Said>,
    dir: tempfile::TempDir,
}

impl Guest {
    /// Does not report its readiness at first.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let listener = UnixListener::bind(dir.path().join("guest.sock")).expect("bind");
        let said = Arc::new(Said::default());
        let shared = Arc::clone(&said);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { said, dir }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("guest.sock")
    }

    /// Sets the reported readiness, also for requests that wait.
    pub(crate) fn say(&self, readiness: &Value) {
        self.say_bytes(readiness.to_string().as_bytes());
    }

    pub(crate) fn say_bytes(&self, bytes: &[u8]) {
        *self.said.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes.to_vec());
        self.said.changed.notify_all();
    }

    /// Reports no readiness any more.
    pub(crate) fn be_silent(&self) {
        *self.said.answer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The requests for the readiness.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.said.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Said {
    fn serve(&self, mut stream: UnixStream) {
        let mut head = vec![];
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if !target.starts_with("/ready") {
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            return;
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(target);
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, _) = self
            .changed
            .wait_timeout_while(answer, Duration::from_secs(60), |answer| answer.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        let Some(body) = answer.clone() else { return };
        drop(answer);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body);
    }
}
