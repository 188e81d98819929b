//! Termination signals. Once caught they no longer end the program by default, so they must be handled.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal and returns its number.
    pub(crate) async fn recv(&mut self) -> u8 {
        tokio::select! {
            Some(()) = self.interrupt.recv() => 2,
            Some(()) = self.terminate.recv() => 15,
            Some(()) = self.hangup.recv() => 1,
            else => std::future::pending().await,
        }
    }
}
