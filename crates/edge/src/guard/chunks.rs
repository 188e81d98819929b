//! A strict, incremental parser of chunked bodies: hexadecimal sizes, CRLF everywhere, small extensions and trailers.

use super::rejection::Rejection;

/// Hexadecimal digits of a chunk size; 15 cannot overflow.
const MAX_SIZE_DIGITS: u8 = 15;
/// Bytes of all extensions of one body, and of all trailers.
const MAX_EXTRAS: u32 = 8 * 1024;

/// Position in a chunked body.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    at: At,
    /// The size read so far, or what is left of the chunk's data.
    left: u64,
    digits: u8,
    extras: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// Start of a trailer line, or of the empty line that ends the body.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
}

/// The outcome of parsing some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Followed {
    /// How many bytes belong to this body.
    pub(super) bytes: usize,
    /// What comes after them.
    pub(super) then: Then,
}

/// What comes after the bytes of this body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The body continues.
    More,
    /// The body is complete.
    End,
    /// A byte that is not allowed there.
    Malformed(Rejection),
}

impl Chunks {
    pub(super) fn new() -> Self {
        Self { at: At::Size, left: 0, digits: 0, extras: 0 }
    }

    /// Parses `bytes`. After an error the state stays before the offending byte.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Followed {
        let mut at = 0;
        while at < bytes.len() {
            if self.at == At::Data {
                let have = (bytes.len() - at) as u64;
                if have < self.left {
                    self.left -= have;
                    return Followed { bytes: bytes.len(), then: Then::More };
                }
                at += usize::try_from(self.left).unwrap_or(bytes.len() - at);
                self.left = 0;
                self.at = At::DataCr;
                continue;
            }
            match self.step(bytes[at]) {
                Ok(next) => self.at = next,
                Err(message) => return Followed { bytes: at, then: Then::Malformed(Rejection::bad(message)) },
            }
            at += 1;
            if self.at == At::Size && self.left == u64::MAX {
                return Followed { bytes: at, then: Then::End };
            }
        }
        Followed { bytes: at, then: Then::More }
    }

    /// Parses one byte outside of data. The end of the body is `Size` with a size that no chunk can have.
    fn step(&mut self, byte: u8) -> Result<At, &'static str> {
        match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if self.digits == MAX_SIZE_DIGITS {
                    return Err("a chunk size is too large");
                }
                self.digits += 1;
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                self.left = self.left * 16 + u64::from(digit);
                Ok(At::Size)
            }
            (At::Size, b';') if self.digits > 0 => Ok(At::Extension),
            (At::Size, b'\r') if self.digits > 0 => Ok(At::SizeLf),
            (At::Size, _) => Err("a chunk size is malformed"),
            (At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Extension, b) if is_text(b) => self.extra(At::Extension),
            (At::Extension, _) => Err("a chunk extension is malformed"),
            (At::SizeLf, b'\n') => {
                self.digits = 0;
                Ok(if self.left == 0 { At::TrailerStart } else { At::Data })
            }
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => Ok(At::Size),
            (At::Data | At::DataCr | At::DataLf, _) => Err("a chunk is longer than its size"),
            (At::TrailerStart, b'\r') => Ok(At::EndLf),
            (At::TrailerStart, b) if is_token(b) => self.extra(At::TrailerName),
            (At::TrailerName, b':') => self.extra(At::TrailerValue),
            (At::TrailerName, b) if is_token(b) => self.extra(At::TrailerName),
            (At::TrailerValue, b'\r') => Ok(At::TrailerLf),
            (At::TrailerValue, b) if is_text(b) => self.extra(At::TrailerValue),
            (At::TrailerLf, b'\n') => Ok(At::TrailerStart),
            (At::EndLf, b'\n') => {
                self.left = u64::MAX;
                Ok(At::Size)
            }
            (At::TrailerStart | At::TrailerName | At::TrailerValue, _) => Err("a trailer is malformed"),
            (At::SizeLf | At::TrailerLf | At::EndLf, _) => Err("a line of the chunked body does not end with CRLF"),
        }
    }

    fn extra(&mut self, next: At) -> Result<At, &'static str> {
        self.extras += 1;
        if self.extras > MAX_EXTRAS { Err("chunk extensions and trailers are too large") } else { Ok(next) }
    }
}

fn is_text(b: u8) -> bool {
    b == b'\t' || (b >= 0x20 && b != 0x7f)
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}
