//! A backend in memory. It outlives servers, as real sandboxes do, and fails or hangs where a test wants it to.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cabana_guest_link::GuestLink;
use cabana_runtime::{Backend, Capabilities, Death, Error, LaunchSpec, Live, Observed, Stats, Vitals};
use cabana_storage::Pool;
use cabana_types::{BuildId, Resources, SandboxId, TemplateId};
use tokio::sync::watch;

/// What an operation does instead of succeeding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fails, having done nothing.
    Fail,
    /// Never returns, having done nothing.
    HangBefore,
    /// Does its work, and never returns.
    HangAfter,
    /// Says that there is no room.
    Full,
    /// Says that the root filesystem is missing.
    NoBuild,
    /// Says that the disk is full.
    DiskFull,
    /// Panics.
    Panic,
    /// Takes a while.
    Slow(Duration),
}

#[derive(Debug)]
pub(crate) struct FakeSandbox {
    pub(crate) spec: LaunchSpec,
    vitals: watch::Sender<Vitals>,
}

#[derive(Debug, Default)]
struct Inner {
    sandboxes: HashMap<SandboxId, FakeSandbox>,
    disks: HashMap<SandboxId, Resources>,
    frozen: HashSet<SandboxId>,
    snapshots: HashSet<TemplateId>,
    launch: Option<Fault>,
    adopt: Vec<Fault>,
    destroy: Vec<Fault>,
    busy: HashSet<SandboxId>,
    destroyed: Vec<SandboxId>,
    collisions: Vec<SandboxId>,
    stats: Stats,
    on_stats: HashMap<SandboxId, Fault>,
    guest: Option<PathBuf>,
}

/// Everything there is.
#[derive(Debug, Default)]
pub(crate) struct World {
    inner: Mutex<Inner>,
}

impl World {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on launches do this.
    pub(crate) fn on_launch(&self, fault: Option<Fault>) {
        self.inner().launch = fault;
    }

    /// The next destroys do these, one each.
    pub(crate) fn on_destroy(&self, faults: &[Fault]) {
        self.inner().destroy = faults.to_vec();
    }

    /// The next adoptions do these, one each.
    pub(crate) fn on_adopt(&self, faults: &[Fault]) {
        self.inner().adopt = faults.to_vec();
    }

    /// What every sandbox uses.
    pub(crate) fn set_stats(&self, stats: Stats) {
        self.inner().stats = stats;
    }

    /// From now on asking what a sandbox uses does this.
    pub(crate) fn on_stats(&self, id: &str, fault: Option<Fault>) {
        let id: SandboxId = id.parse().expect("id");
        match fault {
            Some(fault) => self.inner().on_stats.insert(id, fault),
            None => self.inner().on_stats.remove(&id),
        };
    }

    /// From now on every sandbox's guest serves here.
    pub(crate) fn set_guest(&self, socket: PathBuf) {
        self.inner().guest = Some(socket);
    }

    /// Faults are over, and calls of a server that is gone are too.
    pub(crate) fn heal(&self) {
        let mut inner = self.inner();
        inner.launch = None;
        inner.adopt.clear();
        inner.destroy.clear();
        inner.on_stats.clear();
        inner.busy.clear();
    }

    /// The machine restarts: nothing is left but disks.
    pub(crate) fn reboot(&self) {
        let mut inner = self.inner();
        inner.sandboxes.clear();
        inner.frozen.clear();
    }

    /// Sandboxes that have a disk.
    pub(crate) fn disks(&self) -> HashSet<String> {
        self.inner().disks.keys().map(ToString::to_string).collect()
    }

    /// Whether a sandbox's processes stand still.
    pub(crate) fn is_frozen(&self, id: &str) -> bool {
        self.inner().frozen.contains(&id.parse::<SandboxId>().expect("id"))
    }

    /// Copies of disks.
    pub(crate) fn copies(&self) -> usize {
        self.inner().snapshots.len()
    }

    /// A sandbox that no server knows.
    pub(crate) fn add_stranger(&self, spec: LaunchSpec) {
        let (vitals, _) = watch::channel(Vitals::default());
        self.inner().sandboxes.insert(spec.id.clone(), FakeSandbox { spec, vitals });
    }

    /// Sandboxes on which two operations ran at the same time.
    pub(crate) fn collisions(&self) -> Vec<SandboxId> {
        self.inner().collisions.clone()
    }

    fn remove(&self, id: &SandboxId) {
        let mut inner = self.inner();
        inner.sandboxes.remove(id);
        inner.disks.remove(id);
        inner.frozen.remove(id);
        inner.destroyed.push(id.clone());
    }

    pub(crate) fn ids(&self) -> HashSet<String> {
        self.inner().sandboxes.keys().map(ToString::to_string).collect()
    }

    pub(crate) fn spec(&self, id: &str) -> LaunchSpec {
        let id: SandboxId = id.parse().expect("id");
        self.inner().sandboxes.get(&id).expect("it is in the world").spec.clone()
    }

    pub(crate) fn destroyed(&self) -> usize {
        self.inner().destroyed.len()
    }

    pub(crate) fn vitals(&self, id: &str, change: impl FnOnce(&mut Vitals)) {
        let id: SandboxId = id.parse().expect("id");
        self.inner().sandboxes.get(&id).expect("it is in the world").vitals.send_modify(change);
    }

    pub(crate) fn die(&self, id: &str, death: Death) {
        self.vitals(id, |v| v.death = Some(death));
    }
}

/// The backend's side of the world, for one server.
pub(crate) struct Fake(pub(crate) Arc<World>);

/// One operation on a sandbox at a time: the contract that lifecycle must keep.
struct Alone<'a>(&'a World, SandboxId);

impl<'a> Alone<'a> {
    fn with(world: &'a World, id: &SandboxId) -> Self {
        let mut inner = world.inner();
        if !inner.busy.insert(id.clone()) {
            inner.collisions.push(id.clone());
        }
        drop(inner);
        Self(world, id.clone())
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.inner().busy.remove(&self.1);
    }
}

impl Fake {
    fn live(&self, id: &SandboxId, vitals: watch::Receiver<Vitals>) -> Live {
        let guest = self.0.inner().guest.clone();
        let socket = guest.unwrap_or_else(|| format!("/nonexistent/{id}.sock").into());
        let link = GuestLink::Unix { control: socket.clone(), traffic: socket, address: Ipv4Addr::LOCALHOST };
        Live { id: id.clone(), link, vitals }
    }

    fn failed(id: &SandboxId) -> Error {
        Error::Launch { id: id.clone(), message: "on purpose".into() }
    }

    async fn before(fault: Option<&Fault>, id: &SandboxId) -> Result<(), Error> {
        match fault {
            None | Some(Fault::HangAfter) => Ok(()),
            Some(Fault::Fail) => Err(Self::failed(id)),
            Some(Fault::Full) => Err(Error::Full { limit: 7 }),
            Some(Fault::NoBuild) => Err(Error::NoBuild(BuildId::from_random([0; 16]))),
            Some(Fault::DiskFull) => {
                Err(Error::Io { action: "make a disk", source: std::io::Error::from_raw_os_error(28) })
            }
            Some(Fault::HangBefore) => std::future::pending().await,
            Some(Fault::Panic) => panic!("on purpose"),
            Some(Fault::Slow(time)) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        }
    }

    async fn after(fault: Option<&Fault>) {
        if fault == Some(&Fault::HangAfter) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Backend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { disk_quota: true, pause_memory: true, memory_outlives_reboot: false, copies: true }
    }

    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error> {
        let id = spec.id.clone();
        let _alone = Alone::with(&self.0, &id);
        let fault = self.0.inner().launch.clone();
        Self::before(fault.as_ref(), &id).await?;
        let (vitals, seen) = watch::channel(Vitals::default());
        {
            let mut inner = self.0.inner();
            if spec.root.is_kept() && !inner.disks.contains_key(&id) {
                return Err(Self::failed(&id));
            }
            inner.disks.insert(id.clone(), spec.resources);
            inner.sandboxes.insert(id.clone(), FakeSandbox { spec, vitals });
        }
        Self::after(fault.as_ref()).await;
        Ok(self.live(&id, seen))
    }

    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error> {
        let _alone = Alone::with(&self.0, id);
        let fault = self.0.inner().adopt.pop();
        Self::before(fault.as_ref(), id).await?;
        let vitals = self.0.inner().sandboxes.get(id).map(|s| s.vitals.subscribe());
        Ok(vitals.map(|vitals| self.live(id, vitals)))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let _alone = Alone::with(&self.0, id);
        let fault = self.0.inner().destroy.pop();
        Self::before(fault.as_ref(), id).await?;
        self.0.remove(id);
        Self::after(fault.as_ref()).await;
        Ok(())
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        let _alone = Alone::with(&self.0, id);
        let mut inner = self.0.inner();
        if !inner.sandboxes.contains_key(id) {
            return Err(Self::failed(id));
        }
        inner.frozen.insert(id.clone());
        Ok(())
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        let _alone = Alone::with(&self.0, id);
        self.0.inner().frozen.remove(id);
        Ok(())
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), Error> {
        let _alone = Alone::with(&self.0, id);
        let mut inner = self.0.inner();
        inner.sandboxes.remove(id);
        inner.frozen.remove(id);
        Ok(())
    }

    async fn reclaim(&self, _: &SandboxId) {}

    async fn open_disk(&self, _: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        let dir = tempfile::tempdir().expect("directory").keep();
        std::fs::create_dir(dir.join("upper")).expect("directory");
        Ok(Some(std::fs::File::open(dir).expect("open").into()))
    }

    async fn fresh_disk(&self, id: &SandboxId, resources: Resources) -> Result<OwnedFd, Error> {
        self.0.inner().disks.insert(id.clone(), resources);
        let dir = tempfile::tempdir().expect("directory").keep();
        Ok(std::fs::File::open(dir).expect("open").into())
    }

    async fn delete_disk(&self, id: &SandboxId) -> Result<(), Error> {
        self.0.inner().disks.remove(id);
        Ok(())
    }

    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        let _alone = Alone::with(&self.0, id);
        self.0.inner().disks.insert(id.clone(), resources);
        Ok(())
    }

    async fn take_snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        let _alone = Alone::with(&self.0, id);
        let mut inner = self.0.inner();
        let still = inner.frozen.contains(id) || !inner.sandboxes.contains_key(id);
        assert!(still, "the disk of a sandbox that goes on was copied");
        inner.snapshots.insert(snapshot.clone());
        Ok(())
    }

    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        self.0.inner().snapshots.remove(snapshot);
        Ok(())
    }

    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        Ok(self.0.inner().snapshots.iter().cloned().collect())
    }

    async fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        let inner = self.0.inner();
        Ok(inner.sandboxes.keys().chain(inner.disks.keys()).cloned().collect())
    }

    async fn observe(&self, id: &SandboxId) -> Result<Observed, Error> {
        let inner = self.0.inner();
        Ok(Observed {
            processes: inner.sandboxes.contains_key(id),
            frozen: inner.frozen.contains(id),
            disk: inner.disks.contains_key(id),
        })
    }

    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error> {
        let _alone = Alone::with(&self.0, id);
        let fault = self.0.inner().on_stats.get(id).cloned();
        Self::before(fault.as_ref(), id).await?;
        Ok(self.0.inner().stats)
    }

    async fn has_build(&self, _: &BuildId) -> bool {
        true
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        None
    }
}
