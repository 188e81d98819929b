//! Accepting an invitation, which its link alone allows.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cabana_accounts::AcceptError;
use cabana_types::ErrorCode;
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::wire::{AcceptInvitation, InvitationCode, InvitationInfo, SessionInfo};
use http::Request;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::keys::check_name;
use super::{App, body, sessions};
use crate::error::ApiError;

/// The routes.
pub(super) fn public_routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(show)).routes(routes!(accept))
}

/// What the link of an invitation is for.
#[utoipa::path(post, path = "/auth/invitation", operation_id = "show_invitation", tag = "people", security(()),
    request_body = InvitationCode,
    responses((status = 200, description = "The invitation", body = InvitationInfo)))]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    request: Request<Body>,
) -> Result<Json<InvitationInfo>, ApiError> {
    let (_, _, request) = sessions::begin(&app, request)?;
    let InvitationCode { code } = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let row = app.accounts.invitation(code.expose()).await?.ok_or_else(invalid)?;
    let directory = app.accounts.directory();
    let team = directory.team(&row.team).ok_or_else(invalid)?;
    Ok(Json(InvitationInfo {
        team: team.name.clone(),
        has_account: directory.user_by_email(&row.email).is_some(),
        email: row.email,
        role: row.role,
        expires_at: row.expires_at,
    }))
}

/// Accept an invitation: as the person who is signed in, or with a new account, by a name and a password.
#[utoipa::path(post, path = "/auth/invitation/accept", operation_id = "accept_invitation", tag = "people", security(()),
    request_body = AcceptInvitation,
    responses((status = 200, description = "The person is a member of the team, and signed in", body = SessionInfo)))]
pub(super) async fn accept(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let (own, client, request) = sessions::begin(&app, request)?;
    let session = own.session_token(request.headers()).and_then(|token| app.accounts.session(token));
    let AcceptInvitation { code, name, password } = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let (name, password) = match (name, password) {
        (Some(name), Some(password)) => (check_name(&name)?.to_owned(), password),
        (None, None) => {
            let session = session.filter(|session| session.key.is_none()).ok_or_else(|| {
                ApiError::new(
                    ErrorCode::Unauthorized,
                    "Nobody is signed in; sign in first, or send name and password for an account",
                )
            })?;
            let team = app.accounts.invitation(code.expose()).await?.ok_or_else(invalid)?.team;
            let task = {
                let (app, user) = (Arc::clone(&app), session.user.clone());
                async move { app.accounts.accept_as(code.expose(), user).await }
            };
            app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
            return Ok(Json(app.described(&session, &team)).into_response());
        }
        _ => {
            return Err(ApiError::invalid(
                "name and password go together; send neither to accept as the one who is signed in",
            ));
        }
    };
    app.check_passwords()?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.accounts.accept_anew(code.expose(), name, password, client).await }
    };
    let signed_in = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(sessions::answer(&app, &own, &signed_in))
}

fn invalid() -> ApiError {
    let text =
        "The invitation was used or revoked, is too old, or was never made; ask whoever invited you for another link";
    ApiError::new(ErrorCode::InvitationInvalid, text)
}

impl From<AcceptError> for ApiError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Invalid => invalid(),
            AcceptError::HasAccount => {
                let text = "There is an account with the invited email; sign in to it, then open the link again";
                Self::new(ErrorCode::AccountConflict, text)
            }
            AcceptError::OtherPerson => {
                let text = "The invitation is for another email than that of the account that is signed in; sign out, then open the \
                            link again";
                Self::new(ErrorCode::InvitationInvalid, text)
            }
            AcceptError::Password(error) => error.into(),
            AcceptError::Store(error) => error.into(),
        }
    }
}
