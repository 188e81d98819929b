//! Taking a sandbox down: everything is tried, also after an error, and may be tried again.

use std::time::Duration;

use cabana_jail::process::ProcessName;
use cabana_types::SandboxId;

use super::record::Record;
use super::{Native, io, jail, network_error, vitals};
use crate::Error;

/// How long the processes of a killed sandbox may take to be gone.
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);

impl Native {
    /// Ends everything of a sandbox but its disk; goes on after an error.
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
        // A slot in which something still runs must not be given to another sandbox. The record goes first: were the slot given back twice, the second
        // time would take it from whoever has it by then; a slot without a record is freed by the next start.
        if let Some(record) = record.filter(|_| processes_gone) {
            match self.records.remove(id) {
                Ok(()) => note(self.network.release(record.slot).await.map_err(network_error)),
                Err(error) => note(Err(error)),
            }
        }
        errors
    }

    /// Ends all processes of a sandbox and waits until they are gone.
    async fn end_processes(&self, id: &SandboxId, record: Option<&Record>) -> Result<(), Error> {
        let watched = self.living().remove(id);
        let found = match &watched {
            Some(_) => None,
            None => record.and_then(|r| r.process).and_then(ProcessName::open),
        };
        // The first process takes everything in its pid namespace along.
        match (&watched, &found) {
            (Some(watched), _) => watched.kill()?,
            (None, Some(pidfd)) => cabana_jail::process::kill(pidfd).map_err(|e| io("kill a sandbox", e.into()))?,
            (None, None) => {}
        }
        self.cgroups.kill(id).map_err(jail)?;
        let gone = async {
            match (watched, found) {
                (Some(watched), _) => watched.gone().await,
                (None, Some(pidfd)) => vitals::exited(pidfd).await,
                (None, None) => Ok(()),
            }
        };
        tokio::time::timeout(DEATH_TIMEOUT, gone)
            .await
            .map_err(|_| io("wait for the end of a sandbox", std::io::ErrorKind::TimedOut.into()))?
    }

    /// Removes a sandbox's cgroups. The last process leaves them a moment after it is reported dead.
    async fn remove_cgroups(&self, id: &SandboxId) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + DEATH_TIMEOUT;
        let mut pause = Duration::from_micros(200);
        while !self.cgroups.remove(id).map_err(jail)? {
            if tokio::time::Instant::now() > deadline {
                return Err(io("empty the cgroups of a sandbox", std::io::ErrorKind::ResourceBusy.into()));
            }
            self.cgroups.kill(id).map_err(jail)?;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// What went wrong in all, if anything did.
pub(super) fn collected(id: &SandboxId, errors: Vec<Error>) -> Result<(), Error> {
    if errors.is_empty() { Ok(()) } else { Err(Error::Teardown { what: id.to_string(), errors }) }
}
