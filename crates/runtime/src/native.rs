//! The native backend: namespaces, cgroups and a system call filter of the host's own kernel. Starts in milliseconds; protects
//! against programs that misbehave, not against bugs of that kernel (see SECURITY.md).
//!
//! What a sandbox consists of, in the order of making: a network slot (which also numbers its ids), a record in the run directory, a disk, cgroups, a socket, and a
//! process. The record comes early, so that a server that is killed at any point finds out which slot is taken.

mod instance;
mod record;
mod vitals;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cabana_jail::cgroup::Cgroups;
use cabana_jail::launcher::{Launched, Launcher};
use cabana_jail::plan::{Plan, RootKind, UidRange};
use cabana_jail::process::ProcessName;
use cabana_net::{Network, NetworkConfig, Slot};
use cabana_types::{BuildId, Resources, SandboxId, TemplateId};
use rustix::fs::{MemfdFlags, SealFlags};
use tokio::io::AsyncReadExt;
use tokio::sync::{oneshot, watch};

use self::instance::Instance;
use self::record::{Record, Records};
use self::vitals::Watched;
use crate::Error;
use crate::backend::{Backend, Capabilities, DiskSource, LaunchSpec, Live, Observed, Root, Stats, Vitals};
use crate::error::chain;
use crate::pool::{Disk, Pool};

/// Slots of one instance. Each has 65,536 ids, and sixteen instances share the upper half of the id space.
const SLOTS: u32 = 2046;
/// What a disk may have beyond its limit while it is being mounted.
const MOUNT_SLACK: u64 = 16 << 20;
/// How long the guest may take from its start to serving.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the processes of a killed sandbox may take to be gone.
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);

/// What the backend needs to know.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The server's data directory.
    pub data_dir: PathBuf,
    /// The program that has the subcommand `launcher`: `cabana` itself.
    pub program: PathBuf,
    /// The guest daemon's executable.
    pub guest: PathBuf,
    /// Network slots kept ready.
    pub spare_slots: usize,
    /// Where sandboxes' DNS queries go; empty for the host's resolvers.
    pub resolvers: Vec<SocketAddr>,
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
        let launcher = Launcher::start(&config.program, &config.guest).map_err(jail)?;
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

    async fn bring_up(&self, spec: &LaunchSpec) -> Result<Live, Error> {
        let template = match &spec.root {
            Root::Copy(_) => None,
            Root::Build { build, .. } => {
                Some(self.pool.open_build(build)?.ok_or_else(|| Error::NoBuild(build.clone()))?)
            }
        };
        let slot = self.network.acquire(spec.internet).await.map_err(network_error)?;
        if let Err(error) = self.records.write(&spec.id, Record { slot: slot.index, process: None }) {
            // Without a record nobody would give the slot back.
            let _ = self.network.release(slot.index).await;
            return Err(error);
        }
        let disk = self.disk(spec).await?;
        let cgroups = self.cgroups.create(&spec.id, spec.resources).map_err(jail)?;
        let plan = Plan {
            id: spec.id.clone(),
            uids: self.uids(slot.index),
            cgroups,
            staging: self.instance.staging(),
            root: if template.is_some() { RootKind::Overlay } else { RootKind::Whole },
            resolv_conf: format!("nameserver {}\noptions edns0\n", slot.dns),
            hosts: hosts(&spec.id, &slot),
            boot_id: BuildId::from_random(rand::random()).to_string(),
            shm_bytes: u64::from(spec.resources.memory_mb) << 19,
        };
        let socket = self.records.socket(&spec.id);
        let listener = UnixListener::bind(&socket).map_err(at("listen on", &socket))?;
        let config =
            sealed(&serde_json::to_vec(&spec.guest).map_err(|e| io("spell the guest's configuration", e.into()))?)?;
        let (ready, ready_guest) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| io("make the readiness pipe", e.into()))?;

        let (answer, answered) = oneshot::channel();
        let fds = [
            slot.netns.as_fd(),
            template.as_ref().map_or_else(|| disk.dir.as_fd(), |template| template.as_fd()),
            disk.dir.as_fd(),
            listener.as_fd(),
            config.as_fd(),
            ready_guest.as_fd(),
        ];
        self.launcher.launch(&plan, fds, Box::new(move |result| drop(answer.send(result))));
        drop((ready_guest, listener, config));
        let launched = answered.await.map_err(|_| launch(&spec.id, "the launcher has died"))?;
        let Launched { pid, pidfd } = launched.map_err(|e| launch(&spec.id, &chain(&e)))?;
        let process = ProcessName::of(pid).ok_or_else(|| launch(&spec.id, "the guest died at its start"))?;
        self.records.write(&spec.id, Record { slot: slot.index, process: Some(process) })?;
        await_ready(&spec.id, ready).await?;
        if spec.root.is_kept() {
            self.pool.resize_disk(&spec.id, bytes(spec.resources.disk_mb)).await?;
        }
        self.register(&spec.id, pidfd, &slot)
    }

    async fn disk(&self, spec: &LaunchSpec) -> Result<Disk, Error> {
        let (id, limit) = (&spec.id, bytes(spec.resources.disk_mb));
        let disk = match &spec.root {
            Root::Copy(tree) => return self.pool.disk_from_tree(tree, id, limit).await,
            Root::Build { disk, .. } => disk,
        };
        match disk {
            DiskSource::New => self.pool.create_disk(id, limit).await,
            DiskSource::Snapshot(snapshot) => self.pool.disk_from_snapshot(snapshot, id, limit).await,
            DiskSource::Kept => {
                let disk = self.pool.open_disk(id).await?.ok_or_else(|| launch(id, "its disk is missing"))?;
                // Mounting writes a little, and a disk that is full must be usable to be emptied.
                self.pool.resize_disk(id, limit + MOUNT_SLACK).await?;
                Ok(disk)
            }
        }
    }

    /// Ends everything of a sandbox but its disk; goes on after an error.
    async fn end(&self, id: &SandboxId) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut note = |result: Result<(), Error>| {
            if let Err(error) = result {
                errors.push(error);
            }
        };
        let record = self.records.read(id).unwrap_or_else(|error| {
            note(Err(error));
            None
        });
        let ended = self.end_processes(id, record.as_ref()).await;
        let processes_gone = ended.is_ok();
        note(ended);
        note(self.remove_cgroups(id).await);
        // A slot in which something still runs must not be given to another sandbox. The record goes first: were the slot given back twice, the second
        // time would take it from whoever has it by then; a slot without a record is freed by the next start.
        if let Some(record) = record.filter(|_| processes_gone) {
            match self.records.remove(id) {
                Ok(()) => note(self.network.release(record.slot).await.map_err(network_error)),
                Err(error) => note(Err(error)),
            }
        }
        errors
    }

    /// Starts watching a sandbox that is up.
    fn register(&self, id: &SandboxId, pidfd: OwnedFd, slot: &Slot) -> Result<Live, Error> {
        let watched = Watched::start(id.clone(), pidfd, self.cgroups.clone())?;
        let live = self.live(id, slot, watched.vitals());
        self.living().insert(id.clone(), watched);
        Ok(live)
    }

    fn live(&self, id: &SandboxId, slot: &Slot, vitals: watch::Receiver<Vitals>) -> Live {
        Live { id: id.clone(), address: slot.address, guest_socket: self.records.socket(id), vitals }
    }

    /// Ends all processes of a sandbox and waits until they are gone.
    async fn end_processes(&self, id: &SandboxId, record: Option<&Record>) -> Result<(), Error> {
        let watched = self.living().remove(id);
        let found = match &watched {
            Some(_) => None,
            None => record.and_then(|r| r.process).and_then(ProcessName::open),
        };
        // The first process takes everything in its pid namespace along.
        match (&watched, &found) {
            (Some(watched), _) => watched.kill()?,
            (None, Some(pidfd)) => cabana_jail::process::kill(pidfd).map_err(|e| io("kill a sandbox", e.into()))?,
            (None, None) => {}
        }
        self.cgroups.kill(id).map_err(jail)?;
        let gone = async {
            match (watched, found) {
                (Some(watched), _) => watched.gone().await,
                (None, Some(pidfd)) => vitals::exited(pidfd).await,
                (None, None) => Ok(()),
            }
        };
        tokio::time::timeout(DEATH_TIMEOUT, gone)
            .await
            .map_err(|_| io("wait for the end of a sandbox", std::io::ErrorKind::TimedOut.into()))?
    }

    /// Removes a sandbox's cgroups. The last process leaves them a moment after it is reported dead.
    async fn remove_cgroups(&self, id: &SandboxId) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + DEATH_TIMEOUT;
        let mut pause = Duration::from_micros(200);
        while !self.cgroups.remove(id).map_err(jail)? {
            if tokio::time::Instant::now() > deadline {
                return Err(io("empty the cgroups of a sandbox", std::io::ErrorKind::ResourceBusy.into()));
            }
            self.cgroups.kill(id).map_err(jail)?;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }

    fn uids(&self, slot: u32) -> UidRange {
        // The second number of the block's address tells the sixteen instances apart.
        let block = u32::from(self.instance.block.octets()[1] & 0x0f);
        UidRange { base: 0x8000_0000 + (block * 2048 + slot) * UidRange::LEN }
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
            Some(vitals) => Ok(Some(self.live(id, &slot, vitals))),
            None => self.register(id, pidfd, &slot).map(Some),
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
            errors.push(error);
        }
        collected(id, errors)
    }

    async fn reclaim(&self, id: &SandboxId) {
        let (cgroups, id) = (self.cgroups.clone(), id.clone());
        let _ = tokio::task::spawn_blocking(move || cgroups.reclaim(&id)).await;
    }

    async fn open_disk(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        self.pool.read_disk(id).await
    }

    async fn fresh_disk(&self, id: &SandboxId, resources: Resources) -> Result<OwnedFd, Error> {
        self.pool.delete_disk(id).await?;
        self.pool.create_disk(id, bytes(resources.disk_mb)).await?;
        self.pool.read_disk(id).await?.ok_or_else(|| launch(id, "its disk vanished"))
    }

    async fn delete_disk(&self, id: &SandboxId) -> Result<(), Error> {
        self.pool.delete_disk(id).await
    }

    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        if self.records.read(id)?.is_some() {
            self.cgroups.set_limits(id, resources).map_err(jail)?;
        }
        self.pool.resize_disk(id, bytes(resources.disk_mb)).await
    }

    async fn take_snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        self.pool.take_snapshot(id, snapshot).await
    }

    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        self.pool.delete_snapshot(snapshot).await
    }

    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        self.pool.snapshots().await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let mut errors = self.end(id).await;
        if let Err(error) = self.pool.delete_disk(id).await {
            errors.push(error);
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

fn collected(id: &SandboxId, errors: Vec<Error>) -> Result<(), Error> {
    if errors.is_empty() { Ok(()) } else { Err(Error::Teardown { what: id.to_string(), errors }) }
}

fn hosts(id: &SandboxId, slot: &Slot) -> String {
    format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{} {id}\n", slot.address)
}

/// A file in memory that can only be read any more.
fn sealed(content: &[u8]) -> Result<OwnedFd, Error> {
    let file = rustix::fs::memfd_create("cabana-config", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|e| io("make a memory file", e.into()))?;
    // At an offset, so that the guest reads from the start.
    let mut written = 0;
    while written < content.len() {
        written += rustix::io::pwrite(&file, &content[written..], written as u64)
            .map_err(|e| io("write a memory file", e.into()))?;
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(|e| io("seal a memory file", e.into()))?;
    Ok(file)
}

/// Waits for the guest's byte.
async fn await_ready(id: &SandboxId, ready: OwnedFd) -> Result<(), Error> {
    let mut pipe =
        tokio::net::unix::pipe::Receiver::from_owned_fd(ready).map_err(|e| io("watch the readiness pipe", e))?;
    match tokio::time::timeout(READY_TIMEOUT, pipe.read_u8()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(launch(id, "the guest died before it served")),
        Err(_) => Err(launch(id, "the guest did not serve in time")),
    }
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
