//! The isolation backends of one server and the disks that they share. A sandbox's row names its backend;
//! [`Isolations::assign`] tells it here, and all operations on the sandbox then go to that backend.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_storage::{Disks, Pool};
use cabana_types::egress::Denials;
use cabana_types::{BuildId, EgressPolicy, Resources, SandboxId, TemplateId};

use crate::isolation::{Isolation, IsolationFacts};
use crate::live::{Live, Observed, Stats};
use crate::spec::LaunchSpec;
use crate::{Error, OomScope};

/// All isolation backends of a server.
pub struct Isolations {
    default: String,
    by_name: BTreeMap<&'static str, Arc<dyn Isolation>>,
    disks: Arc<dyn Disks>,
    pool: Option<Arc<Pool>>,
    assigned: Mutex<HashMap<SandboxId, String>>,
}

impl Isolations {
    /// One backend, which is the default.
    pub fn new(isolation: Arc<dyn Isolation>, disks: Arc<dyn Disks>) -> Self {
        let default = isolation.name();
        let by_name = BTreeMap::from([(default, isolation)]);
        Self { default: default.to_owned(), by_name, disks, pool: None, assigned: Mutex::default() }
    }

    /// With a further backend.
    pub fn with(mut self, isolation: Arc<dyn Isolation>) -> Self {
        self.by_name.insert(isolation.name(), isolation);
        self
    }

    /// With the pool in which templates are built.
    pub fn with_pool(mut self, pool: Arc<Pool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// With another default.
    pub fn with_default(mut self, name: &str) -> Result<Self, Error> {
        self.get(name)?;
        self.default = name.to_owned();
        Ok(self)
    }

    /// The backend of a name.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Isolation>, Error> {
        self.by_name.get(name).ok_or_else(|| Error::UnknownIsolation { name: name.to_owned(), known: self.names() })
    }

    /// The name of the backend for sandboxes that ask for none.
    pub fn default_name(&self) -> &str {
        &self.default
    }

    /// All names, in order.
    pub fn names(&self) -> String {
        self.by_name.keys().copied().collect::<Vec<_>>().join(", ")
    }

    /// What each backend offers, in order of names.
    pub fn facts(&self) -> Vec<(&'static str, IsolationFacts)> {
        self.by_name.values().map(|isolation| (isolation.name(), isolation.facts())).collect()
    }

    /// What the default backend offers.
    pub fn default_facts(&self) -> IsolationFacts {
        let none = IsolationFacts { ram_pause: false, checkpoint: None, mounts: false, oom: OomScope::Sandbox };
        self.get(&self.default).map_or(none, |isolation| isolation.facts())
    }

    /// The disks of all backends.
    pub fn disks(&self) -> &Arc<dyn Disks> {
        &self.disks
    }

    /// The pool in which templates are built, if they can be.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        self.pool.as_ref()
    }

    /// Notes the backend of a sandbox, as its row names it. A name that this server does not have is an error only when the
    /// sandbox is used.
    pub fn assign(&self, id: &SandboxId, name: &str) {
        if name == self.default {
            self.assigned().remove(id);
        } else {
            self.assigned().insert(id.clone(), name.to_owned());
        }
    }

    /// The backend of a sandbox.
    pub fn of(&self, id: &SandboxId) -> Result<&Arc<dyn Isolation>, Error> {
        let name = self.assigned().get(id).cloned();
        self.get(name.as_deref().unwrap_or(&self.default))
    }

    /// Whether a sandbox can be paused with its memory in RAM.
    pub fn can_freeze(&self, id: &SandboxId) -> bool {
        self.of(id).is_ok_and(|isolation| isolation.facts().ram_pause)
    }

    /// Every sandbox of which something exists, disks included.
    pub async fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        let mut ids = self.disks.list().await?;
        for isolation in self.by_name.values() {
            ids.extend(isolation.inventory().await?);
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// Destroys a sandbox; where its backend is not known, by all of them.
    pub async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let assigned = self.assigned().get(id).cloned();
        if let Some(name) = assigned {
            self.get(&name)?.destroy(id).await?;
            self.assigned().remove(id);
            return Ok(());
        }
        let mut errors = Vec::new();
        for isolation in self.by_name.values() {
            if let Err(error) = isolation.destroy(id).await {
                errors.push(error);
            }
        }
        Error::collected(id, errors)
    }

    /// See [`Isolation::launch`].
    pub async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error> {
        self.of(&spec.id)?.launch(spec).await
    }

    /// See [`Isolation::adopt`].
    pub async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error> {
        self.of(id)?.adopt(id).await
    }

    /// See [`Isolation::observe`].
    pub async fn observe(&self, id: &SandboxId) -> Result<Observed, Error> {
        self.of(id)?.observe(id).await
    }

    /// See [`Isolation::freeze`].
    pub async fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        self.of(id)?.freeze(id).await
    }

    /// See [`Isolation::thaw`].
    pub async fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        self.of(id)?.thaw(id).await
    }

    /// See [`Isolation::reclaim`].
    pub async fn reclaim(&self, id: &SandboxId) {
        if let Ok(isolation) = self.of(id) {
            isolation.reclaim(id).await;
        }
    }

    /// See [`Isolation::resize`].
    pub async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        self.of(id)?.resize(id, resources).await
    }

    /// See [`Isolation::set_egress`].
    pub async fn set_egress(&self, id: &SandboxId, policy: Arc<EgressPolicy>) -> Result<(), Error> {
        self.of(id)?.set_egress(id, policy).await
    }

    /// See [`Isolation::denials`].
    pub async fn denials(&self, id: &SandboxId) -> Result<Denials, Error> {
        self.of(id)?.denials(id).await
    }

    /// See [`Isolation::stats`].
    pub async fn stats(&self, id: &SandboxId) -> Result<Stats, Error> {
        self.of(id)?.stats(id).await
    }

    /// See [`Isolation::stop`].
    pub async fn stop(&self, id: &SandboxId) -> Result<(), Error> {
        self.of(id)?.stop(id).await
    }

    /// See [`Disks::read`].
    pub async fn open_disk(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        Ok(self.disks.read(id).await?)
    }

    /// See [`Disks::replace`].
    pub async fn fresh_disk(&self, id: &SandboxId, resources: Resources) -> Result<OwnedFd, Error> {
        Ok(self.disks.replace(id, u64::from(resources.disk_mb) << 20).await?)
    }

    /// See [`Disks::delete`].
    pub async fn delete_disk(&self, id: &SandboxId) -> Result<(), Error> {
        Ok(self.disks.delete(id).await?)
    }

    /// See [`Disks::snapshot`].
    pub async fn take_snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        Ok(self.disks.snapshot(id, snapshot).await?)
    }

    /// See [`Disks::delete_snapshot`].
    pub async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        Ok(self.disks.delete_snapshot(snapshot).await?)
    }

    /// See [`Disks::snapshots`].
    pub async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        Ok(self.disks.snapshots().await?)
    }

    /// Whether the root filesystem of a build exists.
    pub async fn has_build(&self, build: &BuildId) -> bool {
        matches!(self.disks.build(build), Ok(Some(_)))
    }

    fn assigned(&self) -> MutexGuard<'_, HashMap<SandboxId, String>> {
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Isolations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names();
        f.debug_struct("Isolations").field("default", &self.default).field("names", &names).finish_non_exhaustive()
    }
}
