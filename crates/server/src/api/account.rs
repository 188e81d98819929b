//! What people change about themselves: name, email, password, and the team of their session.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_accounts::{SetPasswordError, SignInError, email};
use cabana_edge::ClientAddress;
use cabana_store::{UserChange, UserChanged};
use cabana_types::wire::{Confirmation, NewPassword, PersonUpdate, SessionInfo, SessionUpdate, SignInMethods};
use cabana_types::{ErrorCode, UserId};
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::Body;
use super::keys::check_name;
use super::sessions::own;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Routes for those who are signed in.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(confirm)).routes(routes!(set_password)).routes(routes!(update_user))
}

/// How people can sign in.
#[utoipa::path(get, path = "/auth/methods", tag = "sessions", security(()),
    responses((status = 200, description = "The ways", body = SignInMethods)))]
pub(super) async fn methods(State(app): State<Arc<App>>) -> Json<SignInMethods> {
    Json(SignInMethods { password: app.people.password, oidc: None })
}

/// Make the session act for another team of the person where a request names none.
#[utoipa::path(put, path = "/auth/session", tag = "sessions", request_body = SessionUpdate,
    responses((status = 200, description = "The session", body = SessionInfo)))]
pub(super) async fn switch_team(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(update): Body<SessionUpdate>,
) -> Result<Json<SessionInfo>, ApiError> {
    let session = own(&caller)?;
    let directory = app.accounts.directory();
    let access = directory.access(&session.user, &update.team_id).filter(|_| session.key.is_none());
    access.ok_or_else(|| no_own_team(update.team_id.as_str()))?;
    app.accounts.switch(session, update.team_id.clone()).await?;
    Ok(Json(app.described(session, &update.team_id)))
}

/// Prove again who is signed in, for acts that want a recent sign-in.
#[utoipa::path(post, path = "/auth/confirm", operation_id = "confirm_sign_in", tag = "sessions", request_body = Confirmation,
    responses((status = 204, description = "For an hour it counts as a new sign-in")))]
pub(super) async fn confirm(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    address: Option<Extension<ClientAddress>>,
    Body(confirmation): Body<Confirmation>,
) -> Result<StatusCode, ApiError> {
    let session = Arc::clone(person(&caller)?);
    app.rates.check_sign_in(address.as_deref())?;
    app.rates.check_account(session.user.as_str())?;
    app.accounts.confirm(&session, confirmation.password).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Set or change the password. The person's other sessions end.
#[utoipa::path(put, path = "/auth/password", tag = "sessions", request_body = NewPassword,
    responses((status = 204, description = "It is set; other sessions have ended")))]
pub(super) async fn set_password(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    address: Option<Extension<ClientAddress>>,
    Body(new): Body<NewPassword>,
) -> Result<StatusCode, ApiError> {
    let session = Arc::clone(person(&caller)?);
    app.check_passwords()?;
    // Without a present password, the sign-in is what proves who it is.
    if app.accounts.directory().user(&session.user).is_none_or(|user| !user.has_password) {
        caller.require_fresh()?;
    }
    app.rates.check_sign_in(address.as_deref())?;
    app.rates.check_account(session.user.as_str())?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.accounts.set_password(&session, new.current_password, new.password).await }
    };
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change one's name or email.
#[utoipa::path(patch, path = "/auth/user", tag = "sessions", request_body = PersonUpdate,
    responses((status = 200, description = "The session with the person", body = SessionInfo)))]
pub(super) async fn update_user(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(update): Body<PersonUpdate>,
) -> Result<Json<SessionInfo>, ApiError> {
    let session = person(&caller)?;
    let mut changes = Vec::new();
    if let Some(name) = &update.name {
        changes.push(UserChange::Name(check_name(name)?.to_owned()));
    }
    if let Some(text) = &update.email {
        changes.push(UserChange::Email(read_email(text)?));
    }
    app.change_user(session.user.clone(), changes).await?;
    Ok(Json(app.described(session, &caller.team)))
}

impl App {
    /// Changes a person, to the end.
    pub(super) async fn change_user(self: &Arc<Self>, id: UserId, changes: Vec<UserChange>) -> Result<(), ApiError> {
        let task = {
            let (app, id) = (Arc::clone(self), id.clone());
            async move { app.accounts.change(app.store.change_user(id, changes)).await }
        };
        match self.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
            UserChanged::Done => Ok(()),
            UserChanged::Unknown => Err(cabana_store::Error::NoUser(id).into()),
            UserChanged::EmailTaken => {
                Err(ApiError::new(ErrorCode::AccountConflict, "Another account has this email; choose another"))
            }
            UserChanged::LastAdmin => {
                let text = "Nobody else is an admin of this server who can sign in; make somebody else one first";
                Err(ApiError::new(ErrorCode::LastAdmin, text))
            }
        }
    }

    /// Refuses passwords where the operator has turned them off.
    pub(super) fn check_passwords(&self) -> Result<(), ApiError> {
        if self.people.password {
            return Ok(());
        }
        let text =
            "This server takes no passwords (accounts.password is false); sign in with the organisation's account";
        Err(ApiError::new(ErrorCode::NotSupported, text))
    }
}

/// The session of a person; not that of the holder of a key.
pub(super) fn person(caller: &Caller) -> Result<&Arc<cabana_accounts::Session>, ApiError> {
    let session = own(caller)?;
    if session.key.is_none() {
        return Ok(session);
    }
    let text = "This session was signed in with an API key, which is no person; sign in as a person";
    Err(ApiError::new(ErrorCode::Forbidden, text))
}

/// An email in a request.
pub(super) fn read_email(text: &str) -> Result<String, ApiError> {
    email::normalize(text).ok_or_else(|| ApiError::invalid(format!("{:?} is not an email", short(text))))
}

pub(super) fn no_own_team(id: &str) -> ApiError {
    let text = format!("There is no team {:?}, or you are no member of it; list yours with GET /teams", short(id));
    ApiError::new(ErrorCode::TeamNotFound, text)
}

impl From<SetPasswordError> for ApiError {
    fn from(error: SetPasswordError) -> Self {
        match error {
            SetPasswordError::WrongPassword => Self::new(ErrorCode::WrongPassword, "The present password is wrong"),
            SetPasswordError::Weak(_) | SetPasswordError::NoEmail => {
                let text = error.to_string();
                Self::invalid(text[..1].to_uppercase() + &text[1..])
            }
            SetPasswordError::Hashing(error) => SignInError::from(error).into(),
            SetPasswordError::Store(error) => error.into(),
        }
    }
}
