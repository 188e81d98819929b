//! Connections that a policy denied: totals by rule, and the most recent ones.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Recent denials that are kept.
const RECENT: usize = 50;
/// Rules that are counted separately; further ones are counted as `other`.
const RULES: usize = 256;

/// How a sandbox tried to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Protocol {
    /// A TCP connection.
    Tcp,
    /// A UDP packet.
    Udp,
    /// Any other packet.
    Other,
    /// A DNS query.
    Dns,
}

impl Protocol {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Other => "other",
            Self::Dns => "dns",
        }
    }
}

/// One denied attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Denial {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// How it tried.
    pub protocol: Protocol,
    /// Host name or address, with the port if there is one.
    pub destination: String,
    /// The rule that denied it.
    pub rule: String,
}

/// Denied attempts of one sandbox since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Denials {
    /// Number of denied connections, packets and queries.
    pub total: u64,
    /// The same by rule.
    pub by_rule: BTreeMap<String, u64>,
    /// The most recent ones, oldest first. Packets that the kernel dropped are only counted.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Denial>))]
    pub recent: VecDeque<Denial>,
}

impl Denials {
    /// Adds one attempt.
    pub fn add(&mut self, denial: Denial) {
        self.count(denial.rule.clone(), 1);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(denial);
    }

    /// Adds to the count of a rule.
    pub fn count(&mut self, rule: String, number: u64) {
        self.total = self.total.saturating_add(number);
        let rule =
            if self.by_rule.len() < RULES || self.by_rule.contains_key(&rule) { rule } else { "other".to_owned() };
        let counted = self.by_rule.entry(rule).or_default();
        *counted = counted.saturating_add(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut denials = Denials::default();
        for n in 0..10_000 {
            let rule = format!("denyOut {n}");
            denials.add(Denial {
                at: Timestamp::UNIX_EPOCH,
                protocol: Protocol::Tcp,
                destination: n.to_string(),
                rule,
            });
        }
        assert_eq!(denials.total, 10_000);
        assert_eq!(denials.by_rule.values().sum::<u64>(), 10_000);
        assert_eq!((denials.recent.len(), denials.by_rule.len()), (RECENT, RULES + 1));
        assert_eq!(denials.recent[RECENT - 1].destination, "9999");
    }
}
