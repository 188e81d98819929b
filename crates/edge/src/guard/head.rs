//! Checks one complete HTTP/1 request head: how its body is framed, and whether another parser could read it differently.

use std::mem::MaybeUninit;

use super::rejection::Rejection;

/// Maximum number of headers.
const MAX_HEADERS: usize = 100;

/// How the body after a head is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// A number of bytes.
    Fixed(u64),
    /// Chunks until an empty one.
    Chunked,
}

/// What a head says about the rest of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadInfo {
    /// The body's framing.
    pub(super) body: BodyLength,
    /// Whether the message requests an upgrade.
    pub(super) upgrade: bool,
}

/// Checks `head`, which ends with its empty line and has no line end but CRLF.
pub(super) fn check_head(head: &[u8]) -> Result<HeadInfo, Rejection> {
    let mut room = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut room) {
        Ok(httparse::Status::Complete(end)) if end == head.len() => {}
        Ok(_) => return Err(Rejection::bad("the request head is malformed")),
        Err(httparse::Error::TooManyHeaders) => return Err(Rejection::HEAD_TOO_LARGE),
        Err(httparse::Error::HeaderName) => return Err(Rejection::bad("a header line is malformed")),
        Err(httparse::Error::HeaderValue) => return Err(Rejection::bad("a header value is malformed")),
        Err(_) => return Err(Rejection::bad("the request line is malformed")),
    }
    let version = request.version.unwrap_or_default();
    let fields = Fields::collect(request.headers)?;

    let host = match (fields.host, version) {
        (Some(host), _) => {
            if !host.iter().all(|b| is_host_byte(*b)) {
                return Err(Rejection::bad("the Host header is malformed"));
            }
            host
        }
        (None, 0) => b"",
        (None, _) => return Err(Rejection::bad("the Host header is missing")),
    };
    check_target(request.method.unwrap_or_default(), request.path.unwrap_or_default(), host)?;

    let body = match (fields.content_length, fields.transfer_encoding) {
        (Some(_), Some(_)) => {
            return Err(Rejection::bad("a request has either Content-Length or Transfer-Encoding, not both"));
        }
        (None, Some(_)) if version == 0 => {
            return Err(Rejection::bad("Transfer-Encoding needs HTTP/1.1"));
        }
        (None, Some(b"chunked")) => BodyLength::Chunked,
        (None, Some(_)) => return Err(Rejection::bad("the only Transfer-Encoding accepted is chunked")),
        (Some(length), None) => BodyLength::Fixed(parse_length(length)?),
        (None, None) => BodyLength::Fixed(0),
    };
    Ok(HeadInfo { body, upgrade: version == 1 && asks_upgrade(fields.connection_upgrade, fields.upgrade) })
}

/// The headers that matter for framing.
#[derive(Default)]
struct Fields<'h> {
    host: Option<&'h [u8]>,
    content_length: Option<&'h [u8]>,
    transfer_encoding: Option<&'h [u8]>,
    upgrade: Option<&'h [u8]>,
    connection_upgrade: bool,
}

impl<'h> Fields<'h> {
    fn collect(headers: &[httparse::Header<'h>]) -> Result<Self, Rejection> {
        let mut fields = Self::default();
        for header in headers {
            let (slot, twice) = match header.name.len() {
                4 if header.name.eq_ignore_ascii_case("host") => (&mut fields.host, "the Host header is there twice"),
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    (&mut fields.content_length, "Content-Length is there twice")
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    (&mut fields.transfer_encoding, "Transfer-Encoding is there twice")
                }
                7 if header.name.eq_ignore_ascii_case("upgrade") => (&mut fields.upgrade, "Upgrade is there twice"),
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    fields.connection_upgrade |= names_upgrade(header.value);
                    continue;
                }
                _ => continue,
            };
            if slot.replace(header.value).is_some() {
                return Err(Rejection::bad(twice));
            }
        }
        Ok(fields)
    }
}

/// Whether the value of a `Connection` header names `upgrade`.
pub(crate) fn names_upgrade(connection: &[u8]) -> bool {
    connection.split(|b| *b == b',').any(|token| token.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
}

/// Whether a request is for an upgrade. `h2c` is never accepted, so it does not count.
pub(crate) fn asks_upgrade(connection_upgrade: bool, upgrade: Option<&[u8]>) -> bool {
    connection_upgrade && upgrade.is_some_and(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"))
}

fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']' | b'%')
}

fn parse_length(value: &[u8]) -> Result<u64, Rejection> {
    const MALFORMED: Rejection = Rejection::bad("Content-Length is malformed");
    // 18 digits cannot overflow.
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    Ok(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn check_target(method: &str, target: &str, host: &[u8]) -> Result<(), Rejection> {
    if method == "CONNECT" {
        return Err(Rejection::bad("CONNECT is not served here"));
    }
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok(());
    }
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| target.get(..scheme.len()).filter(|t| t.eq_ignore_ascii_case(scheme)).map(str::len))
        .map(|skip| &target[skip..])
        .ok_or(Rejection::bad("the request target is malformed"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || !authority.as_bytes().eq_ignore_ascii_case(host) {
        return Err(Rejection::bad("the request target and the Host header name different hosts"));
    }
    Ok(())
}
