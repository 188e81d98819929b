//! What every backend on this machine needs around its processes: a network slot, a record, a disk, cgroups and the
//! sockets of the guest. A backend adds the process itself.
//!
//! Order of creation: network slot (whose number also gives the host ids), record in the run directory, disk, cgroups,
//! sockets, process. The record is written early, so that a server that was killed at any point knows which slot is
//! taken.

mod checks;
mod facts;
mod instance;
mod machine;
mod parts;
mod record;
mod teardown;
mod vitals;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_jail::cgroup::Cgroups;
use cabana_net::{InUse, Network, NetworkConfig};
use cabana_storage::Disks;
use cabana_supervisor::Supervisor;
use cabana_types::egress::{Bounds, Denials};
use cabana_types::{EgressPolicy, Resources, SandboxId};
use tokio::sync::watch;

use self::facts::Facts;
use self::instance::Instance;
use self::record::{Record, Records};
use self::vitals::Watched;
use crate::Error;
use crate::live::{Live, Observed, Stats, Vitals};

pub use self::checks::check;
pub(crate) use self::parts::Parts;
pub use self::teardown::end_all;
pub use cabana_jail::cgroup::io::IoLimits;

/// Slots of one instance. Each has 65,536 ids, and sixteen instances share the upper half of the id space.
const SLOTS: u32 = 2046;

/// Settings of the scaffolding.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The server's data directory.
    pub data_dir: PathBuf,
    /// Network slots kept ready.
    pub spare_slots: usize,
    /// Where DNS queries of sandboxes go; empty for the host's resolvers.
    pub resolvers: Vec<SocketAddr>,
    /// The operator's bounds of all egress policies.
    pub bounds: Bounds,
    /// Policies of the sandboxes that may still run. One that is not among them may connect to nothing.
    pub policies: HashMap<SandboxId, Arc<EgressPolicy>>,
    /// Memory that sandboxes leave to the rest of the machine, bytes; 0 for a share of it.
    pub reserved_memory: u64,
    /// Limits of reads and writes on the pool's disk.
    pub io: IoLimits,
    /// Runs the network's tasks.
    pub supervisor: Supervisor,
}

/// The scaffolding of one server on this machine. Backends share it.
pub struct Host {
    disks: Arc<dyn Disks>,
    network: Network,
    cgroups: Cgroups,
    records: Records,
    facts: Facts,
    instance: Instance,
    running: Mutex<HashMap<SandboxId, Watched>>,
}

impl Host {
    /// Opens the scaffolding and takes over the network slots of sandboxes that an earlier server left running.
    pub async fn open(config: HostConfig, disks: Arc<dyn Disks>) -> Result<Self, Error> {
        let instance = Instance::open(&config.data_dir).await?;
        let records = Records::open(&instance.run_dir)?;
        instance.make_staging()?;
        let mut cgroups = Cgroups::open(&format!("cabana-{}", instance.name)).map_err(Error::Jail)?;
        machine::limit_io(&mut cgroups, config.io, &config.data_dir.join("pool"));
        let offline = Arc::new(EgressPolicy::offline());
        let in_use = |(owner, record): (SandboxId, Record)| {
            let policy = Arc::clone(config.policies.get(&owner).unwrap_or(&offline));
            InUse { index: record.slot, owner, policy }
        };
        let in_use = records.list()?.into_iter().map(in_use).collect();
        let network = Network::open(
            NetworkConfig {
                instance: instance.name.clone(),
                run_dir: instance.run_dir.clone(),
                block: instance.block,
                slots: SLOTS,
                spare: config.spare_slots,
                resolvers: config.resolvers,
                bounds: config.bounds,
            },
            in_use,
            &config.supervisor,
        )
        .await
        .map_err(network_error)?;
        // After the network: its packet filter makes the kernel load the connection table.
        machine::prepare(&cgroups, config.reserved_memory);
        let facts = Facts::open(&instance.run_dir)?;
        Ok(Self { disks, network, cgroups, records, facts, instance, running: Mutex::default() })
    }

    /// Releases what is only needed while a server runs. Sandboxes continue.
    pub async fn close(&self) -> Result<(), Error> {
        self.network.close().await.map_err(network_error)?;
        self.cgroups.close();
        self.records.close();
        self.facts.close();
        self.instance.close();
        Ok(())
    }

    /// Network slots, by state.
    pub fn slots(&self) -> cabana_net::Counts {
        self.network.counts()
    }

    /// Whether sandboxes can be frozen.
    pub(crate) fn can_freeze(&self) -> bool {
        self.cgroups.can_freeze()
    }

    /// See [`crate::Isolation::adopt`].
    pub(crate) async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error> {
        let Some(record) = self.records.read(id)? else { return Ok(None) };
        let Some(process) = record.process else { return Ok(None) };
        let Some(pidfd) = process.open().filter(|_| self.cgroups.contains(id, process.pid)) else { return Ok(None) };
        let known = self.running().get(id).map(Watched::vitals);
        match known {
            Some(vitals) if vitals.borrow().death.is_some() => Ok(None),
            Some(vitals) => Ok(self.live(id, record, vitals)),
            None => self.register(id, pidfd, record),
        }
    }

    /// Starts watching a sandbox; `None` if its slot is gone.
    pub(crate) fn register(&self, id: &SandboxId, pidfd: OwnedFd, record: Record) -> Result<Option<Live>, Error> {
        if self.network.adopted(record.slot).is_none() {
            return Ok(None);
        }
        let watched = Watched::start(id.clone(), pidfd, self.cgroups.clone())?;
        let live = self.live(id, record, watched.vitals());
        self.running().insert(id.clone(), watched);
        Ok(live)
    }

    fn live(&self, id: &SandboxId, record: Record, vitals: watch::Receiver<Vitals>) -> Option<Live> {
        let slot = self.network.adopted(record.slot)?;
        Some(Live { id: id.clone(), link: self.records.link(id, record.sockets, slot.address), vitals })
    }

    /// See [`crate::Isolation::observe`].
    pub(crate) async fn observe(&self, id: &SandboxId) -> Result<Observed, Error> {
        let process = self.records.read(id)?.and_then(|record| record.process);
        let processes = process.is_some_and(|p| p.open().is_some() && self.cgroups.contains(id, p.pid));
        Ok(Observed {
            processes,
            frozen: processes && self.cgroups.is_frozen(id),
            disk: self.disks.read(id).await?.is_some(),
        })
    }

    /// See [`crate::Isolation::inventory`].
    pub(crate) fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        let mut ids: Vec<SandboxId> = self.records.list()?.into_iter().map(|(id, _)| id).collect();
        ids.extend(self.cgroups.list().map_err(Error::Jail)?);
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// See [`crate::Isolation::freeze`].
    pub(crate) async fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        let (cgroups, id) = (self.cgroups.clone(), id.clone());
        tokio::task::spawn_blocking(move || cgroups.freeze(&id))
            .await
            .map_err(|e| io("freeze in the background", std::io::Error::other(e)))?
            .map_err(Error::Jail)
    }

    /// See [`crate::Isolation::thaw`]. Blocks for one write to a cgroup file.
    pub(crate) fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        self.cgroups.thaw(id).map_err(Error::Jail)
    }

    /// See [`crate::Isolation::reclaim`].
    pub(crate) async fn reclaim(&self, id: &SandboxId) {
        let (cgroups, id) = (self.cgroups.clone(), id.clone());
        let _ = tokio::task::spawn_blocking(move || cgroups.reclaim(&id)).await;
    }

    /// See [`crate::Isolation::resize`].
    pub(crate) async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        if self.records.read(id)?.is_some() {
            self.cgroups.set_limits(id, resources).map_err(Error::Jail)?;
        }
        Ok(self.disks.resize(id, u64::from(resources.disk_mb) << 20).await?)
    }

    /// The network, as the egress proxy sees it.
    pub fn egress(&self) -> Arc<dyn cabana_net::Egress> {
        self.network.egress()
    }

    /// See [`crate::Isolation::set_egress`].
    pub(crate) async fn set_egress(&self, id: &SandboxId, policy: Arc<EgressPolicy>) -> Result<(), Error> {
        if let Some(record) = self.records.read(id)? {
            self.network.set_policy(record.slot, policy).await.map_err(network_error)?;
        }
        Ok(())
    }

    /// See [`crate::Isolation::denials`].
    pub(crate) fn denials(&self, id: &SandboxId) -> Result<Denials, Error> {
        Ok(self.records.read(id)?.map(|record| self.network.denials(record.slot)).unwrap_or_default())
    }

    /// See [`crate::Isolation::stats`].
    pub(crate) async fn stats(&self, id: &SandboxId) -> Result<Stats, Error> {
        let usage = self.cgroups.usage(id).map_err(Error::Jail)?;
        let disk_used = self.disks.usage(id).await?;
        let record = self.records.read(id)?;
        let slot = record.map(|record| record.slot);
        if let Some(limits) = self.cgroups.limits(id) {
            self.facts.update(id, limits, usage, record.and_then(|r| r.process).map(|process| process.started));
        }
        Ok(Stats {
            cpu_usec: usage.cpu_usec,
            memory_used: usage.memory,
            memory_cache: usage.cache,
            memory_shared: usage.shared,
            disk_used,
            network_bytes: slot.map(|slot| self.network.traffic(slot)).unwrap_or_default(),
        })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<SandboxId, Watched>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn network_error(error: cabana_net::Error) -> Error {
    match error {
        cabana_net::Error::Full { limit } => Error::Full { limit },
        other => Error::Network(Box::new(other)),
    }
}

pub(crate) fn launch_error(id: &SandboxId, message: &str) -> Error {
    Error::Launch { id: id.clone(), message: message.to_owned() }
}

pub(crate) fn io(action: &'static str, source: std::io::Error) -> Error {
    Error::Io { action, source }
}

fn at(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Path { action, path, source }
}
