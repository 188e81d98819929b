//! Where a sandbox may connect: the policy of outgoing connections, and its evaluation. The packet filter, the DNS
//! forwarder and the egress proxy all ask this module, so that there is one answer.
//!
//! An entry of `allow_out` wins over one of `deny_out`; what neither lists is allowed. The operator's [`Bounds`] come before
//! both and cannot be widened by a policy.

pub mod denial;
pub mod host;
pub mod placeholder;
pub mod preset;
pub mod template;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Secret;
use crate::address::{Class, Prefix};
pub use denial::{Denial, Denials, Protocol};
pub use host::{HostName, HostPattern};
pub use placeholder::Placeholder;
pub use preset::Preset;
pub use template::Template;

/// Entries of `allow_out` and of `deny_out`.
pub const MAX_ENTRIES: usize = 2048;
/// Entries of `dns_servers`.
pub const MAX_DNS_SERVERS: usize = 10;
/// Hosts with rules.
pub const MAX_RULES: usize = 10;
/// Headers that a rule sets.
pub const MAX_HEADERS: usize = 20;
/// Bytes of a header's name and value.
pub const MAX_HEADER_BYTES: (usize, usize) = (64, 2048);
/// Bytes of user name and password of an egress proxy: one byte holds each length in SOCKS5.
pub const MAX_CREDENTIAL_BYTES: usize = 255;
/// Bytes of the PEM certificates of an egress proxy.
pub const MAX_CA_BYTES: usize = 8192;

/// Ports on which a connection tells the name of its host, as HTTP `Host` or TLS SNI.
pub const NAMED_PORTS: [u16; 2] = [80, 443];

/// Policy of a sandbox's outgoing connections, validated. The default allows everything that the operator's bounds allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EgressPolicy {
    /// What it may connect to; wins over `deny_out`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_out: Vec<Target>,
    /// What it may not connect to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_out: Vec<Prefix>,
    /// Servers that resolve its names, instead of the host's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<Ipv4Addr>,
    /// SOCKS5 proxy for its TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<EgressProxy>,
    /// Headers that the egress proxy sets, by host: name and value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<HostName, BTreeMap<String, Template>>,
    /// What stands for secrets inside the sandbox. A new policy of the sandbox keeps them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<Placeholder>,
}

/// An entry of `allow_out`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A range of addresses.
    Address(Prefix),
    /// Hosts by name, on [`NAMED_PORTS`].
    Host(HostPattern),
}

/// A SOCKS5 proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressProxy {
    /// `host:port`.
    pub address: String,
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password; only with a user name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// TLS to the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ProxyTls>,
}

/// TLS to an egress proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxyTls {
    /// Whether it is used.
    pub enabled: bool,
    /// Name to verify, instead of the address's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// PEM certificates that replace the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert: Option<String>,
}

/// The operator's bounds of all policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// What no sandbox may connect to.
    pub deny: Vec<Target>,
    /// If not empty: all that sandboxes may connect to.
    pub only: Vec<Target>,
    /// Ranges that are open although they are private. Metadata services stay closed.
    pub internal: Vec<Prefix>,
    /// Networks that the host is directly connected to, found at start.
    #[serde(skip)]
    pub on_link: Vec<Prefix>,
}

/// The rule that decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// No rule matched: allowed.
    Default,
    /// An entry of `allow_out`.
    AllowOut(Target),
    /// An entry of `deny_out`.
    DenyOut(Prefix),
    /// The class of the address: private, metadata and so on.
    Class(Class),
    /// A network of the host.
    OnLink(Prefix),
    /// The operator's bounds: an entry of `deny`.
    OperatorDeny(Target),
    /// The operator's bounds: not in `only`.
    OperatorOnly,
    /// The name does not resolve to an address that may be connected to.
    Unresolved,
}

/// Whether a connection is allowed, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is.
    pub allowed: bool,
    /// The rule.
    pub rule: Rule,
}

impl Verdict {
    fn allow(rule: Rule) -> Self {
        Self { allowed: true, rule }
    }

    fn deny(rule: Rule) -> Self {
        Self { allowed: false, rule }
    }
}

/// Which TCP connections go through the egress proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxied {
    /// None: the packet filter decides by address.
    None,
    /// Those to [`NAMED_PORTS`], to be decided by name.
    Named,
    /// All, to be sent to a SOCKS5 proxy.
    All,
}

impl EgressPolicy {
    /// A policy that allows nothing.
    pub fn offline() -> Self {
        Self { deny_out: vec![Prefix::ALL_V4], ..Self::default() }
    }

    /// Whether everything that is not allowed is denied. IPv6 is not routed to sandboxes, so IPv4 decides.
    pub fn denies_all(&self) -> bool {
        self.deny_out.contains(&Prefix::ALL_V4)
    }

    /// Whether it allows nothing at all.
    pub fn is_offline(&self) -> bool {
        self.denies_all() && self.allow_out.is_empty()
    }

    /// Whether it restricts nothing, so that packets need not be compared with it.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it allows hosts by name.
    pub fn names_hosts(&self) -> bool {
        self.allow_out.iter().any(|target| matches!(target, Target::Host(_)))
    }

    /// Which TCP connections go through the egress proxy. The operator's bounds may require names to be checked, too.
    pub fn proxied(&self, bounds: &Bounds) -> Proxied {
        if self.is_offline() {
            Proxied::None
        } else if self.egress_proxy.is_some() {
            Proxied::All
        } else if self.names_hosts() || self.intercepts_any() || bounds.names_hosts() {
            Proxied::Named
        } else {
            Proxied::None
        }
    }

    /// Whether the egress proxy changes requests to some host, for which it opens their TLS.
    pub fn intercepts_any(&self) -> bool {
        !self.rules.is_empty() || !self.placeholders.is_empty()
    }

    /// Whether the egress proxy changes requests to a host.
    pub fn intercepts(&self, host: &HostName) -> bool {
        self.rules.contains_key(host) || self.placeholders_for(host).next().is_some()
    }

    /// The placeholders that are replaced in requests to a host.
    pub fn placeholders_for(&self, host: &HostName) -> impl Iterator<Item = &Placeholder> {
        self.placeholders.iter().filter(move |placeholder| placeholder.is_for(host))
    }

    /// Whether it has a proxy or rules, which may have credentials, or placeholders, which are one sandbox's own.
    pub fn may_have_credentials(&self) -> bool {
        self.egress_proxy.is_some() || self.intercepts_any()
    }

    /// The policy without what may have credentials: for the record of a sandbox that has ended.
    pub fn without_credentials(&self) -> Self {
        Self { egress_proxy: None, rules: BTreeMap::new(), placeholders: Vec::new(), ..self.clone() }
    }

    /// The policy with the placeholders of another: they belong to the sandbox and not to what it may connect to.
    pub fn with_placeholders_of(self: Arc<Self>, other: &Self) -> Arc<Self> {
        match self.placeholders == other.placeholders {
            true => self,
            false => Arc::new(Self { placeholders: other.placeholders.clone(), ..Self::clone(&self) }),
        }
    }

    /// Decides a connection or packet by its address alone.
    pub fn by_address(&self, address: IpAddr, bounds: &Bounds) -> Verdict {
        if let Some(rule) = bounds.refuse_address(address) {
            return Verdict::deny(rule);
        }
        if !bounds.only.is_empty() && !bounds.only.iter().any(|target| target.has_address(address)) {
            return Verdict::deny(Rule::OperatorOnly);
        }
        if let Some(target) = self.allow_out.iter().find(|target| target.has_address(address)) {
            return Verdict::allow(Rule::AllowOut(target.clone()));
        }
        match self.deny_out.iter().find(|prefix| prefix.contains(address)) {
            Some(prefix) => Verdict::deny(Rule::DenyOut(*prefix)),
            None if self.denies_all() => Verdict::deny(Rule::DenyOut(Prefix::ALL_V4)),
            None => Verdict::allow(Rule::Default),
        }
    }

    /// Decides a connection to a named host. `None` if no rule is about its name: then the address that the sandbox
    /// connected to decides. If it is allowed, the name has to be resolved by the caller, and each address checked with
    /// [`Bounds::refuse_address`].
    pub fn by_name(&self, name: &HostName, bounds: &Bounds) -> Option<Verdict> {
        if let Some(target) = bounds.deny.iter().find(|target| target.has_name(name)) {
            return Some(Verdict::deny(Rule::OperatorDeny(target.clone())));
        }
        let within = bounds.only.is_empty() || bounds.only.iter().any(|target| target.has_name(name));
        let target = self.allow_out.iter().find(|target| target.has_name(name));
        match (target, within) {
            (Some(target), true) => Some(Verdict::allow(Rule::AllowOut(target.clone()))),
            (Some(_), false) => Some(Verdict::deny(Rule::OperatorOnly)),
            // The operator allows the name, and the policy has no opinion on names or addresses.
            (None, true) if !bounds.only.is_empty() && !self.denies_all() => Some(Verdict::allow(Rule::Default)),
            (None, _) => None,
        }
    }

    /// Decides whether a name may be resolved. With everything else denied, DNS could otherwise carry data to anybody.
    pub fn resolves(&self, name: &HostName, bounds: &Bounds) -> Verdict {
        match self.by_name(name, bounds) {
            Some(verdict) => verdict,
            None if self.denies_all() => Verdict::deny(Rule::DenyOut(Prefix::ALL_V4)),
            None => Verdict::allow(Rule::Default),
        }
    }
}

impl Bounds {
    /// Whether it has hosts by name.
    pub fn names_hosts(&self) -> bool {
        self.deny.iter().chain(&self.only).any(|target| matches!(target, Target::Host(_)))
    }

    /// The rule by which nobody may connect to an address; `None` if policies decide.
    pub fn refuse_address(&self, address: IpAddr) -> Option<Rule> {
        let address = match address {
            IpAddr::V6(v6) => crate::address::carried(v6).map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        if let Some(target) = self.deny.iter().find(|target| target.has_address(address)) {
            return Some(Rule::OperatorDeny(target.clone()));
        }
        let class = Class::of(address);
        if matches!(class.scope(), crate::address::Scope::Forbidden) {
            return Some(Rule::Class(class));
        }
        if self.internal.iter().any(|prefix| prefix.contains(address)) {
            return None;
        }
        if class.is_closed_to_sandboxes() {
            return Some(Rule::Class(class));
        }
        self.on_link.iter().find(|prefix| prefix.contains(address)).map(|prefix| Rule::OnLink(*prefix))
    }
}

impl Target {
    fn has_address(&self, address: IpAddr) -> bool {
        matches!(self, Self::Address(prefix) if prefix.contains(address))
    }

    fn has_name(&self, name: &HostName) -> bool {
        matches!(self, Self::Host(pattern) if pattern.matches(name))
    }
}

/// A text is neither an address, a range of addresses, a host name nor a wildcard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an IP address, CIDR range, host name or wildcard like *.example.com")]
pub struct InvalidTarget;

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        match text.parse::<Prefix>() {
            Ok(prefix) if prefix.address().is_unspecified() && !prefix.is_all() => Err(InvalidTarget),
            Ok(prefix) => Ok(Self::Address(prefix)),
            Err(_) => text.parse().map(Self::Host).map_err(|_| InvalidTarget),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(prefix) if prefix.is_single() => prefix.address().fmt(f),
            Self::Address(prefix) => prefix.fmt(f),
            Self::Host(pattern) => pattern.fmt(f),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::AllowOut(target) => write!(f, "allowOut {target}"),
            Self::DenyOut(prefix) => write!(f, "denyOut {prefix}"),
            Self::Class(class) => write!(f, "address class {class:?}"),
            Self::OnLink(prefix) => write!(f, "host network {prefix}"),
            Self::OperatorDeny(target) => write!(f, "operator deny {target}"),
            Self::OperatorOnly => f.write_str("operator only"),
            Self::Unresolved => f.write_str("name without an allowed address"),
        }
    }
}

#[cfg(test)]
mod tests;
