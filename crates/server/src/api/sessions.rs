//! Signing in and out of the console. A session is a cookie that only the console's own page can use.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cabana_accounts::{Client, Session, SignInError, SignedIn};
use cabana_edge::ClientAddress;
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::wire::{
    ListedSession, OwnTeam, Person, SessionInfo, SessionTeam, SignInCode, SignInRequest, WelcomeRequest,
};
use cabana_types::{ErrorCode, Permission, Permissions, Secret, SessionId, TeamId};
use http::header::{SET_COOKIE, USER_AGENT};
use http::{Request, StatusCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{App, Trail, body};
use crate::auth::{Caller, FIRST_TEAM, OwnOrigin, check_sign_in};
use crate::error::{ApiError, short};

/// Routes for those who are signed in.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(get_session, sign_out, super::account::switch_team))
        .routes(routes!(list_sessions))
        .routes(routes!(end_session))
        .routes(routes!(make_code))
}

/// Routes for those who are not.
pub(super) fn public_routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(welcome)).routes(routes!(sign_in)).routes(routes!(super::account::methods))
}

/// Sign in with the code of a link that `cabana login` printed. It is valid once, for ten minutes.
#[utoipa::path(post, path = "/auth/welcome", operation_id = "sign_in_by_link",
    tag = "sessions", security(()), request_body = WelcomeRequest,
    responses((status = 200, description = "Signed in; the session is in the cookie", body = SessionInfo)))]
pub(super) async fn welcome(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let trail = Trail::of(&request);
    let (own, client, request) = begin(&app, request)?;
    let WelcomeRequest { code } = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let team = FIRST_TEAM.parse().map_err(|_| ApiError::invalid("There is no team"))?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.accounts.sign_in_by_code(code.expose(), team, client).await }
    };
    finish(&app, &own, &trail, task).await
}

/// Sign in with email and password, or with an API key. The session of a key acts for its team and ends when the key is deleted.
#[utoipa::path(post, path = "/auth/sign-in", tag = "sessions", security(()), request_body = SignInRequest,
    responses((status = 200, description = "Signed in; the session is in the cookie", body = SessionInfo)))]
pub(super) async fn sign_in(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let trail = Trail::of(&request);
    let (own, client, request) = begin(&app, request)?;
    let api_key = match body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)? {
        SignInRequest { api_key: Some(key), email: None, password: None } => key,
        SignInRequest { api_key: None, email: Some(email), password: Some(password) } => {
            app.check_passwords()?;
            app.rates.check_account(&email.trim().to_lowercase())?;
            let task = {
                let app = Arc::clone(&app);
                async move { app.accounts.sign_in_by_password(&email, password, client).await }
            };
            return finish(&app, &own, &trail, task).await;
        }
        _ => return Err(ApiError::invalid("Send either email and password, or apiKey")),
    };
    let address = client.address.as_ref().and_then(|address| address.parse().ok());
    if let Some((team, key)) = app.keys.owner(api_key.expose()) {
        trail.by_key(team, &key);
    }
    let known = app.keys.known(api_key.expose(), address)?.ok_or_else(|| {
        ApiError::new(ErrorCode::Unauthorized, "The API key is not valid on this server; check that it is complete")
    })?;
    let task = {
        let app = Arc::clone(&app);
        let (key, team, until) = (known.id.clone(), known.team.clone(), known.expires_at);
        async move { app.accounts.sign_in_by_key(key, team, until, client).await }
    };
    finish(&app, &own, &trail, task).await
}

/// Who is signed in.
#[utoipa::path(get, path = "/auth/session", tag = "sessions",
    responses((status = 200, description = "The session of this request", body = SessionInfo)))]
pub(super) async fn get_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<SessionInfo>, ApiError> {
    let session = own(&caller)?;
    Ok(Json(app.described(session, &caller.team)))
}

/// Sign out. Everything that the session has open is closed.
#[utoipa::path(delete, path = "/auth/session", tag = "sessions",
    responses((status = 204, description = "Signed out")))]
pub(super) async fn sign_out(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let session = Arc::clone(own(&caller)?);
    end(&app, &caller, session.id.clone()).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    let cookie = OwnOrigin::of(&request, app.console_origin.as_deref()).and_then(|own| own.no_cookie());
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// List the sessions of the person who is signed in.
#[utoipa::path(get, path = "/auth/sessions", tag = "sessions",
    responses((status = 200, description = "Sessions, newest first", body = Vec<ListedSession>)))]
pub(super) async fn list_sessions(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<ListedSession>>, ApiError> {
    let current = own(&caller)?;
    let listed = |session: Arc<Session>| ListedSession {
        id: session.id.clone(),
        current: session.id == current.id,
        created_at: session.created_at,
        last_seen_at: session.last_seen(),
        expires_at: session.expires_at,
        address: session.address.clone(),
        agent: session.agent.clone(),
    };
    let own = app.accounts.sessions_of(&current.user).into_iter().filter(|session| is_own(current, session));
    Ok(Json(own.map(listed).collect()))
}

/// End another session of the person who is signed in.
#[utoipa::path(delete, path = "/auth/sessions/{sessionID}", tag = "sessions",
    params(("sessionID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The session has ended")))]
pub(super) async fn end_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(text) = id.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    let id = text.parse().map_err(|_| no_session(&text))?;
    end(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a link that signs in once, within ten minutes. Only for the operator's team.
#[utoipa::path(post, path = "/auth/codes", tag = "sessions",
    responses((status = 201, description = "The link", body = SignInCode)))]
pub(super) async fn make_code(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<(StatusCode, Json<SignInCode>), ApiError> {
    if caller.team.as_str() != FIRST_TEAM {
        let text = "Only the operator's team makes links for signing in";
        return Err(ApiError::new(ErrorCode::Forbidden, text));
    }
    Ok((StatusCode::CREATED, Json(app.sign_in_code().await?)))
}

impl App {
    /// A link that signs the first admin in.
    pub(crate) async fn sign_in_code(&self) -> Result<SignInCode, cabana_store::Error> {
        let (code, expires_at) = self.accounts.make_code().await?;
        // In the fragment, which browsers neither send nor log.
        let url = Secret::new(format!("{}/console/welcome#{}", self.console_url, code.expose()));
        Ok(SignInCode { url, expires_at })
    }

    /// A session, and what its person may do in a team.
    pub(super) fn described(&self, session: &Session, team: &TeamId) -> SessionInfo {
        let directory = self.accounts.directory();
        let user = directory.user(&session.user);
        let name = directory.team(team).map_or_else(|| team.to_string(), |team| team.name.clone());
        let key = session.key.as_ref().and_then(|key| self.keys.by_id(key));
        let role = directory.access(&session.user, team).map(|access| access.role).filter(|_| session.key.is_none());
        let admin = user.is_some_and(|user| user.admin) && session.key.is_none();
        let own = role.map_or(Permissions::NONE, |role| role.permissions());
        let own = if admin { own.with(Permission::Admin) } else { own };
        let permissions = if session.key.is_some() { key.map_or(Permissions::NONE, |key| key.scopes) } else { own };
        let teams = directory.teams_of(&session.user).filter(|_| session.key.is_none());
        SessionInfo {
            id: session.id.clone(),
            user: Person {
                id: session.user.clone(),
                name: user.map_or_else(String::new, |user| user.name.clone()),
                email: user.and_then(|user| user.email.clone()),
                has_password: user.is_some_and(|user| user.has_password),
                admin: permissions.has(Permission::Admin),
            },
            team: SessionTeam { id: team.clone(), name },
            teams: teams.map(|(team, role)| OwnTeam { id: team.id.clone(), name: team.name.clone(), role }).collect(),
            role,
            permissions: permissions.into(),
            by_key: session.key.is_some(),
            may_make_teams: session.key.is_none() && (admin || self.people.open_teams),
            created_at: session.created_at,
            expires_at: session.expires_at,
        }
    }
}

/// Checks where an attempt to sign in comes from, and counts it.
pub(super) fn begin(app: &App, request: Request<Body>) -> Result<(OwnOrigin, Client, Request<Body>), ApiError> {
    let own = check_sign_in(&request, app.console_origin.as_deref())?;
    let address = request.extensions().get::<ClientAddress>();
    app.rates.check_sign_in(address)?;
    let client = Client {
        address: address.and_then(|address| address.0).map(|address| address.to_string()),
        agent: request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).map(str::to_owned),
    };
    Ok((own, client, request))
}

/// Signs in, to the end even if the client disconnects: a code is used up.
async fn finish(
    app: &App,
    own: &OwnOrigin,
    trail: &Trail,
    task: impl Future<Output = Result<SignedIn, SignInError>> + Send + 'static,
) -> Result<Response, ApiError> {
    let signed_in = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    trail.by_session(&signed_in.session);
    Ok(answer(app, own, &signed_in))
}

/// The answer to somebody who has signed in.
pub(super) fn answer(app: &App, own: &OwnOrigin, signed_in: &SignedIn) -> Response {
    let session = &signed_in.session;
    let mut response = Json(app.described(session, &session.team())).into_response();
    response.headers_mut().extend(own.cookie(&signed_in.token).map(|cookie| (SET_COOKIE, cookie)));
    response
}

async fn end(app: &Arc<App>, caller: &Caller, id: SessionId) -> Result<(), ApiError> {
    let current = own(caller)?;
    let user = current.user.clone();
    if !app.accounts.sessions_of(&user).iter().any(|session| session.id == id && is_own(current, session)) {
        return Err(no_session(id.as_str()));
    }
    let task = {
        let (app, id) = (Arc::clone(app), id.clone());
        async move { app.accounts.sign_out(&user, &id).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        true => Ok(()),
        false => Err(no_session(id.as_str())),
    }
}

/// Whether a session may see and end another one of its user. Who has signed in with a key has no more than the key.
fn is_own(current: &Session, other: &Session) -> bool {
    current.key.is_none() || current.key == other.key
}

/// The session of a request. Programs with a key have none.
pub(super) fn own(caller: &Caller) -> Result<&Arc<Session>, ApiError> {
    caller.session.as_ref().ok_or_else(|| {
        ApiError::new(ErrorCode::SessionNotFound, "This request was made with an API key, which has no session")
    })
}

fn no_session(id: &str) -> ApiError {
    let text = format!("Session {} was not found; list yours with GET /auth/sessions", short(id));
    ApiError::new(ErrorCode::SessionNotFound, text)
}

impl From<SignInError> for ApiError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::InvalidCode => Self::new(
                ErrorCode::InvalidCode,
                "The link was used or is older than ten minutes; get a new one with `cabana login` on the server",
            ),
            SignInError::WrongPassword => Self::new(ErrorCode::WrongPassword, "Email or password is wrong"),
            SignInError::Hashing(error) => {
                Self::new(ErrorCode::ServiceUnavailable, format!("The server is busy: {error}"))
            }
            SignInError::Store(error) => error.into(),
        }
    }
}
