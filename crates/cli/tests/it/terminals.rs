//! A real pseudo-terminal, and `cabana shell` on it: keys, size, and restoring the terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::client;
use crate::fake::Fake;

pub(crate) struct Terminal {
    pub(crate) ours: File,
    theirs: OwnedFd,
    before: Termios,
    child: Child,
    seen: String,
}

impl Terminal {
    pub(crate) fn open(fake: &Fake, args: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("terminal");
        grantpt(&ours).expect("grant");
        unlockpt(&ours).expect("unlock");
        let name = ptsname(&ours, Vec::new()).expect("name");
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("open");
        tcsetwinsize(&theirs, Winsize { ws_col: 100, ws_row: 30, ws_xpixel: 0, ws_ypixel: 0 }).expect("size");
        let before = tcgetattr(&theirs).expect("settings");
        tcsetattr(&theirs, OptionalActions::Now, &before).expect("settings");
        let end = || Stdio::from(theirs.try_clone().expect("copy"));
        let child = client(fake, args).stdin(end()).stdout(end()).stderr(end()).spawn().expect("start");
        Self { ours: ours.into(), theirs, before, child, seen: String::new() }
    }

    /// Reads until the text appears.
    pub(crate) fn expect(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.ours.read(&mut buffer).expect("read");
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        let end = self.seen.find(text).expect("just found") + text.len();
        self.seen.drain(..end);
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn ended(mut self) -> Option<i32> {
        let code = self.child.wait().expect("wait").code();
        let after = tcgetattr(&self.theirs).expect("settings");
        assert_eq!(format!("{after:?}"), format!("{:?}", self.before), "the terminal is as it was");
        code
    }
}

#[test]
fn keys_and_sizes_go_to_the_sandbox() {
    let fake = Fake::start();
    let id = fake.sandbox();
    let mut terminal = Terminal::open(&fake, &["shell", &id]);
    terminal.expect("100x30 ready");
    assert!(!tcgetattr(&terminal.theirs).expect("settings").local_modes.contains(LocalModes::ISIG));
    terminal.ours.write_all(b"\x03").expect("type");
    terminal.expect("typed [3]");
    let size = Winsize { ws_col: 77, ws_row: 22, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal.theirs, size).expect("size");
    // It is not the child's controlling terminal, so the kernel sends no SIGWINCH.
    kill_process(terminal.pid(), Signal::WINCH).expect("signal");
    terminal.expect("now 77x22");
    terminal.ours.write_all(b"q").expect("type");
    assert_eq!(terminal.ended(), Some(3));
    assert_eq!(fake.live(), [id], "a sandbox that was there stays");
}

#[test]
fn a_new_sandbox_is_killed_with_its_shell() {
    let fake = Fake::start();
    let mut terminal = Terminal::open(&fake, &["shell"]);
    terminal.expect("sandbox ifake0");
    terminal.expect("ready");
    terminal.ours.write_all(b"q").expect("type");
    assert_eq!(terminal.ended(), Some(3));
    assert!(fake.live().is_empty());
}

#[test]
fn the_terminal_is_restored_after_a_failure() {
    let fake = Fake::start();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::open(&fake, &["shell"]);
        terminal.expect("ready");
        kill_process(terminal.pid(), signal).expect("signal");
        assert_eq!(terminal.ended(), Some(143));
        assert!(fake.live().is_empty());
    }
}
