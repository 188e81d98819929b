//! The name servers to use: the configured ones, or those of `/etc/resolv.conf`, which is reloaded when it changes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

const SYSTEM: &str = "/etc/resolv.conf";

/// How often the file is checked for changes.
const LOOK: Duration = Duration::from_secs(5);

/// Longest file, and most servers used from it.
const LONGEST_FILE: u64 = 64 * 1024;
const MOST: usize = 8;

#[derive(Debug)]
pub(super) enum Resolvers {
    Fixed(Arc<[SocketAddr]>),
    System { own: Ipv4Addr, known: Mutex<Known> },
}

#[derive(Debug)]
pub(super) struct Known {
    looked: Option<Instant>,
    modified: Option<SystemTime>,
    servers: Arc<[SocketAddr]>,
}

impl Resolvers {
    /// `own` is the forwarder's own address, which is skipped.
    pub(super) fn new(fixed: Vec<SocketAddr>, own: Ipv4Addr) -> Resolvers {
        if fixed.is_empty() {
            let known = Known { looked: None, modified: None, servers: Arc::new([]) };
            Resolvers::System { own, known: Mutex::new(known) }
        } else {
            Resolvers::Fixed(fixed.into())
        }
    }

    /// The current servers.
    pub(super) fn current(&self) -> Arc<[SocketAddr]> {
        match self {
            Resolvers::Fixed(servers) => Arc::clone(servers),
            Resolvers::System { own, known } => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.looked.is_none_or(|at| at.elapsed() >= LOOK) {
                    known.look(*own);
                }
                Arc::clone(&known.servers)
            }
        }
    }
}

impl Known {
    fn look(&mut self, own: Ipv4Addr) {
        self.looked = Some(Instant::now());
        let Ok(meta) = std::fs::metadata(SYSTEM) else { return };
        let modified = meta.modified().ok();
        if meta.len() > LONGEST_FILE || (modified.is_some() && modified == self.modified) {
            return;
        }
        let Ok(text) = std::fs::read(SYSTEM) else { return };
        self.modified = modified;
        self.servers = parse(&String::from_utf8_lossy(&text), own).into();
    }
}

fn parse(text: &str, own: Ipv4Addr) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            return None;
        }
        // A link-local address has its interface after a percent sign.
        let (address, scope) = words.next().map(|word| word.split_once('%').unwrap_or((word, "")))?;
        match address.parse().ok()? {
            IpAddr::V4(address) => (address != own).then(|| SocketAddr::new(IpAddr::V4(address), 53)),
            IpAddr::V6(address) => {
                let scope = if scope.is_empty() { 0 } else { nix::net::if_::if_nametoindex(scope).ok()? };
                Some(std::net::SocketAddrV6::new(address, 53, 0, scope).into())
            }
        }
    };
    text.lines().filter_map(server).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_system_file() {
        let text = "# comment\nsearch example.com\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 # x\n\
                    nameserver 100.96.0.1\nnameserver nonsense\noptions edns0\n";
        let expected: Vec<SocketAddr> = vec!["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:53".parse().unwrap()];
        assert_eq!(parse(text, Ipv4Addr::new(100, 96, 0, 1)), expected);
        assert_eq!(parse(&"nameserver 192.0.2.1\n".repeat(100), Ipv4Addr::LOCALHOST).len(), MOST);
    }
}
