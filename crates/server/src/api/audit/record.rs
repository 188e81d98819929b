//! The middleware that records every request that changes something, with its result and before its answer is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cabana_edge::ClientAddress;
use cabana_store::NewAuditEntry;
use cabana_types::audit::{AuditResult, KEY_REFUSED};
use cabana_types::error::chain;
use cabana_types::{ErrorCode, KeyId, TeamId};
use http::{Request, StatusCode};
use jiff::Timestamp;

use super::actions::action;
use super::{Trail, describe};
use crate::api::{App, MCP_PATH};
use crate::auth::table::is_recorded;
use crate::error::{ApiError, status};

/// Where operators act on teams and on the server.
const ADMIN: &str = "/admin/";
/// The parameter of their paths that names a team.
const TEAM: &str = "teamID";

/// Records a request.
pub(in crate::api) async fn recorded(State(app): State<Arc<App>>, request: Request<Body>, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let found = is_recorded(request.method(), &route).then(|| action(request.method(), &route)).flatten();
    let Some(action) = found else { return next.run(request).await };
    let (mut parts, body) = request.into_parts();
    let parameters = RawPathParams::from_request_parts(&mut parts, &()).await.ok();
    let (target, mut details) = parameters.as_ref().map(describe::of_path).unwrap_or_default();
    details.extend(describe::of_headers(&parts.headers));
    let named_team = parameters.and_then(|parameters| {
        parameters.iter().find(|(name, _)| *name == TEAM).and_then(|(_, value)| value.parse().ok())
    });
    let trail = Trail::default();
    parts.extensions.insert(trail.clone());
    let act = NewAuditEntry {
        team: None,
        at: Timestamp::now(),
        actor: None,
        action: action.to_owned(),
        target,
        address: address(parts.extensions.get()),
        result: AuditResult::Interrupted,
        status: 0,
        details,
    };
    let mut pending = Pending { app, act: Some(act), trail, route, named_team };
    let response = next.run(Request::from_parts(parts, body)).await;
    pending.answer(response).await
}

/// A request without an answer so far. If the client goes away, that is what is recorded.
struct Pending {
    app: Arc<App>,
    act: Option<NewAuditEntry>,
    trail: Trail,
    route: String,
    /// The team that an operator acts on.
    named_team: Option<TeamId>,
}

impl Pending {
    async fn answer(&mut self, response: Response) -> Response {
        let (response, answered) = describe::of_answer(response).await;
        let Some(entry) = self.entry(Some(response.status()), answered) else { return response };
        let store = self.app.store.clone();
        // To its end, even if the client goes away now.
        match self.app.run_to_end(async move { store.record(entry).await }).await {
            Some(Ok(())) => response,
            failed => {
                let why = failed.and_then(Result::err).map_or_else(|| "it panicked".to_owned(), |error| chain(&error));
                tracing::error!(error = why, route = self.route, "could not record a request in the audit log");
                if !response.status().is_success() {
                    // Nothing was done; on a full disk the answer says what to do.
                    return response;
                }
                let text = "The request was carried out, but could not be recorded in the audit log; find the details in the server's log";
                ApiError::new(ErrorCode::Internal, text).into_response()
            }
        }
    }

    /// The entry, once; none if there is nobody to name and nothing was tried.
    fn entry(&mut self, answer: Option<StatusCode>, answered: BTreeMap<String, String>) -> Option<NewAuditEntry> {
        let mut act = self.act.take()?;
        let notes = self.trail.notes().clone();
        let is_sign_in = self.route.starts_with("/auth/sign-in") || self.route.starts_with("/auth/welcome");
        let limited = answer == Some(StatusCode::TOO_MANY_REQUESTS);
        let is_known = notes.actor.is_some() || (is_sign_in && answer.is_some() && !limited);
        if !is_known || (self.route == MCP_PATH && !notes.calls) {
            return None;
        }
        act.status = answer.map_or(0, |status| status.as_u16());
        act.result = match answer {
            None if std::thread::panicking() => AuditResult::Failed,
            None => AuditResult::Interrupted,
            Some(status) if status.is_server_error() => AuditResult::Failed,
            Some(status) if status.is_client_error() => AuditResult::Refused,
            Some(_) => AuditResult::Ok,
        };
        act.at = Timestamp::now();
        if act.target.is_none() && act.result == AuditResult::Ok {
            act.target = describe::made(&answered).cloned();
        }
        act.target = notes.target.or_else(|| act.target.take());
        act.actor = notes.actor;
        act.team = match self.route.starts_with(ADMIN) {
            // What an operator does to a team, the team can see.
            true => self.named_team.take().filter(|_| act.result == AuditResult::Ok),
            false => notes.team,
        };
        act.details.extend(answered);
        act.details.extend(notes.details);
        Some(act)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(entry) = self.entry(None, Default::default()) else { return };
        let store = self.app.store.clone();
        self.app.tasks.spawn(async move {
            if let Err(error) = store.record(entry).await {
                tracing::error!(error = chain(&error), "could not record an interrupted request in the audit log");
            }
        });
    }
}

impl Trail {
    /// The entry for the use of a key that has expired or is for other networks.
    pub(crate) fn refused_key(
        request: &Request<Body>,
        (team, key): (TeamId, KeyId),
        error: &ApiError,
    ) -> NewAuditEntry {
        let mut details: BTreeMap<_, _> = describe::of_headers(request.headers()).into_iter().collect();
        details.insert("error".into(), error.code().to_string());
        NewAuditEntry {
            team: Some(team),
            at: Timestamp::now(),
            actor: Some(key.to_string()),
            action: KEY_REFUSED.into(),
            target: Some(key.to_string()),
            address: address(request.extensions().get()),
            result: AuditResult::Refused,
            status: status(error.code()).as_u16(),
            details,
        }
    }
}

impl App {
    /// Records a request that was refused before its route was reached.
    pub(crate) async fn record_refused_key(&self, entry: NewAuditEntry) {
        let store = self.store.clone();
        if let Some(Err(failed)) = self.run_to_end(async move { store.record(entry).await }).await {
            tracing::error!(error = chain(&failed), "could not record the use of a refused key in the audit log");
        }
    }
}

fn address(client: Option<&ClientAddress>) -> Option<String> {
    client.and_then(|client| client.0).map(|address| address.to_string())
}
