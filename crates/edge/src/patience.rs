//! Waits for a port that is about to open: of a service that is starting, or of a sandbox that has just booted.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_types::service::ServiceState;
use tokio::time::{sleep, timeout};

use crate::directory::Route;
use crate::preview::{Preview, Previews};
use crate::upstream::Upstream;

/// How long a service may take to open its port.
const SERVICE_PATIENCE: Duration = Duration::from_secs(15);
/// How old a sandbox is when its ports are no longer waited for.
const BOOT_PATIENCE: Duration = Duration::from_secs(5);
/// After this time it is asked again whether waiting makes sense.
const ROUND: Duration = Duration::from_secs(2);
/// Between attempts to connect to a port that the guest says is open, or cannot say anything about.
const RETRY: Duration = Duration::from_millis(100);

/// How long a closed port is waited for.
pub(crate) struct Patience {
    service: Option<(Arc<dyn Previews>, Arc<Preview>)>,
    /// Known since the port was found closed.
    deadline: Option<Instant>,
}

impl Patience {
    /// For a port without a service.
    pub(crate) fn with_port() -> Self {
        Self { service: None, deadline: None }
    }

    pub(crate) fn with_service(previews: Arc<dyn Previews>, preview: Arc<Preview>) -> Self {
        Self { service: Some((previews, preview)), deadline: None }
    }

    /// Waits for a port that was found closed; whether it is worth another attempt.
    pub(crate) async fn wait(&mut self, upstream: &Upstream, port: u16) -> bool {
        let now = Instant::now();
        let first = self.deadline.is_none();
        let deadline = *self.deadline.get_or_insert_with(|| match self.service {
            Some(_) => now + SERVICE_PATIENCE,
            None if upstream.route.booted => upstream.route.since + BOOT_PATIENCE,
            None => now,
        });
        let left = deadline.saturating_duration_since(now);
        if left.is_zero() || !self.is_worthwhile(&upstream.route).await {
            return false;
        }
        // It counts as a connection to the sandbox.
        let Some(_permit) = upstream.permit() else { return false };
        let round = async {
            if !first {
                sleep(RETRY).await;
            }
            // Guests of earlier versions cannot tell.
            if listening(&upstream.route, port, left.min(ROUND)).await.is_err() {
                sleep(RETRY).await;
            }
        };
        tokio::select! {
            () = round => true,
            () = upstream.route.gone.cancelled() => false,
        }
    }

    /// Whether the port may still open.
    async fn is_worthwhile(&self, route: &Route) -> bool {
        let Some((previews, preview)) = &self.service else { return true };
        match previews.status(preview).await.state {
            ServiceState::Starting => true,
            ServiceState::Running | ServiceState::Suspended => route.since.elapsed() < SERVICE_PATIENCE,
            ServiceState::Stopped | ServiceState::Error => false,
        }
    }
}

/// Asks the guest whether something listens on a port, and waits for it up to `wait`.
async fn listening(route: &Route, port: u16, wait: Duration) -> io::Result<bool> {
    match timeout(wait, route.link.listening(Some(port), None, wait)).await {
        Ok(answer) => Ok(answer?.port == Some(port)),
        // Nothing listens yet.
        Err(_) => Ok(false),
    }
}
