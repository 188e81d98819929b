//! The native backend: namespaces, cgroups and a system call filter of the host's own kernel. Starts in milliseconds; protects
//! against misbehaving programs, not against bugs of that kernel (see SECURITY.md).

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cabana_jail::launcher::{Launched, Launcher};
use cabana_jail::plan::{Descriptors, GuestFds, MountSpec, Plan, RootSpec};
use cabana_net::Slot;
use cabana_types::egress::Denials;
use cabana_types::error::chain;
use cabana_types::{BuildId, EgressPolicy, Resources, SandboxId};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use crate::Error;
use crate::host::{Host, Parts, io, launch_error};
use crate::isolation::{Isolation, IsolationFacts, OomScope};
use crate::live::{Live, Observed, Stats};
use crate::spec::LaunchSpec;

/// How long the guest may take from its start to serving.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Programs of the native backend.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The program that has the subcommand `launcher`: `cabana` itself.
    pub program: PathBuf,
    /// The guest's executable; `None` if it is embedded in `program`.
    pub guest: Option<PathBuf>,
}

/// The backend.
pub struct Native {
    host: Arc<Host>,
    launcher: Launcher,
}

impl Native {
    /// Starts the launcher.
    pub fn open(config: &NativeConfig, host: Arc<Host>) -> Result<Self, Error> {
        Ok(Self { host, launcher: Launcher::start(&config.program, config.guest.as_deref()).map_err(Error::Jail)? })
    }

    async fn start(&self, spec: &LaunchSpec) -> Result<Live, Error> {
        let mut parts = self.host.prepare(spec).await?;
        let (ready, ready_guest) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|e| io("make the readiness pipe", e.into()))?;
        let answered = self.request(spec, &parts, ready_guest)?;
        let answer = answered.await.map_err(|_| launch_error(&spec.id, "the launcher has died"))?;
        let Launched { pid, pidfd } = answer.map_err(|e| launch_error(&spec.id, &chain(&e)))?;
        self.host.note_process(&spec.id, &mut parts, pid)?;
        await_ready(&spec.id, ready).await?;
        self.host.complete(spec, parts, pidfd).await
    }

    /// Sends the plan of a sandbox to the launcher.
    fn request(&self, spec: &LaunchSpec, parts: &Parts, ready: OwnedFd) -> Result<oneshot::Receiver<Answer>, Error> {
        let config = serde_json::to_vec(&spec.guest).map_err(|e| io("encode the guest's configuration", e.into()))?;
        let config = sealed(&config)?;
        let mut fds = Descriptors::default();
        let mut add = |fd| fds.add(fd).map_err(Error::Jail);
        let disk = add(parts.disk.dir.as_fd())?;
        let root = match &parts.template {
            Some(template) => RootSpec::Overlay { template: add(template.as_fd())?, disk },
            None => RootSpec::Whole { disk },
        };
        let mut mounts = Vec::with_capacity(spec.mounts.len());
        for mount in &spec.mounts {
            let source = add(mount.source.as_fd())?;
            mounts.push(MountSpec { source, target: mount.target.clone(), read_only: mount.read_only });
        }
        let plan = Plan {
            id: spec.id.clone(),
            uids: parts.uids,
            cgroups: parts.cgroups.clone(),
            staging: parts.staging.clone(),
            network: add(parts.slot.netns.as_fd())?,
            root,
            mounts,
            facts: Some(add(parts.facts.as_fd())?),
            cpu_count: spec.resources.cpu_count,
            guest: GuestFds {
                control: add(parts.control.as_fd())?,
                traffic: add(parts.traffic.as_fd())?,
                config: add(config.as_fd())?,
                ready: add(ready.as_fd())?,
            },
            resolv_conf: format!("nameserver {}\noptions edns0\n", parts.slot.dns),
            hosts: hosts(&spec.id, &parts.slot),
            boot_id: BuildId::from_random(rand::random()).to_string(),
            shm_bytes: u64::from(spec.resources.memory_mb) << 19,
            no_new_privileges: spec.no_new_privileges,
        };
        let (answer, answered) = oneshot::channel();
        self.launcher.launch(&plan, &fds, Box::new(move |result| drop(answer.send(result))));
        Ok(answered)
    }
}

type Answer = Result<Launched, cabana_jail::Error>;

#[async_trait]
impl Isolation for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn facts(&self) -> IsolationFacts {
        IsolationFacts { ram_pause: self.host.can_freeze(), checkpoint: None, mounts: true, oom: OomScope::Process }
    }

    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error> {
        match self.start(&spec).await {
            Ok(live) => Ok(live),
            Err(error) => {
                self.host.abandon(&spec).await;
                Err(error)
            }
        }
    }

    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error> {
        self.host.adopt(id).await
    }

    async fn observe(&self, id: &SandboxId) -> Result<Observed, Error> {
        self.host.observe(id).await
    }

    async fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        self.host.inventory()
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        self.host.freeze(id).await
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        self.host.thaw(id)
    }

    async fn reclaim(&self, id: &SandboxId) {
        self.host.reclaim(id).await;
    }

    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error> {
        self.host.resize(id, resources).await
    }

    async fn set_egress(&self, id: &SandboxId, policy: Arc<EgressPolicy>) -> Result<(), Error> {
        self.host.set_egress(id, policy).await
    }

    async fn denials(&self, id: &SandboxId) -> Result<Denials, Error> {
        self.host.denials(id)
    }

    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error> {
        self.host.stats(id).await
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), Error> {
        self.host.stop(id).await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        self.host.destroy(id).await
    }
}

fn hosts(id: &SandboxId, slot: &Slot) -> String {
    format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{} {id}\n", slot.address)
}

/// A memory file that can no longer be written.
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
        Ok(Err(_)) => Err(launch_error(id, "the guest died before it served")),
        Err(_) => Err(launch_error(id, "the guest did not serve in time")),
    }
}
