//! What the egress proxy needs of the network: which sandbox a redirected connection comes from, its policy, and names
//! as that sandbox resolves them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use cabana_types::address::Prefix;
use cabana_types::egress::{Bounds, Denial, HostName};
use cabana_types::{EgressPolicy, SandboxId};
use tokio::sync::watch;

use crate::addressing::Addressing;
use crate::dns::Lookup;
use crate::ledger::Ledger;

/// Port of the egress proxy. Only root may listen on it, so no other program of the host gets the connections.
pub(crate) const PROXY_PORT: u16 = 1022;

/// The sandbox behind a source address.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its slot.
    pub index: u32,
    /// Its id.
    pub owner: SandboxId,
    /// Its policy; closed when it has left the slot.
    pub policy: watch::Receiver<Arc<EgressPolicy>>,
}

/// Why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name does not exist, or has no address.
    #[error("the name does not exist or has no address")]
    NotFound,
    /// No name server answered.
    #[error("no name server answered")]
    Unavailable,
    /// The sandbox has left the slot.
    #[error("the sandbox is gone")]
    Gone,
}

/// The network, as the egress proxy sees it.
#[async_trait]
pub trait Egress: Send + Sync {
    /// Where redirected connections arrive.
    fn listen(&self) -> SocketAddr;
    /// The sandbox of a source address; `None` if no sandbox has it.
    fn connected(&self, source: Ipv4Addr) -> Option<Source>;
    /// The operator's bounds, with the networks of the host.
    fn bounds(&self) -> Arc<Bounds>;
    /// Addresses of a name, asked of the sandbox's name servers. The caller checks whether the sandbox may use them.
    async fn resolve(&self, index: u32, name: &HostName) -> Result<Vec<IpAddr>, ResolveError>;
    /// Counts and logs a denied attempt.
    fn deny(&self, index: u32, denial: Denial);
}

/// The operator's bounds. The networks of the host in it change while the server runs.
#[derive(Debug, Default)]
pub(crate) struct SharedBounds(RwLock<Arc<Bounds>>);

impl SharedBounds {
    pub(crate) fn new(bounds: Bounds) -> Arc<SharedBounds> {
        Arc::new(SharedBounds(RwLock::new(Arc::new(bounds))))
    }

    pub(crate) fn get(&self) -> Arc<Bounds> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_on_link(&self, on_link: Vec<Prefix>) {
        let mut bounds = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *bounds = Arc::new(Bounds { on_link, ..Bounds::clone(&bounds) });
    }
}

#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) addressing: Arc<Addressing>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) bounds: Arc<SharedBounds>,
    pub(crate) lookup: Arc<Lookup>,
}

#[async_trait]
impl Egress for Gate {
    fn listen(&self) -> SocketAddr {
        (self.addressing.dns(), PROXY_PORT).into()
    }

    fn connected(&self, source: Ipv4Addr) -> Option<Source> {
        let index = self.addressing.index_of(source)?;
        let tenant = self.ledger.tenant(index)?;
        Some(Source { index, owner: tenant.owner.clone(), policy: tenant.watch() })
    }

    fn bounds(&self) -> Arc<Bounds> {
        self.bounds.get()
    }

    async fn resolve(&self, index: u32, name: &HostName) -> Result<Vec<IpAddr>, ResolveError> {
        let policy = self.ledger.tenant(index).ok_or(ResolveError::Gone)?.policy();
        self.lookup.addresses(index, &policy, name, &self.bounds.get()).await
    }

    fn deny(&self, index: u32, denial: Denial) {
        if let Some(tenant) = self.ledger.tenant(index) {
            tenant.deny(denial);
        }
    }
}
