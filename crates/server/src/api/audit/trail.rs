//! What becomes known of a request while it is handled: who makes it, and what it does if its route does not say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_accounts::Session;
use cabana_types::{KeyId, TeamId};
use http::Request;

use crate::auth::Caller;

/// Notes for the entry of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail(Arc<Mutex<Notes>>);

#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    pub(super) team: Option<TeamId>,
    pub(super) actor: Option<String>,
    pub(super) target: Option<String>,
    /// Whether something was called by a message whose route does not say so.
    pub(super) calls: bool,
    pub(super) details: BTreeMap<String, String>,
}

impl Trail {
    /// The trail of a request.
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// Who makes the request.
    pub(crate) fn by(&self, caller: &Caller) {
        let mut notes = self.notes();
        notes.team = Some(caller.team.clone());
        notes.actor = Some(caller.actor.to_string());
        if let Some(session) = &caller.session {
            notes.details.insert("session".into(), session.id.to_string());
        }
    }

    /// An API key that somebody wants to sign in with.
    pub(crate) fn by_key(&self, team: TeamId, key: &KeyId) {
        let mut notes = self.notes();
        notes.team = Some(team);
        notes.actor = Some(key.to_string());
        notes.details.insert("key".into(), key.to_string());
    }

    /// Somebody has signed in.
    pub(crate) fn by_session(&self, session: &Session) {
        let mut notes = self.notes();
        notes.team = Some(session.team());
        notes.actor = Some(session.user.to_string());
        notes.details.insert("session".into(), session.id.to_string());
    }

    /// The message calls a tool.
    pub(crate) fn calls(&self, tool: &str, sandbox: Option<&str>) {
        let mut notes = self.notes();
        notes.calls = true;
        notes.target = sandbox.map(super::describe::plain);
        notes.details.insert("name".into(), super::describe::plain(tool));
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
