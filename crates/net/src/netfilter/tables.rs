//! Changes of the packet filter's tables, each one transaction: all of it happens, or nothing.

use std::io;
use std::net::Ipv4Addr;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket, TokioSocket};

use super::message::{Message, Session, acknowledged, attributes, find, messages};
use crate::ranges::Range;

const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NFTABLES: u16 = 10;
const NFPROTO_INET: u8 = 1;
/// The multicast group of changes to nftables.
const NFTABLES_CHANGES: u32 = 7;

const NFT_GETTABLE: u16 = 1;
const NFT_DELTABLE: u16 = 2;
const NFT_NEWCHAIN: u16 = 3;
const NFT_DELCHAIN: u16 = 5;
const NFT_NEWRULE: u16 = 6;
const NFT_NEWSET: u16 = 9;
const NFT_DELSET: u16 = 11;
const NFT_NEWSETELEM: u16 = 12;
const NFT_GETSETELEM: u16 = 13;
const NFT_DELSETELEM: u16 = 14;

/// Flags of a set, and the types of its keys and values as `nft` shows them.
const INTERVAL: u32 = 0x4;
const MAP: u32 = 0x8;
const TYPE_IPV4: u32 = 7;
const TYPE_MARK: u32 = 19;
/// Flag of an element: the address behind the last one of a range.
const INTERVAL_END: u32 = 1;

/// Offset of the destination in an IPv4 header.
const DESTINATION: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const META_MARK: u32 = 3;
const RETURN: i32 = -5;

/// Elements per message; an attribute's length is 16 bits.
const MOST_ELEMENTS: usize = 1000;

/// How a packet continues in another chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Jump,
    Goto,
}

impl Verdict {
    fn code(self) -> i32 {
        match self {
            Verdict::Jump => -3,
            Verdict::Goto => -4,
        }
    }

    /// As data of an element or an expression.
    fn fill(self, data: Message, chain: &str) -> Message {
        data.nest(2, |verdict| verdict.attribute(1, &self.code().to_be_bytes()).text(2, chain))
    }
}

fn message(kind: u16, flags: u16) -> Message {
    Message::new(NFTABLES << 8 | kind, flags, NFPROTO_INET, 0)
}

/// A transaction under construction.
#[derive(Debug)]
pub(crate) struct Batch {
    table: String,
    messages: Vec<Vec<u8>>,
}

impl Batch {
    pub(crate) fn new(table: &str) -> Batch {
        Batch { table: table.to_owned(), messages: Vec::new() }
    }

    fn push(&mut self, message: Message) {
        self.messages.push(message.finish());
    }

    /// A message about elements of a set.
    fn elements<T>(&mut self, kind: u16, set: &str, elements: &[T], fill: impl Fn(Message, &T) -> Message + Copy) {
        let flags = if kind == NFT_NEWSETELEM { NLM_F_CREATE } else { 0 };
        for part in elements.chunks(MOST_ELEMENTS) {
            let list = message(kind, flags).text(1, &self.table).text(2, set);
            self.push(list.nest(3, |list| part.iter().fold(list, |list, element| list.nest(1, |m| fill(m, element)))));
        }
    }

    /// Adds addresses to a set.
    pub(crate) fn add(&mut self, set: &str, addresses: &[Ipv4Addr]) {
        self.elements(NFT_NEWSETELEM, set, addresses, |element, address| key(element, &address.octets()));
    }

    /// Removes addresses, which must be there, from a set or map.
    pub(crate) fn take(&mut self, set: &str, addresses: &[Ipv4Addr]) {
        self.elements(NFT_DELSETELEM, set, addresses, |element, address| key(element, &address.octets()));
    }

    /// Maps an address to a chain.
    pub(crate) fn send_to(&mut self, map: &str, address: Ipv4Addr, verdict: Verdict, chain: &str) {
        self.elements(NFT_NEWSETELEM, map, &[address], |element, address| {
            key(element, &address.octets()).nest(2, |data| verdict.fill(data, chain))
        });
    }

    /// Makes a set of addresses.
    pub(crate) fn new_set(&mut self, set: &str) {
        let id = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        let set = message(NFT_NEWSET, NLM_F_CREATE).text(1, &self.table).text(2, set).number(3, 0);
        self.push(set.number(4, TYPE_IPV4).number(5, 4).number(10, id));
    }

    /// Makes a map from addresses, or from ranges of them, to marks.
    pub(crate) fn new_map(&mut self, map: &str, has_ranges: bool) {
        let id = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        let flags = if has_ranges { MAP | INTERVAL } else { MAP };
        let set = message(NFT_NEWSET, NLM_F_CREATE).text(1, &self.table).text(2, map).number(3, flags);
        self.push(set.number(4, TYPE_IPV4).number(5, 4).number(6, TYPE_MARK).number(7, 4).number(10, id));
    }

    /// Deletes a set or map that no rule refers to.
    pub(crate) fn delete_set(&mut self, set: &str) {
        self.push(message(NFT_DELSET, 0).text(1, &self.table).text(2, set));
    }

    /// Removes all elements of a set or map.
    pub(crate) fn empty(&mut self, map: &str) {
        self.push(message(NFT_DELSETELEM, 0).text(1, &self.table).text(2, map));
    }

    /// Adds addresses to a map of marks.
    pub(crate) fn add_marks(&mut self, map: &str, marks: &[(Ipv4Addr, u32)]) {
        self.elements(NFT_NEWSETELEM, map, marks, |element, (address, rule)| {
            key(element, &address.octets()).nest(2, |data| data.attribute(1, &rule.to_ne_bytes()))
        });
    }

    /// Adds ranges to a map of marks.
    pub(crate) fn add_ranges(&mut self, map: &str, ranges: &[Range]) {
        // `nft` shows a map only with an end in front of the first range.
        let lead = ranges.first().filter(|range| range.first != Ipv4Addr::UNSPECIFIED).map(|_| (0, None));
        let ends = ranges.iter().flat_map(|range| {
            let end = range.last.to_bits().checked_add(1).map(|end| (end, None));
            std::iter::once((range.first.to_bits(), Some(range.rule))).chain(end)
        });
        let elements: Vec<(u32, Option<u32>)> = lead.into_iter().chain(ends).collect();
        self.elements(NFT_NEWSETELEM, map, &elements, |element, (bits, rule)| match rule {
            Some(rule) => key(element, &bits.to_be_bytes()).nest(2, |data| data.attribute(1, &rule.to_ne_bytes())),
            None => key(element.number(3, INTERVAL_END), &bits.to_be_bytes()),
        });
    }

    pub(crate) fn new_chain(&mut self, chain: &str) {
        self.push(message(NFT_NEWCHAIN, NLM_F_CREATE).text(1, &self.table).text(3, chain));
    }

    /// Adds a rule that loads the destination of a packet and continues with other expressions.
    fn rule(&mut self, chain: &str, fill: impl FnOnce(Message) -> Message) {
        let rule = message(NFT_NEWRULE, NLM_F_CREATE | NLM_F_APPEND).text(1, &self.table).text(2, chain);
        self.push(rule.nest(4, |list| {
            fill(expression(list, "payload", |data| {
                data.number(1, REGISTER).number(2, NETWORK_HEADER).number(3, DESTINATION).number(4, 4)
            }))
        }));
    }

    /// Adds a rule: packets to an address of the set leave the chain.
    pub(crate) fn spare(&mut self, chain: &str, set: &str) {
        self.rule(chain, |list| {
            let list = expression(list, "lookup", |data| data.text(1, set).number(2, REGISTER));
            expression(list, "immediate", |data| {
                data.number(1, VERDICT_REGISTER)
                    .nest(2, |data| data.nest(2, |verdict| verdict.attribute(1, &RETURN.to_be_bytes())))
            })
        });
    }

    /// Adds a rule: packets to an address of the map get its mark and continue in another chain.
    pub(crate) fn mark(&mut self, chain: &str, map: &str, next: &str) {
        self.rule(chain, |list| {
            let list = expression(list, "lookup", |data| data.text(1, map).number(2, REGISTER).number(3, REGISTER));
            let list = expression(list, "meta", |data| data.number(2, META_MARK).number(3, REGISTER));
            expression(list, "immediate", |data| {
                data.number(1, VERDICT_REGISTER).nest(2, |data| Verdict::Goto.fill(data, next))
            })
        });
    }

    /// Deletes a chain that nothing refers to, with its rules.
    pub(crate) fn delete_chain(&mut self, chain: &str) {
        self.push(message(NFT_DELCHAIN, 0).text(1, &self.table).text(3, chain));
    }

    /// The transaction; `None` if it changes nothing.
    fn finish(mut self) -> Option<Vec<u8>> {
        acknowledged(self.messages.last_mut()?);
        let edge = |kind| Message::new(kind, 0, 0, NFTABLES).finish();
        Some([&edge(BATCH_BEGIN)[..], &self.messages.concat(), &edge(BATCH_END)].concat())
    }
}

fn key(element: Message, bytes: &[u8]) -> Message {
    element.nest(1, |key| key.attribute(1, bytes))
}

fn expression(list: Message, name: &str, fill: impl FnOnce(Message) -> Message) -> Message {
    list.nest(1, |expression| expression.text(1, name).nest(2, fill))
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// A counter of refused packets: source, mark, packets.
pub(crate) type Counter = (Ipv4Addr, u32, u64);

impl Session {
    /// Makes the changes of a transaction.
    pub(crate) fn commit(&self, batch: Batch) -> io::Result<()> {
        batch.finish().map_or(Ok(()), |request| self.transact(request).map(drop))
    }

    /// Removes addresses from a set; missing addresses or sets are ignored.
    pub(crate) fn remove(&self, table: &str, set: &str, addresses: &[Ipv4Addr]) -> io::Result<()> {
        let mut batch = Batch::new(table);
        // Removing a missing element fails, which rolls back the rest and takes the kernel 10 ms. So add it first.
        batch.add(set, addresses);
        batch.take(set, addresses);
        unless_missing(self.commit(batch))
    }

    /// The counters in a set of addresses and marks.
    pub(crate) fn counters(&self, table: &str, set: &str) -> io::Result<Vec<Counter>> {
        let mut counters = Vec::new();
        self.dump(message(NFT_GETSETELEM, 0).text(1, table).text(2, set).finish(), |entry| {
            let list = find(entry, &[3]).map(attributes).into_iter().flatten();
            counters.extend(list.filter_map(|(_, element)| counter(element)));
        })?;
        Ok(counters)
    }

    /// Removes counters that exist.
    pub(crate) fn remove_counters(&self, table: &str, set: &str, counters: &[Counter]) -> io::Result<()> {
        let mut batch = Batch::new(table);
        batch.elements(NFT_DELSETELEM, set, counters, |element, (source, mark, _)| {
            key(element, &[source.octets(), mark.to_ne_bytes()].concat())
        });
        unless_missing(self.commit(batch))
    }

    /// Whether an inet table exists.
    pub(crate) fn has_table(&self, table: &str) -> io::Result<bool> {
        match self.transact(message(NFT_GETTABLE, 0).text(1, table).finish()) {
            Ok(answer) => Ok(answer.is_some()),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn counter(element: &[u8]) -> Option<Counter> {
    let key = find(element, &[1, 1])?;
    let source: [u8; 4] = *key.first_chunk()?;
    let mark: [u8; 4] = key.get(4..8)?.try_into().ok()?;
    let packets: [u8; 8] = find(element, &[7, 2, 2])?.try_into().ok()?;
    Some((source.into(), u32::from_ne_bytes(mark), u64::from_be_bytes(packets)))
}

/// A socket that receives a message when anything changes in nftables.
pub(crate) fn changes() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_mut().add_membership(NFTABLES_CHANGES)?;
    Ok(socket)
}

/// Whether a message of that socket says that a table was deleted.
pub(crate) fn deletes_table(datagram: &[u8]) -> bool {
    messages(datagram).any(|(kind, ..)| kind == NFTABLES << 8 | NFT_DELTABLE)
}
