//! What exists in a fake world, and how tests change it. Methods panic where a test names a sandbox that is not there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_types::egress::Denials;
use cabana_types::{BuildId, SandboxId, TemplateId};
use tokio::sync::watch;

use super::guest::FakeGuest;
use crate::Error;
use crate::live::{Death, Stats, Vitals};
use crate::spec::LaunchSpec;

/// What an operation does instead of succeeding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Fails, having done nothing.
    Fail,
    /// Never returns, having done nothing.
    HangBefore,
    /// Does its work, and never returns.
    HangAfter,
    /// Reports that all slots are in use.
    Full,
    /// Reports that the root filesystem is missing.
    NoBuild,
    /// Reports that the disk is full.
    DiskFull,
    /// Panics.
    Panic,
    /// Takes some time.
    Slow(Duration),
}

/// Files by path.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug)]
pub(super) struct FakeSandbox {
    pub(super) spec: LaunchSpec,
    pub(super) vitals: watch::Sender<Vitals>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FakeDisk {
    pub(super) limit: u64,
    pub(super) files: Files,
}

impl FakeDisk {
    pub(super) fn used(&self) -> u64 {
        self.files.values().map(|content| content.len() as u64).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) sandboxes: HashMap<SandboxId, FakeSandbox>,
    pub(super) disks: HashMap<SandboxId, FakeDisk>,
    pub(super) frozen: HashSet<SandboxId>,
    /// Those that were killed from outside.
    pub(super) dead: HashSet<SandboxId>,
    pub(super) snapshots: HashMap<TemplateId, Files>,
    pub(super) missing_builds: HashSet<BuildId>,
    pub(super) launch: Option<Fault>,
    pub(super) adopt: Vec<Fault>,
    pub(super) destroy: Vec<Fault>,
    pub(super) destroyed: Vec<SandboxId>,
    pub(super) stats: Stats,
    pub(super) on_stats: HashMap<SandboxId, Fault>,
    pub(super) on_egress: Vec<Fault>,
    pub(super) denials: HashMap<SandboxId, Denials>,
    /// One socket for all guests.
    pub(super) guest: Option<PathBuf>,
    /// A guest per sandbox, where the world serves them.
    pub(super) guests: HashMap<SandboxId, FakeGuest>,
    guest_dir: Option<PathBuf>,
    /// Directories that stand in for disks.
    pub(super) directories: Vec<PathBuf>,
    busy: HashSet<SandboxId>,
    collisions: Vec<SandboxId>,
}

impl Inner {
    /// Ends the processes of a sandbox.
    pub(super) fn end(&mut self, id: &SandboxId) {
        self.sandboxes.remove(id);
        self.frozen.remove(id);
        self.dead.remove(id);
        self.guests.remove(id);
    }

    pub(super) fn freeze_guest(&mut self, id: &SandboxId, frozen: bool) {
        if let Some(guest) = self.guests.get(id) {
            guest.freeze(frozen);
        }
    }
}

/// Everything there is.
#[derive(Debug, Default)]
pub struct World {
    inner: Mutex<Inner>,
}

impl World {
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on launches do this.
    pub fn on_launch(&self, fault: Option<Fault>) {
        self.inner().launch = fault;
    }

    /// The next destroys do these, one each.
    pub fn on_destroy(&self, faults: &[Fault]) {
        self.inner().destroy = faults.to_vec();
    }

    /// The next adoptions do these, one each.
    pub fn on_adopt(&self, faults: &[Fault]) {
        self.inner().adopt = faults.to_vec();
    }

    /// From now on asking for the stats of a sandbox does this.
    pub fn on_stats(&self, id: &str, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.inner().on_stats.insert(parsed(id), fault),
            None => self.inner().on_stats.remove(&parsed(id)),
        };
    }

    /// The next changes of where a sandbox may connect do these, one each.
    pub fn on_egress(&self, faults: &[Fault]) {
        self.inner().on_egress = faults.to_vec();
    }

    /// What a sandbox was denied.
    pub fn set_denials(&self, id: &str, denials: Denials) {
        self.inner().denials.insert(parsed(id), denials);
    }

    /// What every sandbox uses.
    pub fn set_stats(&self, stats: Stats) {
        self.inner().stats = stats;
    }

    /// A build whose root filesystem is missing; all others exist.
    pub fn lose_build(&self, build: &BuildId) {
        self.inner().missing_builds.insert(build.clone());
    }

    /// From now on the guest of every sandbox serves control and traffic on this socket.
    pub fn set_guest(&self, socket: PathBuf) {
        self.inner().guest = Some(socket);
    }

    /// From now on every launched sandbox has a guest of its own, with sockets below this directory. It serves health
    /// on both, files on traffic, and an empty journal, stat and renames on control.
    pub fn serve_guests(&self, dir: PathBuf) {
        self.inner().guest_dir = Some(dir);
    }

    /// Removes all faults, and forgets calls of a server that is gone.
    pub fn heal(&self) {
        let mut inner = self.inner();
        inner.launch = None;
        inner.adopt.clear();
        inner.destroy.clear();
        inner.on_stats.clear();
        inner.on_egress.clear();
        inner.busy.clear();
    }

    /// The machine restarts: only disks are left.
    pub fn reboot(&self) {
        let mut inner = self.inner();
        inner.sandboxes.clear();
        inner.frozen.clear();
        inner.guests.clear();
    }

    /// Sandboxes that have a disk.
    pub fn disks(&self) -> HashSet<String> {
        self.inner().disks.keys().map(ToString::to_string).collect()
    }

    /// Whether the processes of a sandbox are frozen.
    pub fn is_frozen(&self, id: &str) -> bool {
        self.inner().frozen.contains(&parsed(id))
    }

    /// Number of snapshots.
    pub fn snapshot_count(&self) -> usize {
        self.inner().snapshots.len()
    }

    /// A sandbox that no server knows.
    pub fn add_stranger(&self, spec: LaunchSpec) {
        let (vitals, _) = watch::channel(Vitals::default());
        self.inner().sandboxes.insert(spec.id.clone(), FakeSandbox { spec, vitals });
    }

    /// Sandboxes on which two operations ran at the same time.
    pub fn collisions(&self) -> Vec<SandboxId> {
        self.inner().collisions.clone()
    }

    /// Ids of all sandboxes that have processes.
    pub fn ids(&self) -> HashSet<String> {
        self.inner().sandboxes.keys().map(ToString::to_string).collect()
    }

    /// What a sandbox was launched with.
    pub fn spec(&self, id: &str) -> LaunchSpec {
        self.inner().sandboxes.get(&parsed(id)).expect("it has processes").spec.clone()
    }

    /// Number of destroys that succeeded.
    pub fn destroyed(&self) -> usize {
        self.inner().destroyed.len()
    }

    /// Changes the vitals of a sandbox.
    pub fn vitals(&self, id: &str, change: impl FnOnce(&mut Vitals)) {
        self.inner().sandboxes.get(&parsed(id)).expect("it has processes").vitals.send_modify(change);
    }

    /// The first process of a sandbox is killed from outside: it cannot be adopted any more.
    pub fn kill(&self, id: &str) {
        self.inner().dead.insert(parsed(id));
        self.die(id, Death::Died);
    }

    /// The first process of a sandbox ends, as if just after it was looked at: it can still be adopted, and then reports its death.
    pub fn die(&self, id: &str, death: Death) {
        self.inner().guests.remove(&parsed(id));
        self.vitals(id, |v| v.death = Some(death));
    }

    /// The files of a sandbox that its guest has written.
    pub fn files(&self, id: &str) -> Files {
        self.disk(&parsed(id), |disk| disk.files.clone()).unwrap_or_default()
    }

    /// Accesses a sandbox's disk, if it has one.
    pub(super) fn disk<T>(&self, id: &SandboxId, access: impl FnOnce(&mut FakeDisk) -> T) -> Option<T> {
        self.inner().disks.get_mut(id).map(access)
    }

    pub(super) fn serve_guest(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let Some(dir) = self.inner().guest_dir.clone() else { return Ok(()) };
        // An old one would remove the sockets of the new one.
        self.inner().guests.remove(id);
        let guest = FakeGuest::start(Arc::downgrade(self), id, &dir).map_err(|source| Error::Path {
            action: "listen in",
            path: dir,
            source,
        })?;
        self.inner().guests.insert(id.clone(), guest);
        Ok(())
    }
}

fn parsed(id: &str) -> SandboxId {
    id.parse().expect("a sandbox id")
}

impl Drop for World {
    fn drop(&mut self) {
        for dir in &self.inner().directories {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

/// One operation on a sandbox at a time: the contract that callers must keep.
pub(super) struct Exclusive<'a>(&'a World, SandboxId);

impl<'a> Exclusive<'a> {
    pub(super) fn new(world: &'a World, id: &SandboxId) -> Self {
        let mut inner = world.inner();
        if !inner.busy.insert(id.clone()) {
            inner.collisions.push(id.clone());
        }
        drop(inner);
        Self(world, id.clone())
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.0.inner().busy.remove(&self.1);
    }
}
