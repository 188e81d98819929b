//! Names of images: `[host[:port]/]path[:tag][@digest]`, with Docker's defaults for missing parts. Not `oci-spec`'s `Reference`: ours says
//! which rule a name breaks, since people type these names, and accepts SHA-256 digests only.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Error;

/// The registry of names that have no host.
pub const DEFAULT_HOST: &str = "docker.io";

/// A complete image name: host, path, and a tag or a digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    host: String,
    path: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// The registry as people write it (`docker.io`, `localhost:5000`).
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository in the registry (`library/debian`).
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The tag; `latest` where neither tag nor digest were given.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, which takes precedence over the tag.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// What a registry is asked for: the digest if there is one, else the tag.
    pub fn version(&self) -> String {
        match (self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// Host and path without tag and digest.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|reason| Error::InvalidReference {
            text: text.chars().take(300).collect(),
            reason: reason.to_owned(),
        })
    }
}

impl TryFrom<String> for Reference {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

fn parse(text: &str) -> Result<Reference, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > 600 {
        return Err("it is too long");
    }
    if text.contains("://") {
        return Err("a scheme such as https:// does not belong into it");
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => {
            (rest, Some(digest.parse().map_err(|_| "after @ there must be sha256: and 64 hexadecimal digits")?))
        }
        None => (text, None),
    };
    // The first part is a host only if it looks like one: `localhost/x` and `a.b/x`, but not `library/x`.
    let (host, rest) = match rest.split_once('/') {
        Some((first, more)) if looks_like_host(first) => (first, more),
        _ => (DEFAULT_HOST, rest),
    };
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let host = if host.eq_ignore_ascii_case("index.docker.io") { DEFAULT_HOST.to_owned() } else { host.to_lowercase() };
    if !is_host(&host) {
        return Err("the host is malformed");
    }
    let path = if host == DEFAULT_HOST && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
    if path.chars().any(|c| c.is_ascii_uppercase()) {
        return Err("the path must be lower-case");
    }
    if !path.split('/').all(is_component) {
        return Err("a part of the path may have letters, digits, and single . _ - between them");
    }
    if host.len() + path.len() > 255 {
        return Err("host and path are longer than 255 characters");
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("the tag may have up to 128 letters, digits, _ . - and must not begin with . or -");
    }
    let tag = match (tag, digest) {
        (Some(tag), _) => Some(tag.to_owned()),
        (None, Some(_)) => None,
        (None, None) => Some("latest".to_owned()),
    };
    Ok(Reference { host, path, tag, digest })
}

fn looks_like_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':'])
}

/// `name`, `name:port`, `1.2.3.4:port`, `[::1]:port`.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, after)) = rest.split_once(']') else { return false };
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            match after.strip_prefix(':') {
                Some(port) => ("v6", Some(port)),
                None if after.is_empty() => ("v6", None),
                None => return false,
            }
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0);
    name.split('.').all(label) && port.is_none_or(digits)
}

/// Runs of letters and digits, joined by `.`, `_`, `__` or any number of `-`.
fn is_component(part: &str) -> bool {
    let bytes = part.as_bytes();
    let word = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if !bytes.first().is_some_and(word) || !bytes.last().is_some_and(word) {
        return false;
    }
    part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = tag.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(|b| word(*b))
        && bytes.iter().all(|b| word(*b) || matches!(b, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dockers_defaults_apply() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (given, full) in [
            ("debian", "docker.io/library/debian:latest"),
            ("debian:12-slim", "docker.io/library/debian:12-slim"),
            ("e2bdev/base", "docker.io/e2bdev/base:latest"),
            ("index.docker.io/debian", "docker.io/library/debian:latest"),
            ("localhost/x", "localhost/x:latest"),
            ("localhost:5000/a/b__c.d-e:T_1.x", "localhost:5000/a/b__c.d-e:T_1.x"),
            ("[::1]:5000/x", "[::1]:5000/x:latest"),
            ("GHCR.io/owner/x:v1", "ghcr.io/owner/x:v1"),
            (&format!("x@{digest}"), &format!("docker.io/library/x@{digest}")),
            (&format!("x:1@{digest}"), &format!("docker.io/library/x:1@{digest}")),
            (
                "123456789.dkr.ecr.eu-west-1.amazonaws.com/a---b",
                "123456789.dkr.ecr.eu-west-1.amazonaws.com/a---b:latest",
            ),
        ] {
            assert_eq!(given.parse::<Reference>().unwrap().to_string(), full, "{given}");
        }
    }

    #[test]
    fn malformed_names_are_refused_with_a_reason() {
        let long = format!("docker.io/{}", "a".repeat(300));
        let huge = "a".repeat(10_000);
        for bad in [
            "",
            " ",
            "Debian",
            "A/0",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a:-x",
            "a@sha256:00",
            "a@md5:1",
            "a b",
            "a_",
            "-a",
            "a..b",
            "a___b",
            "https://a.b/c",
            "a.b:x/c",
            "a.b:99999/c",
            "a.b:0/c",
            "-a.b/c",
            "a.b/../c",
            "a.b/c?d",
            "a\nb",
            "[::1/x",
            "a.b/c:d:e",
            &long,
            &huge,
        ] {
            let error = bad.parse::<Reference>().expect_err(bad);
            assert!(error.to_string().len() < 700, "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_and_what_parses_is_stable(text in "[a-zA-Z0-9./:@_ \\-\\[\\]\u{e9}]{0,60}") {
            if let Ok(reference) = text.parse::<Reference>() {
                let full = reference.to_string();
                prop_assert_eq!(&full.parse::<Reference>().unwrap(), &reference);
                prop_assert!(!reference.path().split('/').any(|part| part.is_empty() || part == ".." || part == "."));
                prop_assert!(full.is_ascii() && !full.contains(' '));
                prop_assert!(reference.tag().is_some() || reference.digest().is_some());
            }
        }

        #[test]
        fn well_formed_names_are_taken(
            host in proptest::option::of("[a-z][a-z0-9]{0,8}\\.[a-z]{2,5}(:[1-9][0-9]{0,3})?"),
            // Without a host, a first part with a dot would be one.
            path in "[a-z0-9]{1,8}([_-][a-z0-9]{1,5}){0,2}(/[a-z0-9]{1,8}(\\.[a-z]){0,1}){0,3}",
            tag in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}"),
        ) {
            let text = format!(
                "{}{path}{}",
                host.as_ref().map(|h| format!("{h}/")).unwrap_or_default(),
                tag.as_ref().map(|t| format!(":{t}")).unwrap_or_default()
            );
            let reference = text.parse::<Reference>().unwrap();
            prop_assert_eq!(reference.host(), host.as_deref().unwrap_or("docker.io"));
            prop_assert!(reference.path().ends_with(&path));
            prop_assert_eq!(reference.tag(), Some(tag.as_deref().unwrap_or("latest")));
        }
    }
}
