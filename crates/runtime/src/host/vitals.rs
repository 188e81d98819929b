//! Watches a running sandbox: its first process by pidfd, its memory by the events of its cgroup.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_jail::cgroup::Cgroups;
use cabana_types::SandboxId;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::Error;
use crate::live::{Death, Vitals};

/// A death this soon after an OOM kill is attributed to it.
const OOM_MEMORY: Duration = Duration::from_secs(2);

/// Backoff for reading the counter of OOM kills after an event.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_secs(3);

/// A watched sandbox.
pub(super) struct Watched {
    pidfd: Arc<OwnedFd>,
    vitals: watch::Receiver<Vitals>,
}

impl Watched {
    /// Starts watching; ends by itself when the sandbox does.
    pub(super) fn start(id: SandboxId, pidfd: OwnedFd, cgroups: Cgroups) -> Result<Self, Error> {
        let pidfd = Arc::new(pidfd);
        let process = watchable(Arc::clone(&pidfd), Interest::READABLE)
            .map_err(|source| Error::Io { action: "watch a process", source })?;
        // Version 1 counts events in a readable descriptor, version 2 raises an exceptional condition on the file.
        let interest = if cgroups.version() == 1 { Interest::READABLE } else { Interest::PRIORITY };
        let memory = cgroups.watch_oom(&id).map_err(Error::Jail)?;
        let memory = watchable(memory, interest)
            .map_err(|source| Error::Io { action: "watch the memory of a sandbox", source })?;
        let before = cgroups.oom_kills(&id);
        let (sender, vitals) = watch::channel(Vitals { oom_kills: before, death: None });
        tokio::spawn(follow(id, process, memory, interest, cgroups, sender));
        Ok(Self { pidfd, vitals })
    }

    /// Updates of its vitals.
    pub(super) fn vitals(&self) -> watch::Receiver<Vitals> {
        self.vitals.clone()
    }

    /// Kills its first process, and so all of them.
    pub(super) fn kill(&self) -> Result<(), Error> {
        cabana_jail::process::kill(&*self.pidfd).map_err(|e| Error::Io { action: "kill a sandbox", source: e.into() })
    }

    /// Waits until its first process has exited.
    pub(super) async fn gone(mut self) -> Result<(), Error> {
        // The watcher ends only after it has reported the death.
        let _ = self.vitals.wait_for(|v| v.death.is_some()).await;
        Ok(())
    }
}

async fn follow(
    id: SandboxId,
    process: AsyncFd<Arc<OwnedFd>>,
    memory: AsyncFd<OwnedFd>,
    interest: Interest,
    cgroups: Cgroups,
    sender: watch::Sender<Vitals>,
) {
    let mut last_oom: Option<Instant> = None;
    let mut note_oom = |sender: &watch::Sender<Vitals>| {
        let kills = cgroups.oom_kills(&id);
        let more = sender.send_if_modified(|v| {
            let more = kills > v.oom_kills;
            v.oom_kills = kills.max(v.oom_kills);
            more
        });
        if more {
            last_oom = Some(Instant::now());
        }
        (more, last_oom)
    };
    // Version 1 reports the event before it picks and kills a process: the counter follows later.
    let mut look_again: Option<Duration> = None;
    loop {
        tokio::select! {
            _ = process.readable() => {
                let oom = note_oom(&sender).1.is_some_and(|at| at.elapsed() < OOM_MEMORY);
                let death = if oom { Death::OutOfMemory } else { Death::Died };
                sender.send_modify(|v| v.death = Some(death));
                return;
            }
            Ok(mut signal) = memory.ready(interest) => {
                signal.clear_ready();
                if interest == Interest::READABLE {
                    let _ = rustix::io::read(memory.get_ref(), &mut [0; 8]);
                }
                note_oom(&sender);
                look_again = Some(FIRST_LOOK);
            }
            () = tokio::time::sleep(look_again.unwrap_or_default()), if look_again.is_some() => {
                let (more, _) = note_oom(&sender);
                look_again = look_again.map(|pause| pause * 2).filter(|pause| !more && *pause <= LAST_LOOK);
            }
        }
    }
}

/// Waits until an unwatched process has exited.
pub(super) async fn exited(pidfd: OwnedFd) -> Result<(), Error> {
    let failed = |source| Error::Io { action: "wait for a process", source };
    let process = watchable(pidfd, Interest::READABLE).map_err(failed)?;
    process.readable().await.map(drop).map_err(failed)
}

/// Registers an owned descriptor. The function is deprecated because a caller could close the descriptor while it is
/// registered; an owner that is moved in, or reference-counted, cannot.
#[allow(deprecated)]
fn watchable<T: AsRawFd + Owner>(fd: T, interest: Interest) -> std::io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}

/// What keeps a descriptor open.
trait Owner {}
impl Owner for OwnedFd {}
impl Owner for Arc<OwnedFd> {}
