//! Who makes a request: a program with an API key, or a person with a session.

mod keys;
mod rates;
mod same_origin;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use cabana_accounts::Session;
use cabana_types::{ActorId, ErrorCode, KeyId, Secret, TeamId};
use http::Request;

use crate::api::App;
use crate::error::ApiError;
use crate::live::session_end::SessionEnd;
pub use keys::{KEY_LENGTH, KEY_PREFIX, Keys, MAX_KEYS};
pub use rates::KeyRates;
pub(crate) use same_origin::{OwnOrigin, check_sign_in};

/// Id and name of the first team.
pub const FIRST_TEAM: &str = "default";

/// The authenticated caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The team that the request acts for.
    pub team: TeamId,
    /// The public id of who makes it.
    pub actor: ActorId,
    /// The API key, if it was made with one.
    pub secret: Option<Secret>,
    /// The session, if it was made in one.
    pub session: Option<Arc<Session>>,
}

impl Caller {
    pub(crate) fn by_key(team: TeamId, key: KeyId, secret: Secret) -> Self {
        Self { team, actor: key.into(), secret: Some(secret), session: None }
    }

    fn by_session(session: Arc<Session>) -> Self {
        let (team, actor) = (session.team.clone(), session.user.id.clone().into());
        Self { team, actor, secret: None, session: Some(session) }
    }
}

/// Rejects requests without a valid key or session, and too many of them, before their body is read.
pub async fn require_caller(
    State(app): State<Arc<App>>,
    mut request: Request<Body>,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = authenticate(&app, &request);
    app.rates.check(&caller, request.extensions().get())?;
    let caller = caller?;
    if let Some(session) = &caller.session {
        request.extensions_mut().insert(SessionEnd(session.ended.clone()));
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// A key counts before a session: programs in a browser may have both.
fn authenticate(app: &App, request: &Request<Body>) -> Result<Caller, ApiError> {
    if keys::key_in(request.headers()).is_some() {
        return app.keys.caller(request.headers());
    }
    let own = OwnOrigin::of(request, app.console_origin.as_deref());
    let Some(token) = own.as_ref().and_then(|own| own.session_token(request.headers())) else {
        return app.keys.caller(request.headers());
    };
    let Some(session) = app.accounts.session(token) else {
        return Err(ApiError::new(ErrorCode::Unauthorized, "The session is over; sign in again"));
    };
    if let Some(own) = &own {
        own.check(request, &session.team)?;
    }
    Ok(Caller::by_session(session))
}
