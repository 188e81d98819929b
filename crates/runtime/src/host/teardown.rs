//! Removing everything of a sandbox: every step is tried, also after an error, and can be repeated.

use std::path::Path;
use std::time::Duration;

use cabana_jail::cgroup::Cgroups;
use cabana_jail::process::ProcessName;
use cabana_types::SandboxId;

use super::instance::Instance;
use super::record::{Record, Records};
use super::{Host, io, network_error, vitals};
use crate::Error;

/// How long the processes of a killed sandbox may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Kills the processes of all sandboxes that an earlier server of a data directory left running, because they hold a pool
/// that cannot be used any more. Their disks stay. Returns the sandboxes.
pub async fn end_all(data_dir: &Path) -> Result<Vec<SandboxId>, Error> {
    let Some((name, run_dir)) = Instance::known(data_dir) else { return Ok(Vec::new()) };
    let cgroups = Cgroups::open(&format!("cabana-{name}")).map_err(Error::Jail)?;
    let mut ended = cgroups.list().map_err(Error::Jail)?;
    for (id, record) in Records::open(&run_dir)?.list()? {
        if let Some(pidfd) = record.process.and_then(ProcessName::open) {
            cabana_jail::process::kill(&pidfd).map_err(|e| io("kill a sandbox", e.into()))?;
            cgroups.kill(&id).map_err(Error::Jail)?;
            let _ = tokio::time::timeout(EXIT_TIMEOUT, vitals::exited(pidfd)).await;
        }
        ended.push(id);
    }
    ended.sort();
    ended.dedup();
    Ok(ended)
}

impl Host {
    /// See [`crate::Isolation::stop`].
    pub(crate) async fn stop(&self, id: &SandboxId) -> Result<(), Error> {
        let mut errors = self.end(id).await;
        if let Err(error) = self.disks.sync(id).await {
            errors.push(error.into());
        }
        Error::collected(id, errors)
    }

    /// See [`crate::Isolation::destroy`].
    pub(crate) async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let mut errors = self.end(id).await;
        if let Err(error) = self.disks.delete(id).await {
            errors.push(error.into());
        }
        Error::collected(id, errors)
    }

    /// Removes everything but the disk; continues after an error.
    pub(super) async fn end(&self, id: &SandboxId) -> Vec<Error> {
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
        note(self.facts.remove(id));
        // A slot in which something still runs must not be given to another sandbox. The record is removed first: a
        // slot that is released twice could be taken from its next owner; a slot without a record is freed by the next
        // start.
        if let Some(record) = record.filter(|_| processes_gone) {
            match self.records.remove(id) {
                Ok(()) => note(self.network.release(record.slot).await.map_err(network_error)),
                Err(error) => note(Err(error)),
            }
        }
        errors
    }

    /// Kills all processes of a sandbox and waits until they are gone.
    async fn end_processes(&self, id: &SandboxId, record: Option<&Record>) -> Result<(), Error> {
        let watched = self.running().remove(id);
        let found = match &watched {
            Some(_) => None,
            None => record.and_then(|r| r.process).and_then(ProcessName::open),
        };
        // The death of the first process ends everything in its pid namespace.
        match (&watched, &found) {
            (Some(watched), _) => watched.kill()?,
            (None, Some(pidfd)) => cabana_jail::process::kill(pidfd).map_err(|e| io("kill a sandbox", e.into()))?,
            (None, None) => {}
        }
        self.cgroups.kill(id).map_err(Error::Jail)?;
        let gone = async {
            match (watched, found) {
                (Some(watched), _) => watched.gone().await,
                (None, Some(pidfd)) => vitals::exited(pidfd).await,
                (None, None) => Ok(()),
            }
        };
        tokio::time::timeout(EXIT_TIMEOUT, gone)
            .await
            .map_err(|_| io("wait for the end of a sandbox", std::io::ErrorKind::TimedOut.into()))?
    }

    /// Removes a sandbox's cgroups. The last process leaves them a moment after its death is reported.
    async fn remove_cgroups(&self, id: &SandboxId) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + EXIT_TIMEOUT;
        let mut backoff = Duration::from_micros(200);
        while !self.cgroups.remove(id).map_err(Error::Jail)? {
            if tokio::time::Instant::now() > deadline {
                return Err(io("empty the cgroups of a sandbox", std::io::ErrorKind::ResourceBusy.into()));
            }
            self.cgroups.kill(id).map_err(Error::Jail)?;
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }
}
