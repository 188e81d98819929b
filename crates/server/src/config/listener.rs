//! Settings of the listener and its clients.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cabana_edge::limits::{self, Limits};
use cabana_edge::rates::RateLimit;
use cabana_types::address::Prefix;
use serde::Deserialize;

/// TLS of the listener.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Whether TLS is on, and where the certificate comes from.
    pub mode: TlsMode,
    /// File with the certificate and its chain.
    pub certificate: PathBuf,
    /// File with its key.
    pub key: PathBuf,
}

/// Where the listener's certificate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// No TLS: plain HTTP.
    Off,
    /// An internal certificate authority.
    Internal,
    /// Files, provided by the operator.
    Files,
}

/// Connections of clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Maximum number of open connections.
    pub max: u32,
    /// Maximum number of open connections of one client; 0 for no limit.
    pub max_per_client: u32,
    /// How long a client may leave a response unread, seconds.
    pub unread_seconds: u32,
    /// Proxies that name the client in `X-Forwarded-For`.
    pub trusted_proxies: Vec<Prefix>,
    /// Further names of the API.
    pub hosts: Vec<String>,
}

impl Connections {
    /// The limits of the listener.
    pub fn limits(&self, rates: &Rates) -> Limits {
        let or_unlimited = |limit: u32| if limit == 0 { usize::MAX } else { limit as usize };
        let mut unlimited = limits::this_machine();
        unlimited.extend(&self.trusted_proxies);
        Limits {
            connections: self.max as usize,
            client_connections: or_unlimited(self.max_per_client),
            unlimited,
            proxies: self.trusted_proxies.clone(),
            rate: RateLimit::new(rates.address_requests, Duration::from_secs(rates.address_seconds.into()))
                .map(Arc::new),
            unread: Duration::from_secs(self.unread_seconds.into()),
            ..Limits::default()
        }
    }

    pub(super) fn ranges(&self) -> [(&'static str, u32, RangeInclusive<u32>); 3] {
        [
            ("connections.max", self.max, 16..=1_000_000),
            ("connections.max_per_client", self.max_per_client, 0..=1_000_000),
            ("connections.unread_seconds", self.unread_seconds, 10..=604_800),
        ]
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let is_name = |host: &String| {
            let any = host == "*";
            any || !host.is_empty()
                && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        match self.hosts.iter().find(|host| !is_name(host)) {
            Some(host) => Err((
                "connections.hosts",
                format!("{host:?} is not a host name: write it like cabana.lan, without a port"),
            )),
            None => Ok(()),
        }
    }
}

/// Rate limits; 0 requests for no limit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Requests to the API with one key …
    pub key_requests: u32,
    /// … in this many seconds.
    pub key_seconds: u32,
    /// Requests of one client address, to the API and to sandboxes …
    pub address_requests: u32,
    /// … in this many seconds.
    pub address_seconds: u32,
    /// Requests to the API of one client address without a valid key …
    pub failed_requests: u32,
    /// … in this many seconds.
    pub failed_seconds: u32,
    /// Attempts of one client address to sign in …
    pub sign_in_requests: u32,
    /// Attempts to sign in to one account with a password …
    pub account_requests: u32,
    /// … in this many seconds.
    pub sign_in_seconds: u32,
}

impl Rates {
    pub(super) fn ranges(&self) -> [(&'static str, u32, RangeInclusive<u32>); 9] {
        [
            ("rates.key_requests", self.key_requests, 0..=u32::MAX),
            ("rates.key_seconds", self.key_seconds, 1..=3600),
            ("rates.address_requests", self.address_requests, 0..=u32::MAX),
            ("rates.address_seconds", self.address_seconds, 1..=3600),
            ("rates.failed_requests", self.failed_requests, 0..=u32::MAX),
            ("rates.failed_seconds", self.failed_seconds, 1..=3600),
            ("rates.sign_in_requests", self.sign_in_requests, 0..=u32::MAX),
            ("rates.account_requests", self.account_requests, 0..=u32::MAX),
            ("rates.sign_in_seconds", self.sign_in_seconds, 1..=3600),
        ]
    }
}
