//! Disks of a fake world: maps of files. What is opened is an empty temporary directory.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use cabana_storage::{Disk, DiskFacts, DiskOrigin, Disks, Error};
use cabana_types::{BuildId, SandboxId, TemplateId};

use super::world::{Exclusive, FakeDisk, Inner, World};

/// The disks of a world.
#[derive(Debug, Clone)]
pub struct FakeDisks(pub Arc<World>);

/// An empty directory like that of a disk; removed with the world.
fn directory(inner: &mut Inner) -> Result<OwnedFd, Error> {
    let path = std::env::temp_dir().join(format!("cabana-fake-{}-{:x}", std::process::id(), rand::random::<u64>()));
    let open = || {
        std::fs::create_dir(&path)?;
        std::fs::create_dir(path.join("upper"))?;
        std::fs::File::open(&path).map(OwnedFd::from)
    };
    inner.directories.push(path.clone());
    open().map_err(|source| Error::Path { action: "create", path: path.clone(), source })
}

#[async_trait]
impl Disks for FakeDisks {
    fn facts(&self) -> DiskFacts {
        DiskFacts { quota: true, snapshots: true }
    }

    async fn create(&self, id: &SandboxId, origin: DiskOrigin<'_>, limit: u64) -> Result<Disk, Error> {
        let mut inner = self.0.inner();
        let files = match origin {
            DiskOrigin::Snapshot(snapshot) => inner.snapshots.get(snapshot).cloned().unwrap_or_default(),
            DiskOrigin::Empty | DiskOrigin::Tree(_) => Default::default(),
        };
        inner.disks.insert(id.clone(), FakeDisk { limit, files });
        Ok(Disk { dir: directory(&mut inner)? })
    }

    async fn open(&self, id: &SandboxId) -> Result<Option<Disk>, Error> {
        Ok(self.read(id).await?.map(|dir| Disk { dir }))
    }

    async fn read(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        let mut inner = self.0.inner();
        inner.disks.contains_key(id).then(|| directory(&mut inner)).transpose()
    }

    async fn resize(&self, id: &SandboxId, limit: u64) -> Result<(), Error> {
        if let Some(disk) = self.0.inner().disks.get_mut(id) {
            disk.limit = limit;
        }
        Ok(())
    }

    async fn usage(&self, id: &SandboxId) -> Result<u64, Error> {
        Ok(self.0.disk(id, |disk| disk.used()).unwrap_or_default())
    }

    async fn sync(&self, _: &SandboxId) -> Result<(), Error> {
        Ok(())
    }

    async fn delete(&self, id: &SandboxId) -> Result<(), Error> {
        self.0.inner().disks.remove(id);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        Ok(self.0.inner().disks.keys().cloned().collect())
    }

    async fn snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        let _exclusive = Exclusive::new(&self.0, id);
        let mut inner = self.0.inner();
        let still = inner.frozen.contains(id) || !inner.sandboxes.contains_key(id);
        assert!(still, "snapshot of a disk that is in use");
        let files = inner.disks.get(id).map(|disk| disk.files.clone()).unwrap_or_default();
        inner.snapshots.insert(snapshot.clone(), files);
        Ok(())
    }

    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        self.0.inner().snapshots.remove(snapshot);
        Ok(())
    }

    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        Ok(self.0.inner().snapshots.keys().cloned().collect())
    }

    fn build(&self, build: &BuildId) -> Result<Option<Arc<OwnedFd>>, Error> {
        let mut inner = self.0.inner();
        (!inner.missing_builds.contains(build)).then(|| directory(&mut inner).map(Arc::new)).transpose()
    }
}
