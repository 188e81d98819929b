//! Input of a command: a pipe, a terminal or nothing. Writers are serialised, so that chunks never interleave.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::guest::lock;

/// A descriptor registered with the async runtime.
pub(crate) type RegisteredFd = Arc<AsyncFd<OwnedFd>>;

/// Registers a descriptor with the async runtime and makes it non-blocking.
pub(crate) fn register(fd: OwnedFd) -> io::Result<RegisteredFd> {
    rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
    // SAFETY: the descriptor is owned, so it stays open and unchanged until `AsyncFd` is dropped.
    Ok(Arc::new(unsafe { AsyncFd::register(fd) }?))
}

/// Kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `/dev/null`.
    None,
    Stdin,
    Pty,
}

/// Why input was rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The command was started without input.
    #[error("the process has no stdin")]
    None,
    /// Input was closed, or the process has ended.
    #[error("stdin of the process is closed")]
    Closed,
    /// Plain input was sent to a terminal.
    #[error("the process has a terminal: send its input as pty")]
    IsPty,
    /// Terminal input was sent to a pipe.
    #[error("the process has no terminal: send its input as stdin")]
    NotPty,
    /// A terminal signals the end of input by a byte.
    #[error("the input of a terminal cannot be closed: send Ctrl+D (0x04) instead")]
    CannotClose,
    /// The write failed.
    #[error("cannot write to the process")]
    Io(#[from] io::Error),
}

#[derive(Debug)]
pub(crate) struct Input {
    kind: Kind,
    end: Mutex<Option<RegisteredFd>>,
    turn: tokio::sync::Mutex<()>,
    shut: tokio::sync::watch::Sender<bool>,
}

impl Input {
    /// Wraps the daemon's end of the input.
    pub(crate) fn new(kind: Kind, end: Option<RegisteredFd>) -> Self {
        Self {
            kind,
            end: Mutex::new(end),
            turn: tokio::sync::Mutex::new(()),
            shut: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Writes all of `data`, or fails once the input is shut.
    pub(crate) async fn write(&self, kind: Kind, mut data: &[u8]) -> Result<(), InputError> {
        match (self.kind, kind) {
            (Kind::None, _) => return Err(InputError::None),
            (Kind::Pty, Kind::Stdin) => return Err(InputError::IsPty),
            (Kind::Stdin, Kind::Pty) => return Err(InputError::NotPty),
            _ => {}
        }
        let _turn = self.turn.lock().await;
        let end = lock(&self.end).clone().ok_or(InputError::Closed)?;
        let mut shut = self.shut.subscribe();
        while !data.is_empty() {
            let written = tokio::select! {
                biased;
                _ = shut.wait_for(|shut| *shut) => return Err(InputError::Closed),
                written = end.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, data)?)) => written?,
            };
            data = data.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Closes a pipe after all earlier writes. Idempotent.
    pub(crate) async fn close(&self) -> Result<(), InputError> {
        if self.kind == Kind::Pty {
            return Err(InputError::CannotClose);
        }
        let _turn = self.turn.lock().await;
        lock(&self.end).take();
        Ok(())
    }

    pub(crate) fn terminal(&self) -> Option<RegisteredFd> {
        self.is_terminal().then(|| lock(&self.end).clone()).flatten()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.kind == Kind::Pty
    }

    /// Shuts the input because the command has ended.
    pub(crate) fn shut(&self) {
        self.shut.send_replace(true);
        lock(&self.end).take();
    }
}
