//! How many calls of tools use one sandbox at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cabana_types::SandboxId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Calls that use one sandbox at once.
const PER_SANDBOX: usize = 8;
/// How long a call waits for others to end.
const WAIT: Duration = Duration::from_secs(10);

/// The places of all sandboxes that are in use.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<SandboxId, Arc<Semaphore>>>);

/// The place of one call, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    id: SandboxId,
    permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// Takes a place; `None` if none becomes free in time.
    pub(crate) async fn take(self: &Arc<Self>, id: &SandboxId) -> Option<Place> {
        let places = Arc::clone(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(id.clone())
                .or_insert_with(|| Arc::new(Semaphore::new(PER_SANDBOX))),
        );
        let permit = timeout(WAIT, places.acquire_owned()).await.ok()?.ok()?;
        Some(Place { places: Arc::clone(self), id: id.clone(), permit: Some(permit) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.permit = None;
        // Nobody else holds it or waits for it: the map has one reference.
        if places.get(&self.id).is_some_and(|places| Arc::strong_count(places) == 1) {
            places.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn places_are_bounded_and_forgotten() {
        let places = Arc::new(Places::default());
        let id: SandboxId = "ia".parse().unwrap();
        let mut taken = Vec::new();
        for _ in 0..PER_SANDBOX {
            taken.push(places.take(&id).await.unwrap());
        }
        assert!(places.take(&id).await.is_none());
        assert!(places.take(&"ib".parse().unwrap()).await.is_some());
        taken.pop();
        taken.push(places.take(&id).await.unwrap());
        drop(taken);
        assert!(places.0.lock().unwrap().is_empty());
    }
}
