//! A sandbox tied to this program: kept alive while it is used, killed afterwards. If this program dies, the sandbox
//! expires soon after.

use std::time::Duration;

use cabana_client::{Client, SandboxHandle};
use cabana_types::SandboxId;
use cabana_types::wire::NewSandbox;
use tokio_util::task::AbortOnDropHandle;

use crate::creation;
use crate::failure::Failure;
use crate::local_files::LocalFile;
use crate::output::Output;
use crate::signals::Signals;

/// Timeout of the sandbox, renewed while this program runs, in seconds.
pub(crate) const TIMEOUT_SECONDS: i64 = 300;
/// Renewal interval.
const RENEW_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct Lease {
    client: Client,
    sandbox: SandboxHandle,
    _renewing: Option<AbortOnDropHandle<()>>,
}

impl Lease {
    /// Creates a sandbox. With a timeout in the request it expires then; without, it lives as long as the lease.
    pub(crate) async fn create(
        client: &Client,
        mut new: NewSandbox,
        files: &[LocalFile],
        signals: &mut Signals,
        out: &Output,
    ) -> Result<Self, Failure> {
        let renew = new.timeout.is_none();
        new.timeout.get_or_insert(TIMEOUT_SECONDS);
        let mut creating = Box::pin(creation::create(client, &new, files, None, out));
        let mut interrupted = None;
        // Aborting the request at once could leave a sandbox behind; not with files, of which the server waits for all.
        let sandbox = loop {
            tokio::select! {
                result = &mut creating => break result?,
                number = signals.recv() => match interrupted {
                    None if files.is_empty() => interrupted = Some(number),
                    _ => return Err(interrupt_failure(number)),
                },
            }
        };
        let lease = Self {
            client: client.clone(),
            sandbox: client.handle(&sandbox)?,
            _renewing: renew.then(|| keep_alive(client.clone(), sandbox.sandbox_id.clone())),
        };
        match interrupted {
            None => Ok(lease),
            Some(number) => {
                lease.client.kill(lease.id()).await?;
                Err(interrupt_failure(number))
            }
        }
    }

    pub(crate) fn id(&self) -> &SandboxId {
        self.sandbox.id()
    }

    pub(crate) fn sandbox(&self) -> &SandboxHandle {
        &self.sandbox
    }

    /// Ends the lease: kills the sandbox, or keeps it until its timeout and says so.
    pub(crate) async fn end(self, keep: bool, out: &Output) {
        let id = self.id();
        if keep {
            out.say(&format!("kept sandbox {id}"));
            out.note(&format!("it expires at its timeout; kill it now with `cabana kill {id}`"));
            return;
        }
        match self.client.kill(id).await {
            Ok(()) => {}
            Err(e) if e.is_not_found() => {}
            Err(e) => out.warn(&format!("sandbox {id} could not be killed and expires at its timeout: {e}")),
        }
    }
}

fn interrupt_failure(signal: u8) -> Failure {
    Failure::user_error("interrupted while creating the sandbox").code(128 + signal)
}

/// Renews the timeout. Errors are ignored: the code that uses the sandbox reports them better.
pub(crate) fn keep_alive(client: Client, id: SandboxId) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + RENEW_EVERY, RENEW_EVERY);
        loop {
            ticks.tick().await;
            let _ = client.connect(&id, Some(TIMEOUT_SECONDS)).await;
        }
    }))
}
