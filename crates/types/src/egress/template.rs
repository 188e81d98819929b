//! Header values with placeholders, which the egress proxy fills in: the values never enter the sandbox.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Start of a placeholder for a secret.
const SECRET: &str = "${e2b.secrets.";
/// Start of a placeholder for a workload identity token.
const TOKEN: &str = "${e2b.identity.tokens.";

/// A header value with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// A part of a header value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// `${e2b.secrets.NAME}`: the current value of a secret. The name is in lower case.
    Secret(String),
    /// `${e2b.identity.tokens.NAME}`: a token of the sandbox.
    Token(String),
}

/// A placeholder is not closed, or its name is empty or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Network transform header contains a malformed E2B placeholder.")]
pub struct MalformedPlaceholder;

impl Template {
    /// Its parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Names of the secrets that it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Secret(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Name of a secret: 1 to 128 letters, digits, `_` and `-`.
pub fn is_secret_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Name of a workload identity token.
pub fn is_token_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['{', '}', '$']) && !name.chars().any(char::is_control)
}

impl FromStr for Template {
    type Err = MalformedPlaceholder;

    fn from_str(text: &str) -> Result<Self, MalformedPlaceholder> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while !rest.is_empty() {
            let (is_secret, after) = match (rest.strip_prefix(SECRET), rest.strip_prefix(TOKEN)) {
                (Some(after), _) => (true, after),
                (None, Some(after)) => (false, after),
                (None, None) => {
                    let mut characters = rest.chars();
                    literal.extend(characters.next());
                    rest = characters.as_str();
                    continue;
                }
            };
            let (name, after) = after.split_once('}').ok_or(MalformedPlaceholder)?;
            let part = match is_secret {
                true if is_secret_name(name) => Part::Secret(name.to_ascii_lowercase()),
                false if is_token_name(name) => Part::Token(name.to_owned()),
                _ => return Err(MalformedPlaceholder),
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(part);
            rest = after;
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Secret(name) => write!(f, "{SECRET}{name}}}"),
            Part::Token(name) => write!(f, "{TOKEN}{name}}}"),
        })
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
