//! Pseudo-terminals of commands.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use cabana_proto::process::PTY;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// Both ends of a pseudo-terminal.
pub(crate) struct Terminal {
    pub(crate) master: OwnedFd,
    pub(crate) slave: OwnedFd,
}

/// Opens a terminal of this size, owned by this user.
pub(crate) fn open(size: &PTY, uid: u32) -> io::Result<Terminal> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::unlockpt(&master)?;
    // By descriptor, not by name: the sandbox's `/dev/pts` is not trusted.
    let slave =
        rustix::pty::ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    resize(&master, size)?;
    // Best effort: `mesg`, `su` and `screen` expect to own their terminal.
    let _ = rustix::fs::fchown(&slave, Some(rustix::fs::Uid::from_raw(uid)), None);
    Ok(Terminal { master, slave })
}

/// Changes the size; 0 means the default.
pub(crate) fn resize(master: impl AsFd, size: &PTY) -> io::Result<()> {
    let size = size.size.as_option().cloned().unwrap_or_default();
    let side = |n: u32, usual: u16| match u16::try_from(n) {
        Ok(0) => usual,
        Ok(n) => n,
        Err(_) => u16::MAX,
    };
    let size = Winsize { ws_col: side(size.cols, 80), ws_row: side(size.rows, 24), ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}
