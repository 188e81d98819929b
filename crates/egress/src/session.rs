//! One connection of a sandbox: whose it is, what it is used for, and when it has to be cut.

use std::net::{IpAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};

use cabana_types::egress::{Bounds, Denial, EgressProxy, HostName, Protocol, Rule};
use cabana_types::{EgressPolicy, SandboxId};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::proxy::Proxy;
use crate::quota::Permit;

/// Where an allowed connection is made to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// The name's own addresses: its name is allowed.
    Name(HostName),
    /// The name's own addresses that are allowed, too: the original address is allowed, and requests to the name are
    /// given secrets, which must not go to an address that the sandbox chose.
    Ruled(HostName),
    /// The original address.
    Address,
}

/// An allowed connection and the policy that allowed it.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) policy: Arc<EgressPolicy>,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) way: Way,
}

/// What a connection is used for.
#[derive(Debug, Clone)]
struct Use {
    name: Option<HostName>,
    proxy: Option<EgressProxy>,
}

/// One connection.
pub(crate) struct Session {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) index: u32,
    pub(crate) owner: SandboxId,
    /// Where the sandbox wanted to connect to.
    pub(crate) original: SocketAddrV4,
    /// Cancelled when the connection ends.
    pub(crate) ended: CancellationToken,
    /// Tasks that belong to the connection.
    pub(crate) tasks: TaskTracker,
    policy: watch::Receiver<Arc<EgressPolicy>>,
    used: Mutex<Option<Use>>,
    _permit: Permit,
}

impl Session {
    pub(crate) fn new(proxy: Arc<Proxy>, source: crate::Source, original: SocketAddrV4, permit: Permit) -> Arc<Self> {
        Arc::new(Self {
            proxy,
            index: source.index,
            owner: source.owner,
            original,
            ended: CancellationToken::new(),
            tasks: TaskTracker::new(),
            policy: source.policy,
            used: Mutex::default(),
            _permit: permit,
        })
    }

    /// Decides whether the connection may be used for a host, and remembers it: if a later policy does not allow it, the
    /// connection is cut.
    pub(crate) fn decide(&self, name: Option<&HostName>) -> Result<Decision, Rule> {
        let policy = {
            // Locked while the policy is read, so that `cut` sees this use with every later policy.
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let policy = Arc::clone(&self.policy.borrow());
            *used = Some(Use { name: name.cloned(), proxy: policy.egress_proxy.clone() });
            policy
        };
        let bounds = self.proxy.egress.bounds();
        let way = way(&policy, &bounds, name, self.original)?;
        Ok(Decision { policy, bounds, way })
    }

    /// Counts and logs that the connection is denied.
    pub(crate) fn deny(&self, name: Option<&HostName>, rule: impl ToString) {
        let destination = match name {
            Some(name) => format!("{name}:{}", self.original.port()),
            None => self.original.to_string(),
        };
        let denial = Denial { at: Timestamp::now(), protocol: Protocol::Tcp, destination, rule: rule.to_string() };
        self.proxy.egress.deny(self.index, denial);
    }

    /// Resolves when the connection must be cut: its sandbox is gone, or a new policy does not allow it.
    pub(crate) async fn cut(&self) {
        let mut policy = self.policy.clone();
        while policy.changed().await.is_ok() {
            let policy = Arc::clone(&policy.borrow());
            let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(used) = used else { continue };
            if let Err(rule) = way(&policy, &self.proxy.egress.bounds(), used.name.as_ref(), self.original) {
                self.deny(used.name.as_ref(), rule);
                return;
            }
            if used.proxy != policy.egress_proxy {
                tracing::debug!(sandbox = %self.owner, "cut a connection: the policy has another SOCKS5 proxy");
                return;
            }
        }
    }
}

/// Decides by name, then by address.
fn way(policy: &EgressPolicy, bounds: &Bounds, name: Option<&HostName>, original: SocketAddrV4) -> Result<Way, Rule> {
    if let Some(name) = name
        && let Some(verdict) = policy.by_name(name, bounds)
    {
        return if verdict.allowed { Ok(Way::Name(name.clone())) } else { Err(verdict.rule) };
    }
    let verdict = policy.by_address(IpAddr::V4(*original.ip()), bounds);
    match name {
        _ if !verdict.allowed => Err(verdict.rule),
        Some(name) if policy.intercepts(name) => Ok(Way::Ruled(name.clone())),
        _ => Ok(Way::Address),
    }
}
