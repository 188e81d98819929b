//! Building, sending and parsing netlink messages.

use std::io;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

const NLM_F_REQUEST: u16 = 0x1;
pub(super) const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NESTED: u16 = 0x8000;
const ATTRIBUTE_TYPE: u16 = 0x3fff;
const HEADER: usize = 16;
/// Header of netfilter's messages, behind the netlink header.
const FAMILY_HEADER: usize = 4;

/// The kernel responds synchronously; this is a safeguard.
const PATIENCE: Duration = Duration::from_secs(10);

/// A transaction is one datagram: the largest policy takes about 600 KB.
const SEND_BUFFER: usize = 4 << 20;
/// Larger than any datagram of the kernel.
const RECEIVE_BUFFER: usize = 64 * 1024;

/// A message under construction.
pub(super) struct Message(Vec<u8>);

impl Message {
    /// `kind` has the subsystem in the high byte; `resource` identifies the subsystem of a batch.
    pub(super) fn new(kind: u16, flags: u16, sequence: u32, family: u8, resource: u16) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        Message(bytes)
    }

    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        let length = u16::try_from(4 + value.len()).expect("attributes here are short");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Attributes that are encoded already.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Message {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Message {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub(super) fn nest(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend([0; 4]);
        self = fill(self);
        let length = u16::try_from(self.0.len() - start).expect("lists here are sent in parts");
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("messages here are short");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Makes a finished message the one of a request whose response is awaited.
pub(super) fn awaited(message: &mut [u8]) {
    message[6] |= u8::try_from(NLM_F_ACK).expect("a low bit");
    message[8..12].copy_from_slice(&1_u32.to_ne_bytes());
}

fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE.as_secs().cast_signed()))?;
    // Without it an error comes with the whole request.
    socket.set_cap_ack(true)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

fn send(socket: &Socket, request: &[u8]) -> io::Result<()> {
    if request.len() > RECEIVE_BUFFER {
        setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER)?;
    }
    socket.send(request, 0).map(drop)
}

fn failure(body: &[u8]) -> Option<io::Error> {
    let code = body.first_chunk().map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}

/// Sends a request and waits for the response with sequence number 1, or for any error.
pub(super) fn transact(request: &[u8]) -> io::Result<Option<u16>> {
    let socket = open()?;
    send(&socket, request)?;
    let mut buffer = Vec::with_capacity(8192);
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        for (kind, sequence, body) in messages(&buffer) {
            if kind != NLMSG_ERROR {
                if sequence == 1 {
                    return Ok(Some(kind));
                }
                continue;
            }
            if let Some(error) = failure(body) {
                return Err(error);
            }
            if sequence == 1 {
                return Ok(None);
            }
        }
    }
}

/// Sends a request for a list, and passes the attributes of each entry to `each`.
pub(super) fn dump(mut request: Vec<u8>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let flags = u16::from_ne_bytes([request[6], request[7]]) | NLM_F_DUMP;
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    let socket = open()?;
    send(&socket, &request)?;
    let mut buffer = Vec::with_capacity(RECEIVE_BUFFER);
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        for (kind, _, body) in messages(&buffer) {
            match kind {
                NLMSG_DONE => return failure(body).map_or(Ok(()), Err),
                NLMSG_ERROR => return failure(body).map_or(Ok(()), Err),
                _ => each(body.get(FAMILY_HEADER..).unwrap_or(&[])),
            }
        }
    }
}

/// The messages of a datagram: type, sequence number, body.
pub(super) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*datagram.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(datagram.get(4..6)?.try_into().ok()?);
        let sequence = u32::from_ne_bytes(datagram.get(8..12)?.try_into().ok()?);
        let body = datagram.get(HEADER..length)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, sequence, body))
    })
}

/// The attributes of a message or of a nested attribute: type and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & ATTRIBUTE_TYPE;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The value at a path of nested attributes.
pub(super) fn find<'a>(bytes: &'a [u8], path: &[u16]) -> Option<&'a [u8]> {
    path.iter().try_fold(bytes, |bytes, wanted| attributes(bytes).find(|(kind, _)| kind == wanted).map(|(_, v)| v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded() {
        let bytes = Message::new(0x0102, 0, 7, 2, 0).nest(3, |m| m.text(1, "ab")).finish();
        assert_eq!(bytes.len(), 20 + 4 + 8);
        assert_eq!(bytes[..4], 32_u32.to_ne_bytes());
        assert_eq!(bytes[20..22], 12_u16.to_ne_bytes());
        assert_eq!(bytes[22..24], (3 | NESTED).to_ne_bytes());
        assert_eq!(bytes[24..26], 7_u16.to_ne_bytes());
        assert_eq!(&bytes[28..], b"ab\0\0");
        assert_eq!(
            messages(&bytes).map(|(kind, seq, body)| (kind, seq, body.len())).collect::<Vec<_>>(),
            [(0x0102, 7, 16)]
        );
        assert_eq!(find(&bytes[20..], &[3, 1]), Some(&b"ab\0"[..]));
        assert_eq!(find(&bytes[20..], &[3, 2]), None);
    }

    proptest! {
        #[test]
        fn any_datagram_is_parsed_to_its_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
        }
    }
}
