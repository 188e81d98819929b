//! Calls that `notifications/cancelled` can end. A stateless server finds them by the key, the session id that the client repeats, and the
//! id of the request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cabana_types::ActorId;
use tokio_util::sync::CancellationToken;

/// The calls in progress.
#[derive(Debug, Default)]
pub(crate) struct RunningCalls(Mutex<HashMap<Name, CancellationToken>>);

/// Actor, session and request.
type Name = (ActorId, String, String);

impl RunningCalls {
    /// Remembers a call until the guard is dropped. The token is cancelled when the client asks for it. A client must not use an id twice:
    /// if it does, its notification means the first call.
    pub(super) fn begin(
        &self,
        actor: &ActorId,
        session: &str,
        request: String,
    ) -> (CancellationToken, Option<Guard<'_>>) {
        let token = CancellationToken::new();
        let name = (actor.clone(), session.to_owned(), request);
        let mut calls = self.lock();
        if calls.contains_key(&name) {
            return (token, None);
        }
        calls.insert(name.clone(), token.clone());
        (token, Some(Guard { calls: self, name }))
    }

    /// Cancels a call, if it is in progress.
    pub(super) fn cancel(&self, actor: &ActorId, session: &str, request: &str) {
        if let Some(token) = self.lock().get(&(actor.clone(), session.to_owned(), request.to_owned())) {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a call.
pub(super) struct Guard<'a> {
    calls: &'a RunningCalls,
    name: Name,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use cabana_types::KeyId;

    use super::*;

    fn actor(n: u8) -> ActorId {
        KeyId::from_random([n; 16]).into()
    }

    #[test]
    fn a_notification_cancels_the_call_of_its_own_client() {
        let calls = RunningCalls::default();
        let (one, two) = (actor(1), actor(2));
        let (token, guard) = calls.begin(&one, "s", "1".into());
        let (twin, second) = calls.begin(&one, "s", "1".into());
        assert!(second.is_none());
        for (key, session, request) in [(&two, "s", "1"), (&one, "t", "1"), (&one, "s", "\"1\""), (&one, "s", "2")] {
            calls.cancel(key, session, request);
            assert!(!token.is_cancelled(), "{key} {session} {request}");
        }
        calls.cancel(&one, "s", "1");
        assert!(token.is_cancelled() && !twin.is_cancelled());
        drop(guard);
        assert!(calls.lock().is_empty());
    }
}
