//! Entering a sandbox as the edge does: it is resumed if it is paused, and not paused as long as the request uses it.

use std::sync::Arc;
use std::time::Duration;

use cabana_edge::Route;
use cabana_edge::directory::InFlightGuard;
use cabana_store::Sandbox;
use cabana_types::ErrorCode;
use cabana_types::sandbox::{Kept, State};
use tokio::time::{Instant, timeout};

use super::App;
use crate::error::ApiError;
use crate::lifecycle::ChangeError;

/// How often a request tries to resume its sandbox.
const RESUME_ATTEMPTS: usize = 3;
/// How long resuming may take.
const RESUME_TIME: Duration = Duration::from_secs(60);
/// How much longer if the sandbox is in the archive.
const RESTORE_TIME: Duration = Duration::from_secs(120);

/// A running sandbox. It is not paused as long as this exists.
pub(super) struct Entered {
    pub(super) route: Arc<Route>,
    pub(super) in_flight: InFlightGuard,
    /// Time that it took to bring the sandbox back from the archive.
    pub(super) restoring: Duration,
}

/// Why a sandbox could not be entered.
#[derive(Debug)]
pub(super) enum EnterError {
    Resume(ChangeError),
    PausedAgain,
    Slow { seconds: u64 },
}

impl App {
    /// Enters a sandbox. The holder of a key asks for it: this does not depend on `autoResume`.
    pub(super) async fn enter(&self, row: &Sandbox) -> Result<Entered, EnterError> {
        let archived = matches!(row.state, State::Paused { kept: Kept::Archive { .. }, .. } | State::Archiving { .. });
        let limit = if archived { RESUME_TIME + RESTORE_TIME } else { RESUME_TIME };
        let begin = Instant::now();
        let entering = async {
            for _ in 0..RESUME_ATTEMPTS {
                if let Some(route) = self.directory.get(&row.id)
                    && let Some(in_flight) = route.in_flight.begin()
                {
                    return Ok((route, in_flight));
                }
                let resumed = self.lifecycle.resume(&row.id, row.policy.auto_resume_seconds(), false).await;
                resumed.map_err(EnterError::Resume)?;
            }
            Err(EnterError::PausedAgain)
        };
        let (route, in_flight) =
            timeout(limit, entering).await.map_err(|_| EnterError::Slow { seconds: limit.as_secs() })??;
        let restoring = if archived { begin.elapsed() } else { Duration::ZERO };
        Ok(Entered { route, in_flight, restoring })
    }
}

impl From<EnterError> for ApiError {
    fn from(error: EnterError) -> Self {
        match error {
            EnterError::Resume(error) => error.into(),
            EnterError::PausedAgain => {
                Self::new(ErrorCode::ServiceUnavailable, "The sandbox was paused again at once; try again")
            }
            EnterError::Slow { seconds } => Self::new(
                ErrorCode::ServiceUnavailable,
                format!("The sandbox was not resumed within {seconds} s; try again later"),
            ),
        }
    }
}
