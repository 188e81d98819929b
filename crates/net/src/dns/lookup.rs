//! Addresses of names, for the egress proxy. Answers are untrusted: their number, lifetime and place in memory are bounded.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cabana_types::EgressPolicy;
use cabana_types::egress::{Bounds, HostName};
use hickory_proto::op::{Message, MessageType, OpCode, Query as Question, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::time::Instant;

use super::packet::Query;
use super::quota::Quota;
use super::upstream::{Upstream, ask_each};
use crate::ResolveError;

/// Addresses that are used of an answer.
const MOST_ADDRESSES: usize = 16;
/// Names that a name may be an alias of, one after the other.
const MOST_ALIASES: usize = 16;
/// How long an answer is used.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Answers that are kept.
const MOST_KEPT: usize = 4096;
/// Concurrent lookups, per sandbox and in total.
const LOOKUPS: (usize, usize) = (64, 512);

const PORT: u16 = 53;

#[derive(Debug)]
pub(crate) struct Lookup {
    upstream: Arc<Upstream>,
    lookups: Quota,
    kept: Mutex<HashMap<Key, Kept>>,
}

/// The servers of the sandbox's policy, and the name: sandboxes with other servers have other answers.
type Key = (Vec<Ipv4Addr>, HostName);

#[derive(Debug, Clone)]
struct Kept {
    until: Instant,
    addresses: Vec<IpAddr>,
}

/// Addresses with the time that they may be kept.
type Found = (Vec<IpAddr>, Duration);

/// The servers of a policy that the operator's bounds allow. The forwarder asks them itself, so a policy must not name
/// what a sandbox may not connect to.
pub(super) fn servers(policy: &EgressPolicy, bounds: &Bounds) -> Vec<SocketAddr> {
    let allowed = |server: &&Ipv4Addr| EgressPolicy::default().by_address((**server).into(), bounds).allowed;
    policy.dns_servers.iter().filter(allowed).map(|server| SocketAddr::new((*server).into(), PORT)).collect()
}

impl Lookup {
    pub(super) fn new(upstream: Arc<Upstream>) -> Lookup {
        Lookup { upstream, lookups: Quota::new(LOOKUPS.0, LOOKUPS.1), kept: Mutex::default() }
    }

    /// Addresses of a name, as the sandbox of a slot resolves it.
    pub(crate) async fn addresses(
        &self,
        index: u32,
        policy: &EgressPolicy,
        name: &HostName,
        bounds: &Bounds,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let key = (policy.dns_servers.clone(), name.clone());
        let known = self.kept(&key);
        let addresses = match known {
            Some(addresses) => addresses,
            None => {
                let _permit = self.lookups.enter(index).ok_or(ResolveError::Unavailable)?;
                let own = (!policy.dns_servers.is_empty()).then(|| servers(policy, bounds));
                let (addresses, life) = self.find(own.as_deref(), name).await?;
                self.keep(key, Kept { until: Instant::now() + life, addresses: addresses.clone() });
                addresses
            }
        };
        if addresses.is_empty() { Err(ResolveError::NotFound) } else { Ok(addresses) }
    }

    fn kept(&self, key: &Key) -> Option<Vec<IpAddr>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|kept| kept.until > Instant::now()).map(|kept| kept.addresses.clone())
    }

    fn keep(&self, key: Key, answer: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            let now = Instant::now();
            kept.retain(|_, kept| kept.until > now);
            if kept.len() >= MOST_KEPT {
                kept.clear();
            }
        }
        kept.insert(key, answer);
    }

    /// Asks for both kinds of addresses; one answer is enough.
    async fn find(&self, own: Option<&[SocketAddr]>, name: &HostName) -> Result<Found, ResolveError> {
        let (v4, v6) = tokio::join!(self.ask(own, name, RecordType::A), self.ask(own, name, RecordType::AAAA));
        let (mut addresses, mut life) = (Vec::new(), LONGEST);
        let mut is_answered = false;
        for (found, lives) in [v4, v6].into_iter().flatten() {
            is_answered = true;
            life = life.min(lives);
            addresses.extend(found);
        }
        addresses.truncate(MOST_ADDRESSES);
        if is_answered { Ok((addresses, life)) } else { Err(ResolveError::Unavailable) }
    }

    async fn ask(&self, own: Option<&[SocketAddr]>, name: &HostName, kind: RecordType) -> Result<Found, ResolveError> {
        let name = Name::from_ascii(format!("{name}.")).map_err(|_| ResolveError::NotFound)?;
        let mut message = Message::new(0, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Question::query(name.clone(), kind));
        let bytes = message.to_vec().map_err(|_| ResolveError::NotFound)?;
        let query = Query::read(&bytes).map_err(|_| ResolveError::NotFound)?;
        let answer = match own {
            Some(servers) => ask_each(servers, 0, &query, true).await.map(|(answer, _)| answer),
            None => self.upstream.ask(&query, true).await,
        };
        read(&answer.ok_or(ResolveError::Unavailable)?, name, kind)
    }
}

/// The addresses of a name in an answer, and how long they may be kept.
fn read(answer: &[u8], mut name: Name, kind: RecordType) -> Result<Found, ResolveError> {
    let answer = Message::from_vec(answer).map_err(|_| ResolveError::Unavailable)?;
    match answer.metadata.response_code {
        ResponseCode::NoError => {}
        ResponseCode::NXDomain => return Ok((Vec::new(), SHORTEST)),
        _ => return Err(ResolveError::Unavailable),
    }
    let mut life = u32::MAX;
    for _ in 0..MOST_ALIASES {
        let of_name = || answer.answers.iter().filter(|record| record.name == name);
        let addresses = of_name().filter(|record| record.record_type() == kind);
        let found: Vec<IpAddr> = addresses
            .take(MOST_ADDRESSES)
            .filter_map(|record| {
                life = life.min(record.ttl);
                match &record.data {
                    RData::A(a) => Some(IpAddr::V4(a.0)),
                    RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
                    _ => None,
                }
            })
            .collect();
        if !found.is_empty() {
            return Ok((found, Duration::from_secs(life.into()).clamp(SHORTEST, LONGEST)));
        }
        let alias = of_name().find_map(|record| match &record.data {
            RData::CNAME(to) => Some((to.0.clone(), record.ttl)),
            _ => None,
        });
        let Some((to, ttl)) = alias else { break };
        life = life.min(ttl);
        name = to;
    }
    Ok((Vec::new(), SHORTEST))
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use hickory_proto::rr::Record;
    use hickory_proto::rr::rdata::{A, CNAME};
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_str(text).unwrap()
    }

    fn answer(records: Vec<Record>) -> Vec<u8> {
        let mut message = Message::new(1, MessageType::Response, OpCode::Query);
        message.add_query(Question::query(name("a.example."), RecordType::A));
        message.answers = records;
        message.to_vec().unwrap()
    }

    fn a(owner: &str, ttl: u32, last: u8) -> Record {
        Record::from_rdata(name(owner), ttl, RData::A(A(Ipv4Addr::new(198, 51, 100, last))))
    }

    fn alias(owner: &str, to: &str) -> Record {
        Record::from_rdata(name(owner), 5, RData::CNAME(CNAME(name(to))))
    }

    fn found(records: Vec<Record>) -> Found {
        read(&answer(records), name("a.example."), RecordType::A).unwrap()
    }

    #[test]
    fn only_addresses_of_the_name_are_used() {
        let one = |last| vec![IpAddr::V4(Ipv4Addr::new(198, 51, 100, last))];
        assert_eq!(found(vec![a("a.example.", 30, 1), a("b.example.", 30, 2)]), (one(1), Duration::from_secs(30)));
        let records = vec![alias("a.example.", "b.example."), a("b.example.", 30, 2), a("c.example.", 1, 3)];
        assert_eq!(found(records), (one(2), Duration::from_secs(5)));
        assert!(found(vec![alias("a.example.", "a.example.")]).0.is_empty(), "an alias of itself");
        assert!(found(vec![]).0.is_empty());
    }

    #[test]
    fn lifetimes_and_counts_are_bounded() {
        assert_eq!(found(vec![a("a.example.", 0, 1)]).1, SHORTEST);
        assert_eq!(found(vec![a("a.example.", u32::MAX, 1)]).1, LONGEST);
        let many = (0..2000_u16).map(|n| a("a.example.", 30, n.to_be_bytes()[1])).collect();
        assert_eq!(found(many).0.len(), MOST_ADDRESSES);
    }

    #[test]
    fn private_servers_are_not_asked() {
        let policy = EgressPolicy {
            dns_servers: ["127.0.0.1", "10.0.0.1", "169.254.169.254", "9.9.9.9"].map(|ip| ip.parse().unwrap()).to_vec(),
            ..EgressPolicy::default()
        };
        assert_eq!(servers(&policy, &Bounds::default()), ["9.9.9.9:53".parse().unwrap()]);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, name("a.example."), RecordType::A);
        }
    }
}
