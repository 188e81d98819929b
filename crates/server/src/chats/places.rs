//! Places among the turns of a team that run at the same time. Turns beyond the team's quota wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::TeamId;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Counts the turns that run, per team.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Mutex<HashMap<TeamId, u64>>,
    /// A place is free, or a limit has changed.
    changed: Notify,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    team: TeamId,
}

impl Places {
    /// Waits for a free place or another limit, if it was made before the look for a place.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Lets those who wait look again.
    pub(super) fn limits_changed(&self) {
        self.changed.notify_waiters();
    }

    /// A place, if fewer than `limit` are taken.
    pub(super) fn try_take(self: &Arc<Self>, team: &TeamId, limit: u64) -> Option<Place> {
        let mut taken = self.lock();
        let count = taken.get(team).copied().unwrap_or_default();
        if count >= limit {
            return None;
        }
        taken.insert(team.clone(), count + 1);
        Some(Place { places: Arc::clone(self), team: team.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TeamId, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.places.lock().entry(self.team.clone()) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.places.limits_changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_wait_for_a_place_or_a_higher_limit() {
        let (places, team) = (Arc::new(Places::default()), "t".parse().expect("id"));
        let first = places.try_take(&team, 1).expect("a place");
        let changed = places.changed();
        assert!(places.try_take(&team, 1).is_none());
        let second = places.try_take(&team, 2).expect("a higher limit");
        drop(first);
        changed.await;
        assert!(places.try_take(&team, 1).is_none());
        drop((places.try_take(&team, 2).expect("a free place"), second));
        assert!(places.lock().is_empty());
    }
}
