//! Addresses of names, for the egress proxy.

use std::net::IpAddr;
use std::sync::Arc;

use cabana_types::EgressPolicy;
use cabana_types::egress::{Bounds, HostName};
use hickory_proto::op::{Message, MessageType, OpCode, Query as Question, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};

use super::packet::Query;
use super::upstream::Upstream;
use crate::ResolveError;

/// Addresses that are used of an answer.
const MOST_ADDRESSES: usize = 16;

#[derive(Debug)]
pub(crate) struct Lookup {
    upstream: Arc<Upstream>,
}

impl Lookup {
    pub(super) fn new(upstream: Arc<Upstream>) -> Lookup {
        Lookup { upstream }
    }

    /// Addresses of a name, as a sandbox with this policy resolves it.
    pub(crate) async fn addresses(
        &self,
        _policy: &EgressPolicy,
        name: &HostName,
        _bounds: &Bounds,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let (v4, v6) = tokio::join!(self.ask(name, RecordType::A), self.ask(name, RecordType::AAAA));
        let mut found: Vec<IpAddr> = Vec::new();
        let outcomes = [v4, v6];
        let answered = outcomes.iter().any(Result::is_ok);
        found.extend(outcomes.into_iter().flatten().flatten());
        found.truncate(MOST_ADDRESSES);
        match answered {
            false => Err(ResolveError::Unavailable),
            true if found.is_empty() => Err(ResolveError::NotFound),
            true => Ok(found),
        }
    }

    async fn ask(&self, name: &HostName, kind: RecordType) -> Result<Vec<IpAddr>, ResolveError> {
        let full = Name::from_ascii(format!("{name}.")).map_err(|_| ResolveError::NotFound)?;
        let mut message = Message::new(0, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Question::query(full, kind));
        let bytes = message.to_vec().map_err(|_| ResolveError::NotFound)?;
        let query = Query::read(&bytes).map_err(|_| ResolveError::NotFound)?;
        let answer = self.upstream.ask(&query, true).await.ok_or(ResolveError::Unavailable)?;
        let answer = Message::from_vec(&answer).map_err(|_| ResolveError::Unavailable)?;
        match answer.metadata.response_code {
            ResponseCode::NoError | ResponseCode::NXDomain => {}
            _ => return Err(ResolveError::Unavailable),
        }
        let address = |data: &RData| match data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        };
        Ok(answer.answers.iter().filter_map(|record| address(&record.data)).take(MOST_ADDRESSES).collect())
    }
}
