//! The audit log: its entries, their hashes, and how a chain of them is verified. Each team has a chain of its own, so that what a team
//! exports can be verified without the entries of others; what belongs to no team is in the chain of the server.

mod chain;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::TeamId;
use crate::code_enum::code_enum;

pub use chain::{Chain, Chains, MAX_PROBLEMS, Problem, ProblemKind, Report};

/// What begins the bytes under a hash. Another encoding gets another name.
const ENCODING: &str = "cabana-audit-1";
/// The action of entries that say which older ones were removed from their chain.
pub const PRUNED: &str = "audit_pruned";
/// The action of entries for uses of a key that was refused: it has expired, or is for other networks.
pub const KEY_REFUSED: &str = "key_refused";
/// The actor of what the server does by itself.
pub const SERVER: &str = "server";
/// In the details of an entry [`PRUNED`]: number and hash of the last entry that was removed.
pub const THROUGH: &str = "through";
/// See [`THROUGH`].
pub const THROUGH_HASH: &str = "throughHash";

code_enum! {
    /// How a request ended.
    AuditResult, "How a request ended. `interrupted`: the client went away before the answer, so the act may be done or not.", {
        Ok => "ok",
        Refused => "refused",
        Failed => "failed",
        Interrupted => "interrupted",
    }
}

impl FromStr for AuditResult {
    type Err = UnknownResult;

    fn from_str(text: &str) -> Result<Self, UnknownResult> {
        Self::ALL.iter().copied().find(|result| result.as_str() == text).ok_or(UnknownResult)
    }
}

/// A text that names no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown result; choose from: ok, refused, failed, interrupted")]
pub struct UnknownResult;

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct AuditHash([u8; 32]);

impl AuditHash {
    /// What the first entry of a chain follows.
    pub const START: Self = Self([0; 32]);

    /// The hash with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<AuditHash> for String {
    fn from(hash: AuditHash) -> Self {
        hash.to_string()
    }
}

/// A text that is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 hexadecimal digits")]
pub struct InvalidHash;

impl FromStr for AuditHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 64 || !text.bytes().all(digits) {
            return Err(InvalidHash);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| InvalidHash)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| InvalidHash)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for AuditHash {
    type Error = InvalidHash;

    fn try_from(text: String) -> Result<Self, InvalidHash> {
        text.parse()
    }
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// The team in whose chain it is; none for the server's.
    #[serde(rename = "teamID", default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamId>,
    /// Its number in the chain, from 1, without gaps.
    pub seq: u64,
    /// When the act ended, in microseconds.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Id of the person or API key; none where nobody was signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What was done: the id of an operation in the API's description.
    pub action: String,
    /// Id of what it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Address of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub result: AuditResult,
    /// HTTP status of the answer; 0 without one.
    pub status: u16,
    /// Names and ids, the code of an error. Never secrets, never the body of a request.
    #[serde(default)]
    pub details: BTreeMap<String, String>,
    /// Hash of the entry before it.
    pub previous_hash: AuditHash,
    /// SHA-256 of everything above.
    pub hash: AuditHash,
}

impl AuditEntry {
    /// The hash that the entry must have: SHA-256 of its fields as netstrings, in the order of their definition.
    pub fn computed_hash(&self) -> AuditHash {
        let mut hash = Sha256::new();
        let mut field = |text: &str| {
            hash.update(text.len().to_string());
            hash.update(":");
            hash.update(text);
            hash.update(",");
        };
        field(ENCODING);
        field(self.team.as_ref().map_or("", TeamId::as_str));
        field(&self.seq.to_string());
        field(&self.at.as_microsecond().to_string());
        field(self.actor.as_deref().unwrap_or_default());
        field(&self.action);
        field(self.target.as_deref().unwrap_or_default());
        field(self.address.as_deref().unwrap_or_default());
        field(self.result.as_str());
        field(&self.status.to_string());
        field(&self.details.len().to_string());
        for (name, value) in &self.details {
            field(name);
            field(value);
        }
        field(&self.previous_hash.to_string());
        AuditHash(hash.finalize().into())
    }

    /// Number and hash of the last entry that this one says was removed.
    fn checkpoint(&self) -> Option<(u64, AuditHash)> {
        if self.action != PRUNED {
            return None;
        }
        Some((self.details.get(THROUGH)?.parse().ok()?, self.details.get(THROUGH_HASH)?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn entry(seq: u64, previous_hash: AuditHash) -> AuditEntry {
        let mut entry = AuditEntry {
            team: Some("default".parse().expect("id")),
            seq,
            at: Timestamp::from_microsecond(1_700_000_000_000_001).expect("time"),
            actor: Some("usr_x".into()),
            action: "create_sandbox".into(),
            target: Some("iabc".into()),
            address: None,
            result: AuditResult::Ok,
            status: 201,
            details: BTreeMap::from([("name".to_owned(), "a\nb".to_owned())]),
            previous_hash,
            hash: AuditHash::START,
        };
        entry.hash = entry.computed_hash();
        entry
    }

    #[test]
    fn the_encoding_does_not_change() {
        // Computed by the Python function in docs/audit.md.
        let expected = "d310c906ab5f2380f935b323fcc76b20d4422059234935497ea177ab2fd505f1";
        assert_eq!(entry(1, AuditHash::START).hash.to_string(), expected);
    }

    #[test]
    fn every_field_is_under_the_hash() {
        let entry = entry(1, AuditHash::START);
        let changes: [fn(&mut AuditEntry); 11] = [
            |entry| entry.team = None,
            |entry| entry.seq = 2,
            |entry| entry.at = Timestamp::UNIX_EPOCH,
            |entry| entry.actor = None,
            |entry| entry.action = "kill_sandbox".into(),
            |entry| entry.target = Some("iabd".into()),
            |entry| entry.address = Some("::1".into()),
            |entry| entry.result = AuditResult::Refused,
            |entry| entry.status = 200,
            |entry| drop(entry.details.insert("x".into(), String::new())),
            |entry| entry.previous_hash = AuditHash([1; 32]),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = entry.clone();
            change(&mut changed);
            assert_ne!(changed.computed_hash(), entry.hash, "{number}");
        }
        // What moves between fields changes the bytes too.
        let (mut one, mut other) = (entry.clone(), entry);
        (one.actor, one.action) = (Some("ab".into()), "c".into());
        (other.actor, other.action) = (Some("a".into()), "bc".into());
        assert_ne!(one.computed_hash(), other.computed_hash());
    }

    #[test]
    fn entries_survive_json() {
        let entry = entry(7, AuditHash([9; 32]));
        let text = serde_json::to_string(&entry).expect("JSON");
        assert_eq!(serde_json::from_str::<AuditEntry>(&text).expect("entry"), entry);
        assert!(!text.contains('\n') && text.contains("\"previousHash\":\"0909"), "{text}");
        for bad in ["", "0", &"g".repeat(64), &"A".repeat(64)] {
            assert!(bad.parse::<AuditHash>().is_err(), "{bad}");
        }
    }
}
