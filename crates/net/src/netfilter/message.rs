//! Building, sending and parsing netlink messages.

use std::io;
use std::sync::{Mutex, PoisonError};
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
    pub(super) fn new(kind: u16, flags: u16, family: u8, resource: u16) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        // Sequence number, see `Session`, and sender.
        bytes.extend([0; 8]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        Message(bytes)
    }

    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        let length = u16::try_from(4 + value.len()).expect("attributes here are short");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.pad()
    }

    fn pad(mut self) -> Message {
        let missing = self.0.len().next_multiple_of(4) - self.0.len();
        self.0.extend_from_slice(&[0; 3][..missing]);
        self
    }

    /// Attributes that are encoded already.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Message {
        self.0.extend_from_slice(bytes);
        self.pad()
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Message {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub(super) fn nest(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
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

/// Gives all messages of a request the same number, which its responses have, too.
fn renumber(mut request: &mut [u8], sequence: u32) {
    while let Some(length) = request.first_chunk().map(|length| u32::from_ne_bytes(*length) as usize) {
        let Some(place) = request.get_mut(8..12).filter(|_| length >= HEADER) else { return };
        place.copy_from_slice(&sequence.to_ne_bytes());
        let end = length.next_multiple_of(4).min(request.len());
        request = &mut request[end..];
    }
}

/// A connection to netfilter in the namespace in which it was opened. It stays open: while a socket is closed, the kernel
/// waits until what earlier changes deleted is freed, and changes nothing else.
#[derive(Debug)]
pub(crate) struct Session(Mutex<Connection>);

#[derive(Debug)]
struct Connection {
    socket: Socket,
    sequence: u32,
}

impl Session {
    pub(crate) fn open() -> io::Result<Session> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE.as_secs().cast_signed()))?;
        setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER)?;
        // Without it an error comes with the whole request.
        socket.set_cap_ack(true)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Session(Mutex::new(Connection { socket, sequence: 0 })))
    }

    /// Sends a request and passes the responses to `each` until it returns a result. An error of the kernel is one.
    fn ask<T>(&self, mut request: Vec<u8>, mut each: impl FnMut(u16, &[u8]) -> Option<io::Result<T>>) -> io::Result<T> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connection.sequence = connection.sequence.wrapping_add(1);
        let number = connection.sequence;
        renumber(&mut request, number);
        connection.socket.send(&request, 0)?;
        let mut buffer = Vec::with_capacity(RECEIVE_BUFFER);
        loop {
            buffer.clear();
            connection.socket.recv(&mut buffer, 0)?;
            // Others belong to an earlier request that failed.
            for (kind, _, body) in messages(&buffer).filter(|(_, sequence, _)| *sequence == number) {
                if let Some(error) = failure(body).filter(|_| kind == NLMSG_ERROR) {
                    return Err(error);
                }
                if let Some(result) = each(kind, body) {
                    return result;
                }
            }
        }
    }

    /// Sends a request of which one message asks for an acknowledgement or has one answer, and returns the answer's type.
    pub(super) fn transact(&self, request: Vec<u8>) -> io::Result<Option<u16>> {
        self.ask(request, |kind, _| Some(Ok((kind != NLMSG_ERROR).then_some(kind))))
    }

    /// Sends a request for a list, and passes the attributes of each entry to `each`.
    pub(super) fn dump(&self, mut request: Vec<u8>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let flags = u16::from_ne_bytes([request[6], request[7]]) | NLM_F_DUMP;
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.ask(request, |kind, body| match kind {
            NLMSG_DONE => Some(failure(body).map_or(Ok(()), Err)),
            NLMSG_ERROR => Some(Ok(())),
            _ => {
                each(body.get(FAMILY_HEADER..).unwrap_or(&[]));
                None
            }
        })
    }
}

/// Asks for an acknowledgement of a finished message.
pub(super) fn acknowledged(message: &mut [u8]) {
    message[6] |= u8::try_from(NLM_F_ACK).expect("a low bit");
}

fn failure(body: &[u8]) -> Option<io::Error> {
    let code = body.first_chunk().map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
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
        let mut bytes = Message::new(0x0102, 0, 2, 0).nest(3, |m| m.text(1, "ab")).finish();
        renumber(&mut bytes, 7);
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
        fn any_request_is_numbered(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            renumber(&mut bytes, 1);
        }

        #[test]
        fn any_datagram_is_parsed_to_its_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
        }
    }
}
