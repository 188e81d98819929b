//! Creating everything around the process of a sandbox, in the order that `host.rs` describes.
//!
//! The calls here block the async worker for some microseconds each (files on tmpfs, `mkdir` and small writes in the cgroup tree, binding a
//! socket). A hop to a blocking thread for each would cost more than it saves; disks, whose calls may take long, do use one.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use cabana_jail::plan::{CgroupDir, UidRange};
use cabana_jail::process::ProcessName;
use cabana_net::Slot;
use cabana_storage::{Disk, DiskOrigin};
use cabana_types::SandboxId;
use cabana_types::error::chain;

use super::record::{Record, Sockets};
use super::{Host, at, launch_error, network_error};
use crate::Error;
use crate::live::Live;
use crate::spec::{DiskSource, LaunchSpec, Root};

/// How far a disk may exceed its limit while it is being mounted.
const MOUNT_SLACK: u64 = 16 << 20;

/// Everything around the process of a sandbox.
pub(crate) struct Parts {
    /// Its network namespace and addresses.
    pub(crate) slot: Slot,
    /// The root directory of its build; `None` where the disk is a complete root filesystem.
    pub(crate) template: Option<Arc<OwnedFd>>,
    /// Its disk.
    pub(crate) disk: Disk,
    /// Its ids on the host.
    pub(crate) uids: UidRange,
    /// Its cgroups.
    pub(crate) cgroups: Vec<CgroupDir>,
    /// Directory with what it is told of its machine.
    pub(crate) facts: OwnedFd,
    /// Mount points for setup.
    pub(crate) staging: PathBuf,
    /// Listening control socket of its guest.
    pub(crate) control: UnixListener,
    /// Listening traffic socket of its guest.
    pub(crate) traffic: UnixListener,
    record: Record,
}

impl Host {
    /// Creates the parts of a sandbox. After an error, and if the process cannot be started, [`Host::abandon`] removes them.
    pub(crate) async fn prepare(&self, spec: &LaunchSpec) -> Result<Parts, Error> {
        if spec.root.is_kept() {
            Error::collected(&spec.id, self.end(&spec.id).await)?;
        }
        let template = match spec.root.build() {
            None => None,
            Some(build) => Some(self.disks.build(build)?.ok_or_else(|| Error::NoBuild(build.clone()))?),
        };
        let slot = self.network.acquire(&spec.id, Arc::clone(&spec.egress)).await.map_err(network_error)?;
        let record = Record { slot: slot.index, process: None, sockets: Sockets::Split };
        if let Err(error) = self.records.write(&spec.id, record) {
            // Without a record nothing else would release the slot.
            let _ = self.network.release(slot.index).await;
            return Err(error);
        }
        let disk = self.disk(spec).await?;
        let cgroups = self.cgroups.create(&spec.id, spec.resources).map_err(Error::Jail)?;
        let listen = |path: PathBuf| UnixListener::bind(&path).map_err(at("listen on", &path));
        Ok(Parts {
            uids: self.uids(slot.index),
            slot,
            template,
            disk,
            cgroups,
            facts: self.facts.create(&spec.id, spec.resources.cpu_count, u64::from(spec.resources.memory_mb) << 20)?,
            staging: self.instance.staging(),
            control: listen(self.records.control_socket(&spec.id))?,
            traffic: listen(self.records.traffic_socket(&spec.id))?,
            record,
        })
    }

    /// Records the first process of a sandbox, so that a restarted server finds it.
    pub(crate) fn note_process(&self, id: &SandboxId, parts: &mut Parts, pid: i32) -> Result<(), Error> {
        let process = ProcessName::of(pid).ok_or_else(|| launch_error(id, "the guest died at its start"))?;
        parts.record.process = Some(process);
        self.records.write(id, parts.record)
    }

    /// The guest serves: completes the launch.
    pub(crate) async fn complete(&self, spec: &LaunchSpec, parts: Parts, pidfd: OwnedFd) -> Result<Live, Error> {
        if spec.root.is_kept() {
            self.disks.resize(&spec.id, spec.disk_bytes()).await?;
        }
        self.network.ready(parts.slot.index).await.map_err(network_error)?;
        let live = self.register(&spec.id, pidfd, parts.record)?;
        live.ok_or_else(|| launch_error(&spec.id, "its network slot is gone"))
    }

    /// Removes what a failed launch left; a disk that existed before stays.
    pub(crate) async fn abandon(&self, spec: &LaunchSpec) {
        let left = match spec.root.is_kept() {
            true => Error::collected(&spec.id, self.end(&spec.id).await),
            false => self.destroy(&spec.id).await,
        };
        if let Err(left) = left {
            tracing::warn!(sandbox = %spec.id, error = %chain(&left), "could not clean up a failed launch");
        }
    }

    async fn disk(&self, spec: &LaunchSpec) -> Result<Disk, Error> {
        let (id, limit) = (&spec.id, spec.disk_bytes());
        let origin = match &spec.root {
            Root::Copy(tree) => DiskOrigin::Tree(tree),
            Root::Build { disk: DiskSource::New, .. } => DiskOrigin::Empty,
            Root::Build { disk: DiskSource::Snapshot(snapshot), .. } => DiskOrigin::Snapshot(snapshot),
            Root::Build { disk: DiskSource::Kept, .. } => {
                let disk = self.disks.open(id).await?.ok_or_else(|| launch_error(id, "its disk is missing"))?;
                // Mounting writes a little, and a sandbox with a full disk must start to be cleaned up.
                self.disks.resize(id, limit + MOUNT_SLACK).await?;
                return Ok(disk);
            }
        };
        Ok(self.disks.create(id, origin, limit).await?)
    }

    fn uids(&self, slot: u32) -> UidRange {
        // The second octet of the block's address tells the sixteen instances apart.
        let block = u32::from(self.instance.block.octets()[1] & 0x0f);
        UidRange { base: 0x8000_0000 + (block * 2048 + slot) * UidRange::LEN }
    }
}
