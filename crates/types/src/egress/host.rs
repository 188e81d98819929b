//! Names of hosts and patterns of them, in lower case.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes of a DNS name.
const LONGEST_NAME: usize = 253;
/// Bytes of one label.
const LONGEST_LABEL: usize = 63;

/// A DNS name in lower case, without a final dot. Never an IP address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// A text is not a DNS name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a host name")]
pub struct InvalidHost;

impl HostName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A last label of digits, or hexadecimal, would be read as an IPv4 address by many programs.
        let last = text.rsplit('.').next().unwrap_or_default();
        let numeric = last.bytes().all(|b| b.is_ascii_digit())
            || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
        if text.len() > LONGEST_NAME || numeric || !text.split('.').all(is_label) {
            return Err(InvalidHost);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

/// A pattern of host names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// `*`: every name.
    Any,
    /// This name.
    Exact(HostName),
    /// `*.name`: every name below it, at any depth, without the name itself.
    Below(HostName),
}

impl HostPattern {
    /// Whether a name matches.
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == name,
            Self::Below(parent) => {
                name.0.strip_suffix(&parent.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
        }
    }
}

impl FromStr for HostPattern {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        match text.strip_prefix('*') {
            Some("") => Ok(Self::Any),
            Some(rest) => rest.strip_prefix('.').ok_or(InvalidHost)?.parse().map(Self::Below),
            None => text.parse().map(Self::Exact),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
