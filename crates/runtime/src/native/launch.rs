//! Bringing a sandbox up, in the order that `native.rs` tells of.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use cabana_jail::launcher::Launched;
use cabana_jail::plan::{Descriptors, GuestFds, MountSpec, Plan, RootSpec, UidRange};
use cabana_jail::process::ProcessName;
use cabana_net::Slot;
use cabana_storage::Disk;
use cabana_types::error::chain;
use cabana_types::{BuildId, SandboxId};
use rustix::fs::{MemfdFlags, SealFlags};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use super::record::{Record, Sockets};
use super::{Native, at, bytes, io, jail, launch, network_error};
use crate::Error;
use crate::backend::{DiskSource, LaunchSpec, Live, Root};

/// What a disk may have beyond its limit while it is being mounted.
const MOUNT_SLACK: u64 = 16 << 20;
/// How long the guest may take from its start to serving.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

impl Native {
    /// Makes everything that a sandbox consists of. What there is of it after an error is the caller's to remove.
    pub(super) async fn bring_up(&self, spec: &LaunchSpec) -> Result<Live, Error> {
        let template = match &spec.root {
            Root::Copy(_) => None,
            Root::Build { build, .. } => {
                Some(self.pool.open_build(build)?.ok_or_else(|| Error::NoBuild(build.clone()))?)
            }
        };
        let slot = self.network.acquire(spec.internet).await.map_err(network_error)?;
        let record = Record { slot: slot.index, process: None, sockets: Sockets::Split };
        if let Err(error) = self.records.write(&spec.id, record) {
            // Without a record nobody would give the slot back.
            let _ = self.network.release(slot.index).await;
            return Err(error);
        }
        let disk = self.disk(spec).await?;
        let cgroups = self.cgroups.create(&spec.id, spec.resources).map_err(jail)?;
        let [control, traffic] = [self.records.control_socket(&spec.id), self.records.traffic_socket(&spec.id)];
        let control = UnixListener::bind(&control).map_err(at("listen on", &control))?;
        let traffic = UnixListener::bind(&traffic).map_err(at("listen on", &traffic))?;
        let config =
            sealed(&serde_json::to_vec(&spec.guest).map_err(|e| io("encode the guest's configuration", e.into()))?)?;
        let (ready, ready_guest) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| io("make the readiness pipe", e.into()))?;

        let mut fds = Descriptors::default();
        let mut add = |fd| fds.add(fd).map_err(jail);
        let disk_fd = add(disk.dir.as_fd())?;
        let root = match &template {
            Some(template) => RootSpec::Overlay { template: add(template.as_fd())?, disk: disk_fd },
            None => RootSpec::Whole { disk: disk_fd },
        };
        let mut mounts = Vec::with_capacity(spec.mounts.len());
        for mount in &spec.mounts {
            let source = add(mount.source.as_fd())?;
            mounts.push(MountSpec { source, target: mount.target.clone(), read_only: mount.read_only });
        }
        let plan = Plan {
            id: spec.id.clone(),
            uids: self.uids(slot.index),
            cgroups,
            staging: self.instance.staging(),
            network: add(slot.netns.as_fd())?,
            root,
            mounts,
            guest: GuestFds {
                control: add(control.as_fd())?,
                traffic: add(traffic.as_fd())?,
                config: add(config.as_fd())?,
                ready: add(ready_guest.as_fd())?,
            },
            resolv_conf: format!("nameserver {}\noptions edns0\n", slot.dns),
            hosts: hosts(&spec.id, &slot),
            boot_id: BuildId::from_random(rand::random()).to_string(),
            shm_bytes: u64::from(spec.resources.memory_mb) << 19,
        };
        let (answer, answered) = oneshot::channel();
        self.launcher.launch(&plan, &fds, Box::new(move |result| drop(answer.send(result))));
        drop(fds);
        drop((ready_guest, control, traffic, config));
        let launched = answered.await.map_err(|_| launch(&spec.id, "the launcher has died"))?;
        let Launched { pid, pidfd } = launched.map_err(|e| launch(&spec.id, &chain(&e)))?;
        let process = ProcessName::of(pid).ok_or_else(|| launch(&spec.id, "the guest died at its start"))?;
        self.records.write(&spec.id, Record { process: Some(process), ..record })?;
        await_ready(&spec.id, ready).await?;
        if spec.root.is_kept() {
            self.pool.resize_disk(&spec.id, bytes(spec.resources.disk_mb)).await?;
        }
        self.register(&spec.id, pidfd, &slot, record.sockets)
    }

    async fn disk(&self, spec: &LaunchSpec) -> Result<Disk, Error> {
        let (id, limit) = (&spec.id, bytes(spec.resources.disk_mb));
        let disk = match &spec.root {
            Root::Copy(tree) => return Ok(self.pool.disk_from_tree(tree, id, limit).await?),
            Root::Build { disk, .. } => disk,
        };
        match disk {
            DiskSource::New => Ok(self.pool.create_disk(id, limit).await?),
            DiskSource::Snapshot(snapshot) => Ok(self.pool.disk_from_snapshot(snapshot, id, limit).await?),
            DiskSource::Kept => {
                let disk = self.pool.open_disk(id).await?.ok_or_else(|| launch(id, "its disk is missing"))?;
                // Mounting writes a little, and a disk that is full must be usable to be emptied.
                self.pool.resize_disk(id, limit + MOUNT_SLACK).await?;
                Ok(disk)
            }
        }
    }

    fn uids(&self, slot: u32) -> UidRange {
        // The second number of the block's address tells the sixteen instances apart.
        let block = u32::from(self.instance.block.octets()[1] & 0x0f);
        UidRange { base: 0x8000_0000 + (block * 2048 + slot) * UidRange::LEN }
    }
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
