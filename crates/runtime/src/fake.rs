//! A backend in memory, for tests: an [`Isolation`] and the [`Disks`] below it. Its [`World`] outlives servers, as real
//! sandboxes do; it fails or hangs where a test asks for it, and records violations of the contract (two operations on
//! one sandbox at a time, a snapshot of a disk in use).
//!
//! [`Disks`]: cabana_storage::Disks

mod disks;
mod guest;
mod world;

use std::net::Ipv4Addr;
use std::sync::Arc;

use async_trait::async_trait;
use cabana_guest_link::GuestLink;
use cabana_types::egress::Denials;
use cabana_types::{BuildId, EgressPolicy, Resources, SandboxId};
use tokio::sync::watch;

use crate::isolation::{Isolation, IsolationFacts, OomScope};
use crate::live::{Live, Observed, Stats, Vitals};
use crate::spec::{DiskSource, LaunchSpec, Root};
use crate::{Error, Isolations};

pub use self::disks::FakeDisks;
pub use self::world::{Fault, World};

use self::world::{Exclusive, FakeSandbox};

/// The backend's view of a world, for one server.
#[derive(Debug, Clone)]
pub struct Fake(pub Arc<World>);

impl Fake {
    /// The backend and its disks, as a server takes them.
    pub fn isolations(world: &Arc<World>) -> Isolations {
        Isolations::new(Arc::new(Self(Arc::clone(world))), Arc::new(FakeDisks(Arc::clone(world))))
    }

    fn live(&self, id: &SandboxId, vitals: watch::Receiver<Vitals>) -> Live {
        let inner = self.0.inner();
        let own = inner.guests.get(id).map(|guest| guest.link());
        let link = own.unwrap_or_else(|| {
            let socket = inner.guest.clone().unwrap_or_else(|| format!("/nonexistent/{id}.sock").into());
            GuestLink::Unix { control: socket.clone(), traffic: socket, address: Ipv4Addr::LOCALHOST }
        });
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
            #[allow(clippy::panic)]
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
impl Isolation for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn facts(&self) -> IsolationFacts {
        IsolationFacts { ram_pause: true, checkpoint: None, mounts: false, oom: OomScope::Process }
    }

    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error> {
        let id = spec.id.clone();
        let _exclusive = Exclusive::new(&self.0, &id);
        if !spec.mounts.is_empty() {
            return Err(Error::NotOffered { isolation: self.name(), what: "mounts" });
        }
        let fault = self.0.inner().launch.clone();
        Self::before(fault.as_ref(), &id).await?;
        let (vitals, seen) = watch::channel(Vitals::default());
        {
            let mut inner = self.0.inner();
            if let Some(build) = spec.root.build().filter(|build| inner.missing_builds.contains(*build)) {
                return Err(Error::NoBuild(build.clone()));
            }
            let files = match &spec.root {
                Root::Build { disk: DiskSource::Kept, .. } => match inner.disks.get(&id) {
                    Some(disk) => disk.files.clone(),
                    None => return Err(Self::failed(&id)),
                },
                Root::Build { disk: DiskSource::Snapshot(snapshot), .. } => {
                    inner.snapshots.get(snapshot).cloned().unwrap_or_default()
                }
                Root::Build { disk: DiskSource::New, .. } | Root::Copy(_) => Default::default(),
            };
            inner.disks.insert(id.clone(), world::FakeDisk { limit: spec.disk_bytes(), files });
            inner.frozen.remove(&id);
            inner.dead.remove(&id);
            inner.sandboxes.insert(id.clone(), FakeSandbox { spec, vitals });
        }
        self.0.serve_guest(&id)?;
        Self::after(fault.as_ref()).await;
        Ok(self.live(&id, seen))
    }

    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let fault = self.0.inner().adopt.pop();
        Self::before(fault.as_ref(), id).await?;
        let vitals = {
            let inner = self.0.inner();
            inner.sandboxes.get(id).filter(|_| !inner.dead.contains(id)).map(|s| s.vitals.subscribe())
        };
        Ok(vitals.map(|vitals| self.live(id, vitals)))
    }

    async fn observe(&self, id: &SandboxId) -> Result<Observed, Error> {
        let inner = self.0.inner();
        Ok(Observed {
            processes: inner.sandboxes.contains_key(id) && !inner.dead.contains(id),
            frozen: inner.frozen.contains(id),
            disk: inner.disks.contains_key(id),
        })
    }

    async fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        Ok(self.0.inner().sandboxes.keys().cloned().collect())
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let mut inner = self.0.inner();
        if !inner.sandboxes.contains_key(id) {
            return Err(Self::failed(id));
        }
        inner.frozen.insert(id.clone());
        inner.freeze_guest(id, true);
        Ok(())
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let mut inner = self.0.inner();
        inner.frozen.remove(id);
        inner.freeze_guest(id, false);
        Ok(())
    }

    async fn reclaim(&self, _: &SandboxId) {}

    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let mut inner = self.0.inner();
        if let Some(disk) = inner.disks.get_mut(id) {
            disk.limit = u64::from(resources.disk_mb) << 20;
        }
        if let Some(sandbox) = inner.sandboxes.get_mut(id) {
            sandbox.spec.resources = resources;
        }
        Ok(())
    }

    async fn set_egress(&self, id: &SandboxId, policy: Arc<EgressPolicy>) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let fault = self.0.inner().on_egress.pop();
        Self::before(fault.as_ref(), id).await?;
        if let Some(sandbox) = self.0.inner().sandboxes.get_mut(id) {
            sandbox.spec.egress = policy;
        }
        Ok(())
    }

    async fn denials(&self, id: &SandboxId) -> Result<Denials, Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        Ok(self.0.inner().denials.get(id).cloned().unwrap_or_default())
    }

    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let fault = self.0.inner().on_stats.get(id).cloned();
        Self::before(fault.as_ref(), id).await?;
        Ok(self.0.inner().stats)
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        self.0.inner().end(id);
        Ok(())
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let fault = self.0.inner().destroy.pop();
        Self::before(fault.as_ref(), id).await?;
        {
            let mut inner = self.0.inner();
            inner.end(id);
            inner.disks.remove(id);
            inner.destroyed.push(id.clone());
        }
        Self::after(fault.as_ref()).await;
        Ok(())
    }
}
