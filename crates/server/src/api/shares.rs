//! Links by which anyone can read a chat: making, listing and revoking them. `page` is what their visitors get.

mod keys;
mod markdown;
mod page;
mod scrub;
mod visit;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::ChatShareRow;
use cabana_types::chat::MessageStatus;
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::service::grant_label;
use cabana_types::wire::{ChatExposure, ChatShare, NewChatShare};
use cabana_types::{ChatId, ErrorCode, GrantId, Secret};
use http::{Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::own_address::own_address;
use super::query::Query;
use super::{App, body};
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Shares of a chat that are valid at the same time.
const MAX_SHARES: u32 = 20;
/// Life of a share in seconds, unless asked otherwise, and the longest.
const SECONDS: u64 = 30 * 24 * 3600;
const MAX_SECONDS: u64 = 366 * 24 * 3600;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(share_chat, list_shares))
        .routes(routes!(unshare_chat))
        .routes(routes!(chat_exposure))
}

/// Make a link by which anyone can read a chat until it expires or is revoked.
///
/// Its page shows messages and copies of artifacts. It never gives files, terminals or services, and leaves out ids and addresses of
/// sandboxes.
#[utoipa::path(post, path = "/chats/{chatID}/shares", tag = "chats", request_body = Option<NewChatShare>,
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 201, description = "The link, whose address is shown only once", body = ChatShare)))]
pub(super) async fn share_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<ChatShare>), ApiError> {
    let chat = app.find_chat(&caller, &named(id)?).await?;
    let base = app.service_base(own_address(&request).as_deref()).ok_or_else(no_names)?;
    let bytes = body::bytes(request, MAX_API_BODY_BYTES).await?;
    let asked: NewChatShare =
        if bytes.trim_ascii().is_empty() { NewChatShare::default() } else { body::parse(&bytes)? };
    let seconds = asked.expires_in_seconds.unwrap_or(SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid(format!("expiresInSeconds must be a number from 1 to {MAX_SECONDS}")));
    }
    // What is still being written is not part of a snapshot.
    let until = match asked.live {
        true => None,
        false => {
            let messages = app.store.conversation(&chat.id, 0).await?;
            let whole = messages.iter().take_while(|message| message.status != MessageStatus::Streaming);
            Some(whole.last().map_or(0, |message| message.position))
        }
    };
    let label = grant_label(&rand::random());
    let draft = drafted(&chat.id, &asked);
    let row = ChatShareRow {
        hash: Sha256::digest(&label).into(),
        until,
        created_by: Some(caller.actor.to_string()),
        expires_at: draft.created_at + SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)),
        ..draft
    };
    if !app.store.insert_chat_share(row.clone(), MAX_SHARES).await? {
        let text = format!("The chat has {MAX_SHARES} links, as many as there may be; revoke one first");
        return Err(ApiError::new(ErrorCode::LimitReached, text));
    }
    app.chats.changed(&row.chat).await;
    let url = Secret::new(base.origin(&label) + "/");
    Ok((StatusCode::CREATED, Json(ChatShare { url: Some(url), ..shown(row) })))
}

/// Say what a share would show now, and what of it looks like a key.
#[utoipa::path(get, path = "/chats/{chatID}/exposure", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("toolDetails" = Option<bool>, Query, description = "Whether arguments and output of tools would be shown"),
    ),
    responses((status = 200, description = "Numbers, names, and beginnings of texts that look like keys", body = ChatExposure)))]
pub(super) async fn chat_exposure(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<ChatExposure>, ApiError> {
    let chat = app.find_chat(&caller, &named(id)?).await?;
    let share =
        drafted(&chat.id, &NewChatShare { live: true, tool_details: query.flag("toolDetails")?, ..Default::default() });
    Ok(Json(app.shared_content(&share, chat).await?.exposure()))
}

/// List the links to a chat. Their addresses are not stored.
#[utoipa::path(get, path = "/chats/{chatID}/shares", tag = "chats",
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "Newest first, also those that have ended lately", body = Vec<ChatShare>)))]
pub(super) async fn list_shares(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Vec<ChatShare>>, ApiError> {
    let chat = app.find_chat(&caller, &named(id)?).await?;
    Ok(Json(app.store.chat_shares(&chat.id).await?.into_iter().map(shown).collect()))
}

/// Revoke a link to a chat. Its page is gone at once.
#[utoipa::path(delete, path = "/chats/{chatID}/shares/{shareID}", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("shareID" = String, Path, description = "The link"),
    ),
    responses((status = 204, description = "It is not valid any more")))]
pub(super) async fn unshare_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path((chat, share)) = path.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    let chat = app.find_chat(&caller, &named(Ok(Path(chat)))?).await?;
    let unknown = || {
        let text =
            format!("Link {} was not found; list those of the chat with GET /chats/{{id}}/shares", short(&share));
        ApiError::new(ErrorCode::ShareNotFound, text)
    };
    let id: GrantId = share.parse().map_err(|_| unknown())?;
    match app.store.revoke_chat_share(chat.id.clone(), id, Timestamp::now()).await? {
        true => {
            app.chats.changed(&chat.id).await;
            Ok(StatusCode::NO_CONTENT)
        }
        false => Err(unknown()),
    }
}

/// A share that nobody can find and that has expired.
fn drafted(chat: &ChatId, asked: &NewChatShare) -> ChatShareRow {
    let now = Timestamp::now();
    ChatShareRow {
        id: GrantId::from_random(rand::random()),
        hash: rand::random(),
        chat: chat.clone(),
        until: None,
        tool_details: asked.tool_details,
        created_at: now,
        created_by: None,
        expires_at: now,
        revoked_at: None,
        opened: 0,
        last_opened_at: None,
    }
}

fn named(id: Result<Path<String>, PathRejection>) -> Result<ChatId, ApiError> {
    let Path(text) = id.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    text.parse().map_err(|_| super::chats::no_chat(&text))
}

fn no_names() -> ApiError {
    let text = "Links need host names: configure a domain, or reach the server as localhost";
    ApiError::new(ErrorCode::NotSupported, text)
}

fn shown(row: ChatShareRow) -> ChatShare {
    ChatShare {
        id: row.id,
        chat_id: row.chat,
        url: None,
        live: row.until.is_none(),
        tool_details: row.tool_details,
        created_at: row.created_at,
        created_by: row.created_by,
        expires_at: row.expires_at,
        opened: row.opened,
        last_opened_at: row.last_opened_at,
        revoked_at: row.revoked_at,
    }
}
