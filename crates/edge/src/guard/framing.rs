//! An incremental parser of the framing of an inbound HTTP/1 byte stream: which bytes belong to valid messages, and
//! where the first ambiguity is. No IO.

use super::chunks::{Chunks, Then};
use super::head::{BodyLength, check_head};
use super::rejection::Rejection;

/// Most bytes of a request head.
const MAX_HEAD: usize = 64 * 1024;
/// The connection preface of HTTP/2.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Position in the stream.
#[derive(Debug)]
enum Phase {
    /// Before the first byte: it may become HTTP/2.
    Start,
    /// Before or in a request head.
    Head,
    /// In a body of known length.
    Fixed(u64),
    /// In a chunked body.
    Chunked(Box<Chunks>),
    /// After a request for an upgrade: what follows is not HTTP/1 unless the upgrade is declined.
    Await,
    /// No longer HTTP/1.
    Raw,
}

/// What to do with the bytes after the valid ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remainder {
    /// There are none.
    None,
    /// Keep them until there are more, or until the upgrade was accepted or declined.
    Wait,
    /// A head that must be rejected.
    Reject(Rejection),
    /// The body of a message that was partly passed on is malformed.
    BrokenBody(Rejection),
}

/// The stream's framing.
#[derive(Debug)]
pub(super) struct Framing {
    phase: Phase,
    /// Bytes of the incomplete head that were already searched for its end.
    searched: usize,
    /// The current message requests an upgrade.
    upgrade: bool,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Start, searched: 0, upgrade: false }
    }

    /// Parses `bytes`, which start where the last call's valid bytes ended; returns how many of them are valid.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> (usize, Remainder) {
        let mut valid = 0;
        loop {
            let rest = &bytes[valid..];
            match &mut self.phase {
                Phase::Raw => return (bytes.len(), Remainder::None),
                _ if rest.is_empty() => return (valid, Remainder::None),
                Phase::Await => return (valid, Remainder::Wait),
                Phase::Start if rest.starts_with(H2_PREFACE) => self.phase = Phase::Raw,
                Phase::Start if H2_PREFACE.starts_with(rest) => return (valid, Remainder::Wait),
                Phase::Start => self.phase = Phase::Head,
                Phase::Head => match self.head(rest) {
                    Ok(Some(length)) => valid += length,
                    Ok(None) => return (valid, Remainder::Wait),
                    Err(rejection) => return (valid, Remainder::Reject(rejection)),
                },
                Phase::Fixed(left) => {
                    let have = rest.len() as u64;
                    if have < *left {
                        *left -= have;
                        return (bytes.len(), Remainder::None);
                    }
                    valid += usize::try_from(*left).unwrap_or(rest.len());
                    self.message_ended();
                }
                Phase::Chunked(chunks) => {
                    let followed = chunks.follow(rest);
                    valid += followed.bytes;
                    match followed.then {
                        Then::More => return (valid, Remainder::None),
                        Then::End => self.message_ended(),
                        Then::Malformed(rejection) => return (valid, Remainder::BrokenBody(rejection)),
                    }
                }
            }
        }
    }

    /// The upgrade was accepted: everything is valid from now on.
    pub(super) fn accepted(&mut self) {
        self.phase = Phase::Raw;
    }

    /// The upgrade was declined: the next request may follow.
    pub(super) fn declined(&mut self) {
        if matches!(self.phase, Phase::Await) {
            self.phase = Phase::Head;
        }
        self.upgrade = false;
    }

    /// Whether the upgrade is not decided yet.
    pub(super) fn awaits_upgrade(&self) -> bool {
        matches!(self.phase, Phase::Await)
    }

    /// Whether this is not HTTP/1.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.phase, Phase::Raw)
    }

    /// Whether the protocol is not known yet.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self.phase, Phase::Start)
    }

    /// Whether a head is expected.
    pub(super) fn between_messages(&self) -> bool {
        matches!(self.phase, Phase::Start | Phase::Head)
    }

    /// Whether a body was not read to its end.
    pub(super) fn within_body(&self) -> bool {
        matches!(self.phase, Phase::Fixed(_) | Phase::Chunked(_))
    }

    fn message_ended(&mut self) {
        self.phase = if self.upgrade { Phase::Await } else { Phase::Head };
    }

    /// The length of the head at the start of `bytes`, once it is complete and valid.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Rejection> {
        // One empty line before a request line is tolerated: some clients end a body with a stray CRLF.
        let skip = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
        let mut at = self.searched;
        let end = loop {
            let Some(byte) = bytes.get(at) else { break None };
            match *byte {
                0 => return Err(Rejection::bad("the request head contains NUL")),
                b'\n' if at == 0 || bytes[at - 1] != b'\r' => {
                    return Err(Rejection::bad("a line of the request head ends with a bare LF"));
                }
                b'\r' => match bytes.get(at + 1) {
                    None => break None,
                    Some(b'\n') if at == skip => return Err(Rejection::bad("the request line is missing")),
                    Some(b'\n') if at >= 2 && bytes[at - 2..at] == *b"\r\n" && at > skip => break Some(at + 2),
                    Some(b'\n') => at += 1,
                    Some(_) => return Err(Rejection::bad("the request head contains a bare CR")),
                },
                _ => {}
            }
            at += 1;
        };
        if end.unwrap_or(bytes.len()) > MAX_HEAD {
            return Err(Rejection::HEAD_TOO_LARGE);
        }
        let Some(end) = end else {
            self.searched = at;
            return Ok(None);
        };
        let info = check_head(&bytes[skip..end])?;
        self.searched = 0;
        self.upgrade = info.upgrade;
        match info.body {
            BodyLength::Fixed(0) => self.message_ended(),
            BodyLength::Fixed(length) => self.phase = Phase::Fixed(length),
            BodyLength::Chunked => self.phase = Phase::Chunked(Box::new(Chunks::new())),
        }
        Ok(Some(end))
    }
}
