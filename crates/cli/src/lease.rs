//! A sandbox that lives as long as this program: kept alive while it is used, killed afterwards. If this program dies, the sandbox
//! expires by itself soon after.

use std::time::Duration;

use cabana_client::{Client, SandboxHandle};
use cabana_types::SandboxId;
use cabana_types::wire::NewSandbox;
use tokio_util::task::AbortOnDropHandle;

use crate::creation;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;

/// Life of a sandbox after the last sign of life of this program, seconds.
pub(crate) const LIFE_SECONDS: i64 = 300;
/// How often this program gives one.
const RENEW_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct Lease {
    client: Client,
    sandbox: SandboxHandle,
    _renewing: Option<AbortOnDropHandle<()>>,
}

impl Lease {
    /// Creates a sandbox. With a timeout in the request it ends then; without, it lives while the lease does.
    pub(crate) async fn create(
        client: &Client,
        mut new: NewSandbox,
        signals: &mut Signals,
        out: &Output,
    ) -> Result<Self, Failure> {
        let renew = new.timeout.is_none();
        new.timeout.get_or_insert(LIFE_SECONDS);
        let mut creating = Box::pin(creation::create(client, &new, None, out));
        let mut interrupted = None;
        // Giving up at once would leave a sandbox behind: the request is already on its way.
        let sandbox = loop {
            tokio::select! {
                result = &mut creating => break result?,
                number = signals.recv() => match interrupted {
                    None => interrupted = Some(number),
                    Some(_) => return Err(stopped(number)),
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
                Err(stopped(number))
            }
        }
    }

    pub(crate) fn id(&self) -> &SandboxId {
        self.sandbox.id()
    }

    /// The way into the sandbox.
    pub(crate) fn sandbox(&self) -> &SandboxHandle {
        &self.sandbox
    }

    /// Ends it: kills the sandbox, or leaves it to its timeout and says so.
    pub(crate) async fn end(self, keep: bool, out: &Output) {
        let id = self.id();
        if keep {
            out.say(&format!("kept sandbox {id}"));
            out.note(&format!("it expires by its timeout; end it now with `cabana kill {id}`"));
            return;
        }
        match self.client.kill(id).await {
            Ok(()) => {}
            Err(e) if e.is_not_found() => {}
            Err(e) => out.warn(&format!("sandbox {id} is left to its timeout: {e}")),
        }
    }
}

fn stopped(signal: u8) -> Failure {
    Failure::yours("interrupted while the sandbox was created").code(128 + signal)
}

/// Moves the expiry on while someone is there. An error is not told: what uses the sandbox will notice and say it better.
pub(crate) fn keep_alive(client: Client, id: SandboxId) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + RENEW_EVERY, RENEW_EVERY);
        loop {
            ticks.tick().await;
            let _ = client.connect(&id, Some(LIFE_SECONDS)).await;
        }
    }))
}
