//! How a request keeps its sandbox awake.

use std::sync::Arc;

use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::directory::{InFlight, InFlightGuard};
use crate::preview::Touched;

/// Keeps a sandbox from being paused, or does not, while a request and its response live.
pub(crate) struct Hold {
    _firm: Option<InFlightGuard>,
    _waning: Option<AbortOnDropHandle<()>>,
}

impl From<InFlightGuard> for Hold {
    /// Holds until the response ends.
    fn from(guard: InFlightGuard) -> Self {
        Self { _firm: Some(guard), _waning: None }
    }
}

impl Hold {
    /// Holds for as long as somebody looks, and then no longer, even if the response goes on: a socket of a forgotten
    /// page must not keep its sandbox awake for ever. `None` if the sandbox is about to be paused.
    pub(crate) fn while_touched(in_flight: &Arc<InFlight>, touched: &Arc<Touched>) -> Option<Self> {
        if !touched.is_recent() {
            return in_flight.begin_quiet().then_some(Self { _firm: None, _waning: None });
        }
        let (guard, touched) = (in_flight.begin()?, Arc::clone(touched));
        // Ends with the request at the latest.
        let waning = tokio::spawn(async move {
            while let Some(left) = touched.recent_for() {
                sleep(left).await;
            }
            drop(guard);
        });
        Some(Self { _firm: None, _waning: Some(AbortOnDropHandle::new(waning)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn background_requests_hold_only_what_somebody_looks_at() {
        let (in_flight, touched) = (Arc::new(InFlight::default()), Arc::new(Touched::default()));
        let quiet = Hold::while_touched(&in_flight, &touched).expect("quiet");
        assert!(!in_flight.take_busy(), "it neither counts nor holds");
        assert!(in_flight.close_if_idle());
        assert!(Hold::while_touched(&in_flight, &touched).is_none(), "refused when closed");
        in_flight.reopen();
        drop(quiet);
        assert!(!in_flight.take_busy());

        touched.touch();
        let counted = Hold::while_touched(&in_flight, &touched).expect("counted");
        assert!(in_flight.take_busy() && in_flight.take_busy(), "it holds");
        drop(counted);
        while in_flight.take_busy() {
            tokio::task::yield_now().await;
        }
        touched.expire();
        let waning = {
            touched.touch();
            let hold = Hold::while_touched(&in_flight, &touched).expect("counted");
            touched.expire();
            hold
        };
        while in_flight.take_busy() {
            tokio::task::yield_now().await;
        }
        assert!(in_flight.close_if_idle(), "the response goes on, but nobody looks");
        drop(waning);
    }
}
