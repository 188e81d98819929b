//! Entries of the connection table.

use std::io;
use std::net::Ipv4Addr;

use super::message::{Message, NLM_F_ACK, Session, find};

const CONNTRACK: u16 = 1;
const CT_GET: u16 = 1;
const CT_DELETE: u16 = 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_STATUS: u16 = 3;
const CTA_ID: u16 = 12;
const CTA_TUPLE_IP: u16 = 1;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
/// Status of a connection whose destination was changed.
const IPS_DST_NAT: u32 = 1 << 5;

fn message(kind: u16) -> Message {
    let family = u8::try_from(libc::AF_INET).expect("AF_INET is 2");
    Message::new(CONNTRACK << 8 | kind, NLM_F_ACK, family, 0)
}

/// A request about the entries with an address at one end of their first packet.
fn with_end(kind: u16, end: u16, address: Ipv4Addr) -> Vec<u8> {
    message(kind)
        .nest(CTA_TUPLE_ORIG, |m| m.nest(CTA_TUPLE_IP, |m| m.attribute(end, &address.octets())))
        // The flag of the source is 1 and that of the destination 2, the same values as those of the attributes.
        .nest(CTA_FILTER, |m| m.attribute(CTA_FILTER_ORIG_FLAGS, &u32::from(end).to_ne_bytes()))
        .finish()
}

fn unless_gone(result: io::Result<Option<u16>>) -> io::Result<()> {
    match result {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other.map(drop),
    }
}

impl Session {
    /// Deletes the conntrack entries from and to an address. This cuts the connections, because later packets
    /// are evaluated as new ones.
    pub(crate) fn forget_flows(&self, address: Ipv4Addr) -> io::Result<()> {
        unless_gone(self.transact(with_end(CT_DELETE, CTA_IP_V4_SRC, address)))?;
        unless_gone(self.transact(with_end(CT_DELETE, CTA_IP_V4_DST, address)))
    }

    /// Deletes the conntrack entries of an address to destinations that are not allowed, so that responses are refused,
    /// too. Redirected connections stay: the egress proxy ends them.
    pub(crate) fn cut_flows(&self, source: Ipv4Addr, allowed: impl Fn(Ipv4Addr) -> bool) -> io::Result<()> {
        let mut cut = Vec::new();
        self.dump(with_end(CT_GET, CTA_IP_V4_SRC, source), |entry| {
            let end = |end| find(entry, &[CTA_TUPLE_ORIG, CTA_TUPLE_IP, end]).and_then(|v| <[u8; 4]>::try_from(v).ok());
            // Not every kernel applies the filter.
            if end(CTA_IP_V4_SRC) != Some(source.octets()) {
                return;
            }
            let status = find(entry, &[CTA_STATUS]).and_then(|v| v.try_into().ok()).map_or(0, u32::from_be_bytes);
            let Some(destination) = end(CTA_IP_V4_DST).filter(|_| status & IPS_DST_NAT == 0) else { return };
            if let Some(tuple) = find(entry, &[CTA_TUPLE_ORIG]).filter(|_| !allowed(destination.into())) {
                let request = message(CT_DELETE).nest(CTA_TUPLE_ORIG, |m| m.raw(tuple));
                let request = match find(entry, &[CTA_ID]) {
                    Some(id) => request.attribute(CTA_ID, id),
                    None => request,
                };
                cut.push(request.finish());
            }
        })?;
        cut.into_iter().try_for_each(|request| unless_gone(self.transact(request)))
    }
}
