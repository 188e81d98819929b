//! The whole output of a command in a file inside the sandbox, as it comes. The file is made by a thread with the account's permissions and
//! written by threads that may block; the command is slowed down if the disk is slower than it.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

use cabana_types::guest::tools::{MAX_OUTPUT_FILE, OUTPUT_AFTER_HEADER, OUTPUT_DIR, OUTPUT_FILE_HEADER};
use connectrpc::ConnectError;
use http::HeaderMap;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use tokio::task::JoinHandle;

use super::identity::Identity;
use crate::users::Account;

/// Output that waits while earlier output is written.
const MAX_WAITING: usize = 256 << 10;
/// Most output before which the file is not made.
const MAX_AFTER: u64 = 1 << 20;
const MAX_NAME: usize = 64;
/// How long the end of a command is delayed by a disk that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file of one command.
#[derive(Debug)]
pub(crate) struct OutputFile {
    name: String,
    after: u64,
    limit: u64,
    identity: Identity,
    /// Output that is not written yet.
    waiting: Vec<u8>,
    /// Bytes that were written, or are being written.
    written: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Too little was printed for a file.
    Unmade,
    Idle(File),
    Busy(JoinHandle<io::Result<File>>),
    /// It is complete or cannot be written.
    Stopped,
}

impl OutputFile {
    /// The file that the headers of a request ask for.
    pub(crate) fn asked_for(headers: &HeaderMap, account: &Account) -> Result<Option<Self>, ConnectError> {
        let Some(name) = headers.get(OUTPUT_FILE_HEADER) else { return Ok(None) };
        let is_plain = |stem: &str| {
            (1..=MAX_NAME).contains(&stem.len())
                && stem.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        };
        let name = name.to_str().ok().filter(|name| name.strip_suffix(".txt").is_some_and(is_plain));
        let name = name.ok_or_else(|| {
            ConnectError::invalid_argument(format!(
                "{OUTPUT_FILE_HEADER} must be a name of letters, digits, _ and -, and .txt"
            ))
        })?;
        let after = headers.get(OUTPUT_AFTER_HEADER).map_or(Some(0), |after| after.to_str().ok()?.parse::<u64>().ok());
        let after =
            after.ok_or_else(|| ConnectError::invalid_argument(format!("{OUTPUT_AFTER_HEADER} must be a number")))?;
        Ok(Some(Self::new(name.to_owned(), after, MAX_OUTPUT_FILE, Identity::of(account))))
    }

    fn new(name: String, after: u64, limit: u64, identity: Identity) -> Self {
        let after = after.min(MAX_AFTER);
        Self { name, after, limit, identity, waiting: Vec::new(), written: 0, state: State::Unmade }
    }

    /// Adds output. Waits if too much of it is not written yet.
    pub(crate) async fn write(&mut self, data: &[u8]) {
        if matches!(self.state, State::Stopped) {
            return;
        }
        self.waiting.extend_from_slice(data);
        if matches!(self.state, State::Unmade) && self.waiting.len() as u64 <= self.after {
            return;
        }
        self.start();
        if self.is_busy() && self.waiting.len() > MAX_WAITING {
            self.settle().await;
        }
    }

    /// Whether output is being written.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy(_))
    }

    /// Waits until what is being written is written, and goes on with what waits. May be dropped and called again.
    pub(crate) async fn settle(&mut self) {
        let State::Busy(job) = &mut self.state else { return };
        // An error concerns the file alone: the command and its readers go on.
        self.state = match job.await {
            Ok(Ok(file)) => State::Idle(file),
            Ok(Err(_)) | Err(_) => State::Stopped,
        };
        self.start();
    }

    /// Writes the rest.
    pub(crate) async fn finish(mut self) {
        let rest = async {
            while self.is_busy() {
                self.settle().await;
            }
        };
        // What is being written then goes on without us.
        let _ = tokio::time::timeout(PATIENCE, rest).await;
    }

    /// Starts to write what waits, unless something is being written.
    fn start(&mut self) {
        let file = match std::mem::replace(&mut self.state, State::Stopped) {
            State::Idle(file) if self.waiting.is_empty() => {
                self.state = State::Idle(file);
                return;
            }
            State::Idle(file) => Some(file),
            State::Unmade => None,
            State::Stopped => {
                self.waiting = Vec::new();
                return;
            }
            busy @ State::Busy(_) => {
                self.state = busy;
                return;
            }
        };
        let mut data = std::mem::take(&mut self.waiting);
        let room = usize::try_from(self.limit - self.written).unwrap_or(usize::MAX);
        data.truncate(room);
        if data.is_empty() && file.is_some() {
            return;
        }
        self.written += data.len() as u64;
        let (identity, name) = (self.identity.clone(), self.name.clone());
        self.state = State::Busy(tokio::task::spawn_blocking(move || {
            let mut file = match file {
                Some(file) => file,
                None => identity.run_and_wait(|| make(&name))??,
            };
            file.write_all(&data)?;
            Ok(file)
        }));
    }
}

/// Makes the file, and its directories if they are missing. None of them may be a link: they are in a directory of everybody.
fn make(name: &str) -> io::Result<File> {
    let (shared, own) = OUTPUT_DIR.split_at(OUTPUT_DIR.find("/cabana").unwrap_or(0));
    let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(CWD, shared, path, Mode::empty())?;
    for name in own.split('/').filter(|name| !name.is_empty()) {
        match mkdirat(&directory, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(cause) => return Err(cause.into()),
        }
        directory = openat(&directory, name, path | OFlags::NOFOLLOW, Mode::empty())?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(&directory, name, flags, Mode::from_raw_mode(0o644))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str, after: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(OUTPUT_FILE_HEADER, name.parse().unwrap());
        headers.insert(OUTPUT_AFTER_HEADER, after.parse().unwrap());
        headers
    }

    #[test]
    fn names_are_plain() {
        let account = crate::users::find_or_root("root");
        let of = |name: &str, after: &str| OutputFile::asked_for(&headers(name, after), &account);
        assert_eq!(of("call_1-A.txt", "5").unwrap().unwrap().after, 5);
        assert!(OutputFile::asked_for(&HeaderMap::new(), &account).unwrap().is_none());
        for bad in ["../x.txt", "x", ".txt", "a/b.txt", "a.b.txt", "", &format!("{}.txt", "x".repeat(65))] {
            assert!(of(bad, "0").is_err(), "{bad}");
        }
        assert!(of("x.txt", "-1").is_err());
    }

    #[tokio::test]
    async fn a_file_has_a_limit() {
        let name = format!("test-{}.txt", std::process::id());
        let path = format!("{OUTPUT_DIR}/{name}");
        let mut output = OutputFile::new(name.clone(), 10, 1000, Identity::plain(0, 0));
        output.write(b"0123456789").await;
        assert!(!output.is_busy() && !std::path::Path::new(&path).exists(), "made too early");
        for _ in 0..100 {
            output.write(&[b'x'; 100]).await;
        }
        output.finish().await;
        let text = std::fs::read(&path).unwrap();
        assert_eq!((text.len(), &text[..11]), (1000, &b"0123456789x"[..]));
        // A name that is taken is left alone.
        let mut second = OutputFile::new(name, 0, 1000, Identity::plain(0, 0));
        second.write(b"other").await;
        second.finish().await;
        assert_eq!(std::fs::read(&path).unwrap(), text);
        std::fs::remove_file(&path).unwrap();
    }
}
