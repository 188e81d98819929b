//! The local terminal while a remote one is displayed on it.

use std::io::{self, IsTerminal, Write};

use cabana_client::PtySize;

/// Resets what a remote program may have left on: alternate screen, hidden cursor, mouse and paste reports, colours.
const UNDO: &[u8] = b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m\r\n";

/// Raw mode: every key goes to the remote side. Restored on drop.
pub(crate) struct RawMode {
    clean: bool,
}

impl RawMode {
    /// Enters raw mode if standard input is a terminal.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        crossterm::terminal::enable_raw_mode()?;
        Ok(Some(Self { clean: false }))
    }

    /// Skips the reset: the remote program has exited and restored the screen itself.
    pub(crate) fn leave_cleanly(mut self) {
        self.clean = true;
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Errors are ignored: the terminal may be gone.
        if !self.clean && io::stdout().is_terminal() {
            let mut out = io::stdout().lock();
            let _ = out.write_all(UNDO).and_then(|()| out.flush());
        }
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

/// The terminal's size; a default without a terminal.
pub(crate) fn size() -> PtySize {
    match crossterm::terminal::size() {
        Ok((cols, rows)) if cols > 0 && rows > 0 => PtySize { cols, rows },
        _ => PtySize { cols: 80, rows: 24 },
    }
}
