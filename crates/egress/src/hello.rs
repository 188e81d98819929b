//! A strict, bounded parser of the TLS ClientHello: which host a connection is for. No IO.
//!
//! A hello that another parser could read differently is malformed: two names, repeated extensions, bytes that belong to
//! nothing. A hello may be cut into several records, but not into many.

use std::net::IpAddr;

use cabana_types::egress::HostName;

/// Type of a TLS record that carries a handshake; the first byte of every TLS connection.
pub(crate) const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// Bytes of a record's content.
const MAX_RECORD: usize = 1 << 14;
/// Bytes of a hello. Those with post-quantum keys have two kilobytes.
const MAX_HELLO: usize = 1 << 14;
/// Records that a hello may be cut into.
const MAX_RECORDS: usize = 8;
const MAX_EXTENSIONS: usize = 128;
const SERVER_NAME: u16 = 0;
/// `encrypted_client_hello`, and its predecessor `encrypted_server_name`.
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// What a ClientHello says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The host's name, if it has one and it is not an address.
    pub(crate) name: Option<HostName>,
    /// Whether another name may be hidden inside. Browsers always say so, to make it inconspicuous.
    pub(crate) hides_name: bool,
}

/// How far parsing got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// At least so many bytes are needed.
    Need(usize),
    /// The hello is complete. Further bytes belong to other messages.
    Complete(Hello),
}

/// Why it is not a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed TLS ClientHello: {0}")]
pub(crate) struct Malformed(&'static str);

/// Parses the first bytes of a connection.
pub(crate) fn parse(bytes: &[u8]) -> Result<Step, Malformed> {
    let (mut message, mut at) = (Vec::new(), 0);
    for _ in 0..MAX_RECORDS {
        let Some(&[kind, major, _, high, low]) = bytes.get(at..at + 5) else { return Ok(Step::Need(at + 5)) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 {
            return Err(Malformed("not a handshake record"));
        }
        if !(1..=MAX_RECORD).contains(&length) {
            return Err(Malformed("a record is empty or too long"));
        }
        let end = at + 5 + length;
        let Some(fragment) = bytes.get(at + 5..end) else { return Ok(Step::Need(end)) };
        message.extend_from_slice(fragment);
        at = end;
        if message.first() != Some(&CLIENT_HELLO) {
            return Err(Malformed("another message comes first"));
        }
        if let Some(&[_, a, b, c]) = message.get(..4) {
            let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
            if length > MAX_HELLO {
                return Err(Malformed("it is too long"));
            }
            match message.len().cmp(&(4 + length)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return read(&message[4..]).map(Step::Complete),
                std::cmp::Ordering::Greater => return Err(Malformed("another message follows in its record")),
            }
        }
    }
    Err(Malformed("it is cut into too many records"))
}

fn read(body: &[u8]) -> Result<Hello, Malformed> {
    let mut body = Reader(body);
    // Version and random.
    body.take(2 + 32)?;
    if body.short()?.len() > 32 {
        return Err(Malformed("its session id is too long"));
    }
    let suites = body.long()?;
    if suites.is_empty() || suites.len() % 2 != 0 || body.short()?.is_empty() {
        return Err(Malformed("its cipher suites or compression methods are malformed"));
    }
    let mut hello = Hello { name: None, hides_name: false };
    if body.0.is_empty() {
        return Ok(hello);
    }
    let mut extensions = Reader(body.long()?);
    if !body.0.is_empty() {
        return Err(Malformed("bytes follow its extensions"));
    }
    let mut seen = Vec::new();
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.u16()?, extensions.long()?);
        if seen.contains(&kind) || seen.len() == MAX_EXTENSIONS {
            return Err(Malformed("an extension is repeated, or there are too many"));
        }
        seen.push(kind);
        match kind {
            SERVER_NAME => hello.name = server_name(content)?,
            _ => hello.hides_name |= ENCRYPTED.contains(&kind),
        }
    }
    Ok(hello)
}

/// The name in a `server_name` extension. `None` for an address, which is not allowed there but used.
fn server_name(content: &[u8]) -> Result<Option<HostName>, Malformed> {
    const BAD: Malformed = Malformed("its server name is malformed");
    let mut content = Reader(content);
    let mut list = Reader(content.long()?);
    if !content.0.is_empty() || list.take(1)? != [0] {
        return Err(BAD);
    }
    let name = std::str::from_utf8(list.long()?).map_err(|_| BAD)?;
    if !list.0.is_empty() {
        return Err(Malformed("it has more than one server name"));
    }
    if name.parse::<IpAddr>().is_ok() {
        return Ok(None);
    }
    name.parse().map(Some).map_err(|_| BAD)
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Content after a length of one byte.
    fn short(&mut self) -> Result<&'b [u8], Malformed> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    /// Content after a length of two bytes.
    fn long(&mut self) -> Result<&'b [u8], Malformed> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests;
