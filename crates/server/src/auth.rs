//! Who makes a request: a program with an API key, or a person with a session.

mod keys;
mod rates;
mod same_origin;
pub mod table;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::middleware::Next;
use axum::response::Response;
use cabana_accounts::Session;
use cabana_edge::ClientAddress;
use cabana_types::{ActorId, ErrorCode, Permission, Permissions, ProjectId, Secret, TeamId};
use http::Request;

use crate::api::App;
use crate::error::{ApiError, short};
use crate::live::session_end::SessionEnd;
pub(crate) use keys::NewKey;
pub use keys::{KEY_LENGTH, KEY_PREFIX, Keys, MAX_KEYS};
pub use rates::KeyRates;
pub(crate) use same_origin::{OwnOrigin, check_sign_in};
use table::Needs;

/// Id and name of the first team.
pub const FIRST_TEAM: &str = "default";

/// The authenticated caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The team that the request acts for.
    pub team: TeamId,
    /// The public id of who makes it.
    pub actor: ActorId,
    /// What it may do.
    pub permissions: Permissions,
    /// The only project that it is for; `None`: all of the team.
    pub project: Option<ProjectId>,
    /// The API key, if it was made with one.
    pub secret: Option<Secret>,
    /// The session, if it was made in one.
    pub session: Option<Arc<Session>>,
}

impl Caller {
    fn by_key(key: &keys::Known, secret: Secret) -> Self {
        let (team, actor) = (key.team.clone(), key.id.clone().into());
        Self { team, actor, permissions: key.scopes, project: key.project.clone(), secret: Some(secret), session: None }
    }

    fn by_session(session: Arc<Session>, permissions: Permissions) -> Self {
        let (team, actor) = (session.team.clone(), session.user.id.clone().into());
        Self { team, actor, permissions, project: None, secret: None, session: Some(session) }
    }

    /// Refuses a caller without a permission, and says who can give it.
    pub(crate) fn require(&self, permission: Permission) -> Result<(), ApiError> {
        if self.permissions.has(permission) {
            return Ok(());
        }
        let by_key = self.secret.is_some() || self.session.as_ref().is_some_and(|session| session.key.is_some());
        let role = self.session.as_ref().and_then(|session| session.role).map_or("no role", |role| role.as_str());
        let text = match (by_key, permission) {
            (true, Permission::Admin) => {
                "This API key has no scope `admin`; the operator uses the key of the server's key file".into()
            }
            (true, _) => format!("This API key has no scope `{permission}`; create a key that has it"),
            (false, Permission::Admin) => {
                "This needs the permission `admin`, which only admins of the server have".into()
            }
            (false, _) => format!(
                "This needs the permission `{permission}`, which your role ({role}) does not give; an owner or admin of the team can \
                 change your role"
            ),
        };
        Err(ApiError::new(ErrorCode::Forbidden, text))
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
    authorize(&caller, &request)?;
    if let Some(session) = &caller.session {
        request.extensions_mut().insert(SessionEnd(session.ended.clone()));
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Refuses a caller who may not use a route, and routes that nobody has decided about.
fn authorize(caller: &Caller, request: &Request<Body>) -> Result<(), ApiError> {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let method = request.method();
    match table::needs(method, route) {
        Some(Needs::Public | Needs::Own) => Ok(()),
        Some(Needs::One(permission)) => caller.require(permission),
        None if table::is_listed(route) => {
            let text =
                format!("{} does not take {method}; GET /openapi.json says what it takes", short(request.uri().path()));
            Err(ApiError::new(ErrorCode::MethodNotAllowed, text))
        }
        None => {
            tracing::error!(%method, route, "a route has no entry in the authorization table");
            Err(ApiError::new(ErrorCode::Forbidden, "Nobody may use this route: the server does not say what it needs"))
        }
    }
}

/// A key counts before a session: programs in a browser may have both.
fn authenticate(app: &App, request: &Request<Body>) -> Result<Caller, ApiError> {
    let client = request.extensions().get::<ClientAddress>().and_then(|client| client.0);
    if keys::key_in(request.headers()).is_some() {
        return app.keys.caller(request.headers(), client);
    }
    let own = OwnOrigin::of(request, app.console_origin.as_deref());
    let Some(token) = own.as_ref().and_then(|own| own.session_token(request.headers())) else {
        return app.keys.caller(request.headers(), client);
    };
    let Some(session) = app.accounts.session(token) else {
        return Err(ApiError::new(ErrorCode::Unauthorized, "The session is over; sign in again"));
    };
    if let Some(own) = &own {
        own.check(request, &session.team)?;
    }
    let permissions = match &session.key {
        Some(key) => app.keys.scopes_of(key, client)?,
        None => session.permissions(),
    };
    Ok(Caller::by_session(session, permissions))
}
