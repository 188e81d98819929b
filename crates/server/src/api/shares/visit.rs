//! What visitors of a shared chat get: its page, and copies of its files. At a host of its own, without a session.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use cabana_store::{ChatRow, ChatShareRow};
use cabana_types::ErrorCode;
use cabana_types::chat::MessageStatus;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::page::{Content, MAX_MESSAGES};
use super::scrub::Scrub;
use crate::api::{App, attachments};
use crate::error::ApiError;

/// Pages that are made at the same time: each reads a whole chat.
static MAKING: Semaphore = Semaphore::const_new(4);

/// Nothing runs, nothing is loaded from elsewhere, nobody frames it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

impl App {
    /// The answer to a request at the host of a share; `None` if there is no such share, or no longer.
    pub(crate) async fn visit_share(
        &self,
        label: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Response> {
        let hash: [u8; 32] = Sha256::digest(label).into();
        let share = match self.store.chat_share_of(hash, Timestamp::now()).await {
            Ok(share) => share?,
            Err(error) => return Some(guarded(ApiError::from(error).into_response())),
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            let answer = (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response();
            return Some(guarded(answer));
        }
        if path == "/robots.txt" {
            return Some(guarded("User-agent: *\nDisallow: /\n".into_response()));
        }
        let file = path.strip_prefix("/files/");
        if path != "/" && file.is_none() {
            return Some(guarded(nothing()));
        }
        let answer = self.shared(share, file, headers).await;
        Some(guarded(answer.unwrap_or_else(IntoResponse::into_response)))
    }

    async fn shared(&self, share: ChatShareRow, file: Option<&str>, headers: &HeaderMap) -> Result<Response, ApiError> {
        let Ok(_making) = MAKING.acquire().await else { return Ok(nothing()) };
        let Some(chat) = self.store.chat(&share.chat).await? else { return Ok(nothing()) };
        let content = self.shared_content(&share, chat).await?;
        let Some(named) = file else {
            self.store.open_chat_share(share.id.clone(), Timestamp::now()).await?;
            return Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], content.html()).into_response());
        };
        let Some(row) = content.file(named) else { return Ok(nothing()) };
        let copy = self.blobs.read(&row.team, &row.sha256).await;
        let copy = copy.map_err(|_| ApiError::new(ErrorCode::AttachmentNotFound, "The file is gone"))?;
        attachments::content::answer(row, copy, true, headers).await
    }

    /// What a share shows of its chat.
    pub(super) async fn shared_content<'s>(
        &self,
        share: &'s ChatShareRow,
        chat: ChatRow,
    ) -> Result<Content<'s>, ApiError> {
        let mut messages = self.store.conversation(&chat.id, 0).await?;
        messages.retain(|message| {
            message.status != MessageStatus::Streaming && share.until.is_none_or(|until| message.position <= until)
        });
        let more = messages.len() > MAX_MESSAGES;
        messages.drain(..messages.len().saturating_sub(MAX_MESSAGES));
        let ids: Vec<_> = messages.iter().map(|message| message.id.clone()).collect();
        let calls = self.store.calls_of(&ids).await?;
        // An id in a message is no proof that the file is this chat's.
        let files = self.store.attachments_of(&chat.id).await?;
        let files = files.into_iter().map(|row| (row.id.clone(), row)).collect();
        let mut sandboxes: Vec<String> =
            self.store.chat_sandboxes(&chat.id).await?.into_iter().map(|row| row.sandbox.to_string()).collect();
        sandboxes.extend(calls.iter().filter_map(|call| call.sandbox.as_ref().map(ToString::to_string)));
        let scrub = Scrub { domain: self.service_base(None).map(|base| base.domain), sandboxes };
        Ok(Content { share, title: chat.title, messages, more, calls, files, scrub })
    }
}

fn nothing() -> Response {
    (StatusCode::NOT_FOUND, "There is nothing here.\n").into_response()
}

/// The answer with what keeps browsers from doing more with it than showing it.
fn guarded(mut answer: Response<Body>) -> Response<Body> {
    let headers = answer.headers_mut();
    // A file brings a stricter one.
    if !headers.contains_key(CONTENT_SECURITY_POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    }
    let set = [
        (CACHE_CONTROL, "private, no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
