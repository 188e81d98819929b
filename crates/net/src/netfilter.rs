//! The netfilter messages that are sent per sandbox, without running a program: deleting the conntrack entries of an
//! address, and changing the elements of a set.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket, Socket, SocketAddr, TokioSocket};

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NESTED: u16 = 0x8000;
const HEADER: usize = 16;

const CONNTRACK: u16 = 1;
const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

const CT_DELETE: u16 = 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_IP: u16 = 1;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;

const NFT_GETTABLE: u16 = 1;
const NFT_NEWSETELEM: u16 = 12;
const NFT_DELSETELEM: u16 = 14;
const NFPROTO_INET: u8 = 1;

/// The multicast group of changes to nftables.
const NFTABLES_CHANGES: u32 = 7;

/// The kernel responds synchronously; this is a safeguard.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message under construction.
struct Message(Vec<u8>);

impl Message {
    /// `kind` has the subsystem in the high byte; `resource` identifies the subsystem of a batch.
    fn new(kind: u16, flags: u16, sequence: u32, family: u8, resource: u16) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        Message(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        let length = u16::try_from(4 + value.len()).expect("attributes here are names and addresses");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn text(self, kind: u16, value: &str) -> Message {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    fn nest(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend([0; 4]);
        self = fill(self);
        let length = u16::try_from(self.0.len() - start).expect("attributes here are names and addresses");
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("messages here are short");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Sends a request and waits for the response with sequence number 1, or for any error.
fn transact(request: &[u8]) -> io::Result<Option<u16>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE.as_secs().cast_signed()))?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(request, 0)?;
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
            let code = body.first_chunk().map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
            if code != 0 {
                return Err(io::Error::from_raw_os_error(-code));
            }
            if sequence == 1 {
                return Ok(None);
            }
        }
    }
}

/// The messages of a datagram: type, sequence number, body.
fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*datagram.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(datagram.get(4..6)?.try_into().ok()?);
        let sequence = u32::from_ne_bytes(datagram.get(8..12)?.try_into().ok()?);
        let body = datagram.get(HEADER..length)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, sequence, body))
    })
}

/// Deletes the conntrack entries from and to an address. This cuts the connections, because later packets
/// are evaluated as new ones.
pub(crate) fn forget_flows(address: Ipv4Addr) -> io::Result<()> {
    for end in [CTA_IP_V4_SRC, CTA_IP_V4_DST] {
        let family = u8::try_from(libc::AF_INET).expect("AF_INET is 2");
        let request = Message::new(CONNTRACK << 8 | CT_DELETE, NLM_F_ACK, 1, family, 0)
            .nest(CTA_TUPLE_ORIG, |m| m.nest(CTA_TUPLE_IP, |m| m.attribute(end, &address.octets())))
            // The flag of the source is 1 and that of the destination 2, the same values as those of the attributes.
            .nest(CTA_FILTER, |m| m.attribute(CTA_FILTER_ORIG_FLAGS, &u32::from(end).to_ne_bytes()))
            .finish();
        match transact(&request) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            other => other.map(drop)?,
        }
    }
    Ok(())
}

/// Elements per message; an attribute's length is 16 bits.
const MOST_ELEMENTS: usize = 1000;

/// A message that adds addresses to, or removes them from, a set of an inet table.
fn elements(kind: u16, flags: u16, sequence: u32, table: &str, set: &str, addresses: &[Ipv4Addr]) -> Vec<u8> {
    debug_assert!(addresses.len() <= MOST_ELEMENTS);
    Message::new(NFTABLES << 8 | kind, flags, sequence, NFPROTO_INET, 0)
        .text(1, table)
        .text(2, set)
        .nest(3, |list| {
            addresses.iter().fold(list, |list, address| {
                list.nest(1, |element| element.nest(1, |key| key.attribute(1, &address.octets())))
            })
        })
        .finish()
}

fn transaction(changes: &[Vec<u8>]) -> io::Result<()> {
    let begin = Message::new(BATCH_BEGIN, 0, 0, 0, NFTABLES).finish();
    let end = Message::new(BATCH_END, 0, 3, 0, NFTABLES).finish();
    transact(&[&begin[..], &changes.concat(), &end].concat()).map(drop)
}

/// Adds an address to a set of an inet table.
pub(crate) fn add(table: &str, set: &str, address: Ipv4Addr) -> io::Result<()> {
    transaction(&[elements(NFT_NEWSETELEM, NLM_F_ACK | NLM_F_CREATE, 1, table, set, &[address])])
}

/// Removes addresses from a set; missing addresses or sets are ignored.
pub(crate) fn remove(table: &str, set: &str, addresses: &[Ipv4Addr]) -> io::Result<()> {
    for part in addresses.chunks(MOST_ELEMENTS) {
        // Removing a missing element fails, which rolls back the rest and takes the kernel 10 ms. So add it first.
        let put = elements(NFT_NEWSETELEM, NLM_F_CREATE, 2, table, set, part);
        let take = elements(NFT_DELSETELEM, NLM_F_ACK, 1, table, set, part);
        match transaction(&[put, take]) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Whether an inet table exists.
pub(crate) fn has_table(table: &str) -> io::Result<bool> {
    let request = Message::new(NFTABLES << 8 | NFT_GETTABLE, 0, 1, NFPROTO_INET, 0).text(1, table).finish();
    match transact(&request) {
        Ok(answer) => Ok(answer.is_some()),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// A socket that receives a message when anything changes in nftables.
pub(crate) fn changes() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_mut().add_membership(NFTABLES_CHANGES)?;
    Ok(socket)
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
    }

    proptest! {
        #[test]
        fn any_datagram_is_parsed_to_its_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER);
        }
    }
}
