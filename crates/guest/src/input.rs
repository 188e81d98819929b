//! The input of a command: a pipe, a terminal or nothing. Writers wait their turn, so that pieces never mix.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::guest::lock;

/// A descriptor that the runtime watches.
pub(crate) type Watched = Arc<AsyncFd<OwnedFd>>;

/// Lets the runtime watch a descriptor, which stops blocking.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<Watched> {
    rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
    // SAFETY: the descriptor is owned, so it stays open and the same until `AsyncFd` has let go of it.
    Ok(Arc::new(unsafe { AsyncFd::register(fd) }?))
}

/// What kind of input a command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `/dev/null`.
    None,
    /// A pipe.
    Stdin,
    /// A terminal.
    Pty,
}

/// Why input was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The command was started without.
    #[error("the process has no stdin")]
    None,
    /// It was closed, or the process has ended.
    #[error("stdin of the process is closed")]
    Closed,
    /// Terminals take terminal input.
    #[error("the process has a terminal: send its input as pty")]
    IsPty,
    /// Pipes take plain input.
    #[error("the process has no terminal: send its input as stdin")]
    NotPty,
    /// A terminal ends its input by a byte.
    #[error("the input of a terminal cannot be closed: send Ctrl+D (0x04) instead")]
    CannotClose,
    /// The kernel refused.
    #[error("cannot write to the process")]
    Io(#[from] io::Error),
}

/// The input.
#[derive(Debug)]
pub(crate) struct Input {
    kind: Kind,
    end: Mutex<Option<Watched>>,
    turn: tokio::sync::Mutex<()>,
    shut: tokio::sync::watch::Sender<bool>,
}

impl Input {
    /// Wraps our end of it.
    pub(crate) fn new(kind: Kind, end: Option<Watched>) -> Self {
        Self {
            kind,
            end: Mutex::new(end),
            turn: tokio::sync::Mutex::new(()),
            shut: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Writes all of it, or fails once the input is shut.
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

    /// Closes a pipe after everything that was sent before; twice is fine.
    pub(crate) async fn close(&self) -> Result<(), InputError> {
        if self.kind == Kind::Pty {
            return Err(InputError::CannotClose);
        }
        let _turn = self.turn.lock().await;
        lock(&self.end).take();
        Ok(())
    }

    /// The terminal.
    pub(crate) fn terminal(&self) -> Option<Watched> {
        self.is_terminal().then(|| lock(&self.end).clone()).flatten()
    }

    /// Whether it goes to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.kind == Kind::Pty
    }

    /// The command has ended: nobody will read any more.
    pub(crate) fn shut(&self) {
        self.shut.send_replace(true);
        lock(&self.end).take();
    }
}
