//! `GET /ports`: TCP sockets that listen inside the sandbox, and whose they are.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cabana_types::guest::tools::ListeningPort;
use cabana_types::routing::GUEST_PORT;

use super::Cancel;
use super::owners;
use super::refuse::Refused;
use crate::survivors;

const LISTEN: &str = "0A";
const MAX_TABLE: u64 = 4 << 20;
const MAX_PORTS: usize = 1024;
const MAX_PROCESSES: usize = 10_000;
const MAX_FILES: usize = 200_000;

/// Lists the sockets by port. `services` tells the tags of processes' services.
pub(crate) fn listening(
    cancel: &Cancel,
    services: impl FnOnce() -> Box<dyn Fn(u32) -> Option<String>>,
) -> Result<Vec<ListeningPort>, Refused> {
    let mut sockets: BTreeMap<_, _> =
        sockets().into_iter().map(|(port, address, inode)| ((port, address), inode)).collect();
    while sockets.len() > MAX_PORTS {
        sockets.pop_last();
    }
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    let mut owners = HashMap::new();
    for (inode, pid) in owners_of_sockets(cancel) {
        owners.entry(inode).and_modify(|first: &mut u32| *first = pid.min(*first)).or_insert(pid);
    }
    cancel.check()?;
    let service_of = services();
    cancel.check()?;
    let port = |((port, address), inode): ((u16, IpAddr), u64)| {
        let pid = owners.get(&inode).copied();
        let (command, service) = (pid.and_then(name), pid.and_then(&service_of));
        ListeningPort { port, address: address.to_string(), pid, command, service }
    };
    Ok(sockets.into_iter().map(port).collect())
}

/// Port, address and inode of every socket that listens, except the daemon's.
pub(crate) fn sockets() -> Vec<(u16, IpAddr, u64)> {
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // A kernel without IPv6 has only one.
        found.extend(parse(&read(table, MAX_TABLE).unwrap_or_default()).filter(|(port, ..)| *port != GUEST_PORT));
    }
    found
}

/// Port, address and inode of the listening sockets in a table of `/proc/net`.
fn parse(table: &str) -> impl Iterator<Item = (u16, IpAddr, u64)> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (address, port) = fields.nth(1)?.split_once(':')?;
        (fields.nth(1)? == LISTEN).then_some(())?;
        let inode = fields.nth(5)?.parse().ok()?;
        Some((u16::from_str_radix(port, 16).ok()?, parse_address(address)?, inode))
    })
}

/// An address, as 32-bit words in the machine's byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// Inodes of sockets, and the processes that have them open.
pub(crate) fn owners_of_sockets(cancel: &Cancel) -> Vec<(u64, u32)> {
    owners::look(survivors::pids().take(MAX_PROCESSES), |pids| sockets_of(pids, cancel))
}

fn sockets_of(pids: &[u32], cancel: &Cancel) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    let mut files = 0;
    for pid in pids {
        // A process may end or be protected meanwhile.
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            files += 1;
            if files > MAX_FILES || cancel.is_set() {
                return found;
            }
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            let inode = target.to_str().and_then(|t| t.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            found.extend(inode.map(|inode| (inode, *pid)));
        }
    }
    found
}

/// Name of a process.
pub(crate) fn name(pid: u32) -> Option<String> {
    read(&format!("/proc/{pid}/comm"), 64).map(|name| name.trim_end().to_owned())
}

/// Reads a file of `/proc`, whose names are ours.
fn read(path: &str, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_tables() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 123 1 0 100 0 0 10 0\n\
            1: 0100007F:1F91 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000        0 124 1 0 100 0 0 10 0\n\
            2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 125\nnonsense\n";
        let found: Vec<_> = parse(table).map(|(port, address, inode)| (port, address.to_string(), inode)).collect();
        assert_eq!(found, [(8080, "127.0.0.1".to_owned(), 123), (80, "::1".to_owned(), 125)]);
    }

    #[test]
    fn finds_a_listener_of_this_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = listening(&Cancel::default(), || Box::new(|pid| Some(format!("of {pid}")))).unwrap();
        let ours = found.iter().find(|p| p.port == port).unwrap();
        assert_eq!((ours.address.as_str(), ours.pid), ("127.0.0.1", Some(std::process::id())));
        assert!(ours.command.is_some());
        assert_eq!(ours.service, Some(format!("of {}", std::process::id())));
    }
}
