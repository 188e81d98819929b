//! Who makes a request: a program with an API key, or a person with a session.

mod keys;
mod rates;
mod reach;
mod same_origin;
pub mod table;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::middleware::Next;
use axum::response::Response;
use cabana_accounts::Session;
use cabana_edge::ClientAddress;
use cabana_types::{ActorId, ErrorCode, Permission, Permissions, Role, Secret, TeamId, UserId};
use http::Request;

use crate::api::{App, Trail};
use crate::error::{ApiError, short};
use crate::live::session_end::SessionEnd;
pub(crate) use keys::NewKey;
pub use keys::{KEY_LENGTH, KEY_PREFIX, Keys, MAX_KEYS};
pub use rates::KeyRates;
pub use reach::Reach;
pub(crate) use reach::Refused;
pub(crate) use same_origin::{OwnOrigin, check_sign_in};

/// Id and name of the first team.
pub const FIRST_TEAM: &str = cabana_store::ROOT_TEAM;

/// The authenticated caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The team that the request acts for.
    pub team: TeamId,
    /// The public id of who makes it.
    pub actor: ActorId,
    /// What it may do, at most: in some projects it may be less.
    pub permissions: Permissions,
    /// What of the team it reaches.
    pub reach: Reach,
    /// The role of the person in the team.
    pub role: Option<Role>,
    /// The API key, if it was made with one.
    pub secret: Option<Secret>,
    /// The session, if it was made in one.
    pub session: Option<Arc<Session>>,
}

impl Caller {
    fn by_key(key: &keys::Known, secret: Secret) -> Self {
        let reach = Reach::of_key(key);
        let (team, actor) = (key.team.clone(), key.id.clone().into());
        Self { team, actor, permissions: key.scopes, reach, role: None, secret: Some(secret), session: None }
    }

    /// The person who makes the request. One who signed in with a key is the key.
    pub(crate) fn person(&self) -> Option<&UserId> {
        self.session.as_ref().filter(|session| session.key.is_none()).map(|session| &session.user)
    }

    /// Refuses a caller without a permission, and says who can give it.
    pub(crate) fn require(&self, permission: Permission) -> Result<(), ApiError> {
        if self.permissions.has(permission) { Ok(()) } else { Err(self.lacks(permission)) }
    }

    fn lacks(&self, permission: Permission) -> ApiError {
        let by_key = self.secret.is_some() || self.session.as_ref().is_some_and(|session| session.key.is_some());
        let role = reach::role_text(self.role);
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
        ApiError::new(ErrorCode::Forbidden, text)
    }

    /// Refuses a caller who reaches only some projects.
    fn require_whole(&self) -> Result<(), ApiError> {
        if self.reach.is_whole() {
            return Ok(());
        }
        let text = "This is a matter of the whole team, and you reach only some of its projects; ask an owner or admin of the team";
        Err(ApiError::new(ErrorCode::Forbidden, text))
    }

    /// Refuses a session whose person proved long ago who they are. Programs with a key have nothing else to prove.
    pub(crate) fn require_fresh(&self) -> Result<(), ApiError> {
        if self.session.as_ref().is_none_or(|session| session.is_fresh()) {
            return Ok(());
        }
        let text = "You signed in more than an hour ago, and this hands out or takes away access; sign in again";
        Err(ApiError::new(ErrorCode::SignInAgain, text))
    }
}

impl Refused {
    /// The error; `unknown` is the one for what does not exist.
    pub(crate) fn or(self, unknown: impl FnOnce() -> ApiError) -> ApiError {
        match self {
            Self::Unknown => unknown(),
            Self::Forbidden(permission) => {
                let text = format!(
                    "This needs the permission `{permission}`, which your role in this project does not give; an owner or admin of \
                     the team can change it"
                );
                ApiError::new(ErrorCode::Forbidden, text)
            }
        }
    }
}

/// Rejects requests without a valid key or session, and too many of them, before their body is read.
pub async fn require_caller(
    State(app): State<Arc<App>>,
    mut request: Request<Body>,
    next: Next,
) -> Result<Response, ApiError> {
    let found = authenticate(&app, &request);
    let (caller, end) = match found {
        Ok((caller, end)) => (Ok(caller), end),
        Err(error) => (Err(error), None),
    };
    app.rates.check(&caller, request.extensions().get())?;
    let mut caller = match caller {
        Ok(caller) => caller,
        Err(error) => {
            let owner = keys::key_in(request.headers()).and_then(|key| app.keys.owner(key));
            if let Some(entry) = owner.map(|owner| Trail::refused_key(&request, owner, &error)) {
                app.record_refused_key(entry).await;
            }
            return Err(error);
        }
    };
    if let Some(trail) = request.extensions().get::<Trail>() {
        trail.by(&caller);
    }
    authorize(&mut caller, &request)?;
    if let Some(end) = end {
        request.extensions_mut().insert(end);
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Refuses a caller who may not use a route, and routes that nobody has decided about.
fn authorize(caller: &mut Caller, request: &Request<Body>) -> Result<(), ApiError> {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let method = request.method();
    let Some(needs) = table::needs(method, route) else {
        if table::is_listed(route) {
            let text =
                format!("{} does not take {method}; GET /openapi.json says what it takes", short(request.uri().path()));
            return Err(ApiError::new(ErrorCode::MethodNotAllowed, text));
        }
        tracing::error!(%method, route, "a route has no entry in the authorization table");
        let text = "Nobody may use this route: the server does not say what it needs";
        return Err(ApiError::new(ErrorCode::Forbidden, text));
    };
    if let Some(permission) = needs.permission() {
        caller.require(permission)?;
        caller.reach.for_route(permission);
    }
    if needs.is_of_whole_team() {
        caller.require_whole()?;
    }
    if needs.is_sensitive() { caller.require_fresh() } else { Ok(()) }
}

/// A key counts before a session: programs in a browser may have both. With it, what ends when the caller may no longer do what it may.
fn authenticate(app: &App, request: &Request<Body>) -> Result<(Caller, Option<SessionEnd>), ApiError> {
    let client = request.extensions().get::<ClientAddress>().and_then(|client| client.0);
    let by_key = || Ok((app.keys.caller(request.headers(), client)?, None));
    if keys::key_in(request.headers()).is_some() {
        return by_key();
    }
    let own = OwnOrigin::of(request, app.console_origin.as_deref());
    let Some(token) = own.as_ref().and_then(|own| own.session_token(request.headers())) else {
        return by_key();
    };
    let Some(session) = app.accounts.session(token) else {
        return Err(ApiError::new(ErrorCode::Unauthorized, "The session is over; sign in again"));
    };
    let named = match &own {
        Some(own) => own.check(request, &session.team())?,
        None => None,
    };
    match &session.key {
        Some(key) => {
            let known = app.keys.of_session(key, client)?;
            if named.is_some_and(|named| named != known.team) {
                return Err(no_team());
            }
            let caller = Caller::by_key(&known, Secret::new(""));
            let end = SessionEnd::new(session.ended.clone(), None);
            Ok((Caller { secret: None, session: Some(session), ..caller }, Some(end)))
        }
        None => by_session(app, session, named),
    }
}

/// The caller of a person's request, for the team that it names, else for that of the session, else for any of theirs.
fn by_session(
    app: &App,
    session: Arc<Session>,
    named: Option<TeamId>,
) -> Result<(Caller, Option<SessionEnd>), ApiError> {
    let directory = app.accounts.directory();
    let gone = || ApiError::new(ErrorCode::Unauthorized, "The session is over; sign in again");
    let user = directory.user(&session.user).filter(|user| user.disabled_at.is_none()).ok_or_else(gone)?;
    let usual = session.team();
    let team = match named {
        // A person of no team names that of their session, as there is no other.
        Some(named) if directory.access(&user.id, &named).is_none() && named != usual => return Err(no_team()),
        Some(named) => named,
        None if directory.access(&user.id, &usual).is_some() => usual,
        None => directory.teams_of(&user.id).next().map_or(usual, |(team, _)| team.id.clone()),
    };
    let access = directory.access(&user.id, &team).cloned();
    let reach = Reach::of_person(team.clone(), access.as_deref());
    let own = access.as_ref().map_or(Permissions::NONE, |access| access.role.permissions());
    let permissions = if user.admin { own.with(Permission::Admin) } else { own };
    let role = access.as_ref().map(|access| access.role);
    let actor = user.id.clone().into();
    let end = SessionEnd::new(session.ended.clone(), access.map(|access| access.changed.clone()));
    let caller = Caller { team, actor, permissions, reach, role, secret: None, session: Some(session) };
    Ok((caller, Some(end)))
}

fn no_team() -> ApiError {
    ApiError::new(
        ErrorCode::TeamNotFound,
        "There is no such team, or you are no member of it; list yours with GET /teams",
    )
}
