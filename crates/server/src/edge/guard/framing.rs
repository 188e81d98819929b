//! Follows the framing of an inbound HTTP/1 byte stream, across any split: which bytes belong to sound messages, and where the
//! first doubt is. No IO.

use super::chunks::{Chunks, Then};
use super::head::{BodyLength, judge};
use super::rejection::Rejection;

/// Most bytes of a request head.
const MAX_HEAD: usize = 64 * 1024;
/// What an HTTP/2 client says first.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Where in the stream we are.
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
    /// After a request for another protocol: what follows is not HTTP/1 until that was declined.
    Await,
    /// Not HTTP/1 any more.
    Raw,
}

/// What to do with the bytes after the good ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// There are none.
    Nothing,
    /// Keep them until there are more, or until the other protocol was accepted or declined.
    Keep,
    /// A head that must not be let in.
    Refuse(Rejection),
    /// The body of a message that is already under way is broken.
    Break(Rejection),
}

/// The stream's framing.
#[derive(Debug)]
pub(super) struct Framing {
    phase: Phase,
    /// Bytes of the unfinished head that were searched for its end.
    searched: usize,
    /// The message under way asks for another protocol.
    upgrade: bool,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Start, searched: 0, upgrade: false }
    }

    /// Follows `bytes`, which start where the last call's good bytes ended; answers how many of them are good.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> (usize, Rest) {
        let mut good = 0;
        loop {
            let rest = &bytes[good..];
            match &mut self.phase {
                Phase::Raw => return (bytes.len(), Rest::Nothing),
                _ if rest.is_empty() => return (good, Rest::Nothing),
                Phase::Await => return (good, Rest::Keep),
                Phase::Start if rest.starts_with(H2_PREFACE) => self.phase = Phase::Raw,
                Phase::Start if H2_PREFACE.starts_with(rest) => return (good, Rest::Keep),
                Phase::Start => self.phase = Phase::Head,
                Phase::Head => match self.head(rest) {
                    Ok(Some(length)) => good += length,
                    Ok(None) => return (good, Rest::Keep),
                    Err(rejection) => return (good, Rest::Refuse(rejection)),
                },
                Phase::Fixed(left) => {
                    let have = rest.len() as u64;
                    if have < *left {
                        *left -= have;
                        return (bytes.len(), Rest::Nothing);
                    }
                    good += usize::try_from(*left).unwrap_or(rest.len());
                    self.message_ended();
                }
                Phase::Chunked(chunks) => {
                    let followed = chunks.follow(rest);
                    good += followed.bytes;
                    match followed.then {
                        Then::More => return (good, Rest::Nothing),
                        Then::End => self.message_ended(),
                        Then::Refuse(rejection) => return (good, Rest::Break(rejection)),
                    }
                }
            }
        }
    }

    /// The other protocol was accepted: everything passes from now on.
    pub(super) fn accepted(&mut self) {
        self.phase = Phase::Raw;
    }

    /// The other protocol was declined: the next request may follow.
    pub(super) fn declined(&mut self) {
        if matches!(self.phase, Phase::Await) {
            self.phase = Phase::Head;
        }
        self.upgrade = false;
    }

    /// Whether the stream waits for the other protocol to be accepted or declined.
    pub(super) fn awaits(&self) -> bool {
        matches!(self.phase, Phase::Await)
    }

    /// Whether this is not HTTP/1.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.phase, Phase::Raw)
    }

    /// Whether it is not clear yet what the client speaks.
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

    /// The length of the head at the start of `bytes`, once it is complete and sound.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Rejection> {
        // One empty line before a request line is forgiven; clients that end a body with a stray CRLF exist.
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
        let shape = judge(&bytes[skip..end])?;
        self.searched = 0;
        self.upgrade = shape.upgrade;
        match shape.body {
            BodyLength::Fixed(0) => self.message_ended(),
            BodyLength::Fixed(length) => self.phase = Phase::Fixed(length),
            BodyLength::Chunked => self.phase = Phase::Chunked(Box::new(Chunks::new())),
        }
        Ok(Some(end))
    }
}
