//! The native backend: namespaces, cgroups and a system call filter of the host's own kernel. Starts in milliseconds; protects
//! against programs that misbehave, not against bugs of that kernel (see SECURITY.md).
//!
//! What a sandbox consists of, in the order of making: a network slot (which also numbers its ids), a record in the run directory, a disk, cgroups, a socket, and a
//! process. The record comes early, so that a server that is killed at any point finds out which slot is taken.

mod ending;
mod instance;
mod launch;
mod record;
mod vitals;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cabana_jail::cgroup::Cgroups;
use cabana_jail::launcher::Launcher;
use cabana_net::{Network, NetworkConfig, Slot};
use cabana_storage::Pool;
use cabana_supervisor::Supervisor;
use cabana_types::error::chain;
use cabana_types::{BuildId, Resources, SandboxId, TemplateId};
use tokio::sync::watch;

use self::ending::collected;
use self::instance::Instance;
use self::record::{Records, Sockets};
use self::vitals::Watched;
use crate::Error;
use crate::backend::{Backend, Capabilities, LaunchSpec, Live, Observed, Stats, Vitals};

/// Slots of one instance. Each has 65,536 ids, and sixteen instances share the upper half of the id space.
const SLOTS: u32 = 2046;

/// What the backend needs to know.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The server's data directory.
    pub data_dir: PathBuf,
    /// The program that has the subcommand `launcher`: `cabana` itself.
    pub program: PathBuf,
    /// The guest's executable; `None` if it is embedded in `program`.
    pub guest: Option<PathBuf>,
    /// Network slots kept ready.
    pub spare_slots: usize,
    /// Where sandboxes' DNS queries go; empty for the host's resolvers.
    pub resolvers: Vec<SocketAddr>,
    /// Runs the network's tasks.
    pub supervisor: Supervisor,
}

/// The backend.
pub struct Native {
    pool: Arc<Pool>,
    network: Network,
    cgroups: Cgroups,
    launcher: Launcher,
    records: Records,
    instance: Instance,
    living: Mutex<HashMap<SandboxId, Watched>>,
}

impl Native {
    /// Opens the backend and takes over the network slots of sandboxes that an earlier server left running.
    pub async fn open(config: NativeConfig, pool: Arc<Pool>) -> Result<Self, Error> {
        let instance = Instance::open(&config.data_dir).await?;
        let records = Records::open(&instance.run_dir)?;
        instance.make_staging()?;
        let cgroups = Cgroups::open(&format!("cabana-{}", instance.name)).map_err(jail)?;
        let launcher = Launcher::start(&config.program, config.guest.as_deref()).map_err(jail)?;
        let in_use: Vec<u32> = records.list()?.into_iter().map(|(_, record)| record.slot).collect();
        let network = Network::open(
            NetworkConfig {
                instance: instance.name.clone(),
                run_dir: instance.run_dir.clone(),
                block: instance.block,
                slots: SLOTS,
                spare: config.spare_slots,
                resolvers: config.resolvers,
            },
            &in_use,
            &config.supervisor,
        )
        .await
        .map_err(network_error)?;
        Ok(Self { pool, network, cgroups, launcher, records, instance, living: Mutex::default() })
    }

    /// Lets go of what is only needed while a server runs. Sandboxes go on.
    pub async fn close(&self) -> Result<(), Error> {
        self.network.close().await.map_err(network_error)?;
        self.cgroups.close();
        self.records.close();
        self.instance.close();
        Ok(())
    }

    /// Starts watching a sandbox that is up.
    fn register(&self, id: &SandboxId, pidfd: OwnedFd, slot: &Slot, sockets: Sockets) -> Result<Live, Error> {
        let watched = Watched::start(id.clone(), pidfd, self.cgroups.clone())?;
        let live = self.live(id, slot, sockets, watched.vitals());
        self.living().insert(id.clone(), watched);
        Ok(live)
    }

    fn live(&self, id: &SandboxId, slot: &Slot, sockets: Sockets, vitals: watch::Receiver<Vitals>) -> Live {
        Live { id: id.clone(), link: self.records.link(id, sockets, slot.address), vitals }
    }

    fn living(&self) -> MutexGuard<'_, HashMap<SandboxId, Watched>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            disk_quota: self.pool.quotas(),
            pause_memory: self.cgroups.can_freeze(),
            memory_outlives_reboot: false,
            copies: self.pool.copies(),
        }
    }

    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error> {
        if spec.root.is_kept() {
            collected(&spec.id, self.end(&spec.id).await)?;
        }
        match self.bring_up(&spec).await {
            Ok(live) => Ok(live),
            Err(error) => {
                let left = match spec.root.is_kept() {
                    true => collected(&spec.id, self.end(&spec.id).await),
                    false => self.destroy(&spec.id).await,
                };
                if let Err(left) = left {
                    tracing::warn!(sandbox = %spec.id, error = %chain(&left), "cleaning up a failed launch");
                }
                Err(error)
            }
        }
    }

    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error> {
        let Some(record) = self.records.read(id)? else { return Ok(None) };
        let Some(process) = record.process else { return Ok(None) };
        let Some(pidfd) = process.open().filter(|_| self.cgroups.contains(id, process.pid)) else { return Ok(None) };
        let Some(slot) = self.network.adopted(record.slot) else { return Ok(None) };
        let known = self.living().get(id).map(Watched::vitals);
        match known {
            Some(vitals) if vitals.borrow().death.is_some() => Ok(None),
            Some(vitals) => Ok(Some(self.live(id, &slot, record.sockets, vitals))),
            None => self.register(id, pidfd, &slot, record.sockets).map(Some),
        }
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        let (cgroups, id) = (self.cgroups.clone(), id.clone());
        tokio::task::spawn_blocking(move || cgroups.freeze(&id))
            .await
            .map_err(|e| io("run in the background", std::io::Error::other(e)))?
            .map_err(jail)
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        self.cgroups.thaw(id).map_err(jail)
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), Error> {
        let mut errors = self.end(id).await;
        if let Err(error) = self.pool.flush_disk(id).await {
            errors.push(error.into());
        }
        collected(id, errors)
    }

    async fn reclaim(&self, id: &SandboxId) {
        let (cgroups, id) = (self.cgroups.clone(), id.clone());
        let _ = tokio::task::spawn_blocking(move || cgroups.reclaim(&id)).await;
    }

    async fn open_disk(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        Ok(self.pool.read_disk(id).await?)
    }

    async fn fresh_disk(&self, id: &SandboxId, resources: Resources) -> Result<OwnedFd, Error> {
        self.pool.delete_disk(id).await?;
        self.pool.create_disk(id, bytes(resources.disk_mb)).await?;
        self.pool.read_disk(id).await?.ok_or_else(|| launch(id, "its disk vanished"))
    }

    async fn delete_disk(&self, id: &SandboxId) -> Result<(), Error> {
        Ok(self.pool.delete_disk(id).await?)
    }

    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        if self.records.read(id)?.is_some() {
            self.cgroups.set_limits(id, resources).map_err(jail)?;
        }
        Ok(self.pool.resize_disk(id, bytes(resources.disk_mb)).await?)
    }

    async fn take_snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        Ok(self.pool.take_snapshot(id, snapshot).await?)
    }

    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        Ok(self.pool.delete_snapshot(snapshot).await?)
    }

    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        Ok(self.pool.snapshots().await?)
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let mut errors = self.end(id).await;
        if let Err(error) = self.pool.delete_disk(id).await {
            errors.push(error.into());
        }
        collected(id, errors)
    }

    async fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        let mut ids: Vec<SandboxId> = self.records.list()?.into_iter().map(|(id, _)| id).collect();
        ids.extend(self.cgroups.list().map_err(jail)?);
        ids.extend(self.pool.disks().await?);
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    async fn observe(&self, id: &SandboxId) -> Result<Observed, Error> {
        let process = self.records.read(id)?.and_then(|record| record.process);
        let processes = process.is_some_and(|p| p.open().is_some() && self.cgroups.contains(id, p.pid));
        Ok(Observed {
            processes,
            frozen: processes && self.cgroups.is_frozen(id),
            disk: self.pool.read_disk(id).await?.is_some(),
        })
    }

    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error> {
        let usage = self.cgroups.usage(id).map_err(jail)?;
        let disk_used = self.pool.disk_used(id).await?;
        let slot = self.records.read(id)?.map(|record| record.slot);
        Ok(Stats {
            cpu_usec: usage.cpu_usec,
            memory_used: usage.memory,
            memory_cache: usage.cache,
            memory_shared: usage.shared,
            disk_used,
            network_bytes: slot.map(|slot| self.network.traffic(slot)).unwrap_or_default(),
        })
    }

    async fn has_build(&self, build: &BuildId) -> bool {
        matches!(self.pool.open_build(build), Ok(Some(_)))
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        Some(&self.pool)
    }
}

fn bytes(mib: u32) -> u64 {
    u64::from(mib) << 20
}

fn jail(error: cabana_jail::Error) -> Error {
    Error::Jail(error)
}

fn network_error(error: cabana_net::Error) -> Error {
    match error {
        cabana_net::Error::Full { limit } => Error::Full { limit },
        other => Error::Network(Box::new(other)),
    }
}

fn launch(id: &SandboxId, message: &str) -> Error {
    Error::Launch { id: id.clone(), message: message.to_owned() }
}

fn io(action: &'static str, source: std::io::Error) -> Error {
    Error::Io { action, source }
}

fn at(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Path { action, path, source }
}
