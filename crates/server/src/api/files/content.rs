//! Reading and writing a file whole.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cabana_types::ErrorCode;
use cabana_types::guest::tools::{
    Action, Change, EDIT_PATH, Edit, EditAnswer, Expect, Refusal, STAT_PATH, Stat, StatAnswer,
};
use cabana_types::tool::ToolErrorCode;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, Request};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use url::form_urlencoded;

use super::guest::{FileGuest, Unanswered, refused};
use super::{MAX_EDITED, WrittenFile, etag_of, path_of, stat_of};
use crate::api::App;
use crate::api::content::{self, FetchError};
use crate::api::query::Query;
use crate::api::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

/// Content of a file.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a body, which is read as it is")]
pub(in crate::api) struct FileContent(Vec<u8>);

/// Read a file of a sandbox as it is, or a range of it. It is a download; with `inline`, a browser shows PNG, JPEG, GIF and WebP in place.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/files/content", tag = "files",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("path" = String, Query, description = "The file"),
        ("inline" = Option<bool>, Query, description = "Whether a browser may show an image in place"),
        ("Range" = Option<String>, Header, description = "Such as `bytes=0-1023`"),
    ),
    responses(
        (status = 200, description = "The file", body = Vec<u8>, content_type = "application/octet-stream",
            headers(("ETag" = String, description = "The SHA-256 of a file of up to 5 MiB"))),
        (status = 206, description = "A range of it", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 416, description = "The file is shorter"),
    ))]
pub(in crate::api) async fn read_content(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = app.find_usable(&caller.reach, &id).await?;
    let (path, inline) = (path_of(query.text("path").unwrap_or_default())?, query.flag("inline")?);
    let entered = app.enter(&row).await?;
    let inner = form_urlencoded::Serializer::new(String::new())
        .append_pair("path", &path)
        .append_pair("digest", &MAX_EDITED.to_string())
        .finish();
    let fetched = content::fetch(entered, &inner, &headers).await.map_err(|error| match error {
        FetchError::Refused(refusal) => refused(&refusal),
        FetchError::Unresponsive => content::unresponsive(),
    })?;
    let image = if inline { fetched.image() } else { None };
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(fetched.answer(name, image))
}

/// Write a file of a sandbox: all of it, or nothing is changed. Parents are made, owner and mode of an existing file stay.
///
/// With `If-Match`, only the version that was read is replaced: else 412 `file_changed`, with the present one in `ETag`. With
/// `If-None-Match: *`, only a new file is written. Larger files can be uploaded.
#[utoipa::path(put, path = "/sandboxes/{sandboxID}/files/content", tag = "files",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("path" = String, Query, description = "The file"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that the file must have"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: no file may be there"),
    ),
    request_body(content = inline(FileContent), content_type = "application/octet-stream", description = "At most 5 MiB"),
    responses((status = 200, description = "It is written", body = WrittenFile)))]
pub(in crate::api) async fn write_content(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
    request: Request<Body>,
) -> Result<Json<WrittenFile>, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let path = path_of(query.text("path").unwrap_or_default())?;
    let expect = precondition(request.headers())?;
    let most = usize::try_from(MAX_EDITED).unwrap_or(usize::MAX);
    let data = crate::api::body::bytes(request, most).await?;
    let etag = etag_of(&format!("{:x}", Sha256::digest(&data)));
    let guest = app.files_of(&caller, &id).await?;
    let action = Action::Write { data: STANDARD.encode(&data), executable: None };
    let change = Change { path: path.clone(), expect: expect.clone(), action };
    let edit = Edit { user: None, changes: vec![change] };
    match guest.try_ask::<_, EditAnswer>(EDIT_PATH, &edit).await {
        Ok(_) => {}
        Err(Unanswered::Refused(refusal)) => return Err(guest.explain(&path, &expect, refusal).await),
        Err(Unanswered::Failed(error)) => return Err(error),
    }
    // It may have changed again; it was written in any case.
    let found = guest.try_ask::<_, StatAnswer>(STAT_PATH, &Stat { path, ..Stat::default() }).await.ok();
    let modified_at = found.and_then(|found| Timestamp::from_second(found.modified).ok());
    Ok(Json(WrittenFile { etag, size: data.len() as u64, modified_at }))
}

impl FileGuest {
    /// Why a write was refused: its precondition, or something else.
    async fn explain(&self, path: &str, expect: &Expect, refusal: Refusal) -> ApiError {
        let about_content = matches!(refusal.code, ToolErrorCode::Interrupted | ToolErrorCode::FileNotFound);
        if *expect == Expect::Anything || !about_content {
            return refused(&refusal);
        }
        let stat = Stat { user: None, path: path.to_owned(), inspect: Some(MAX_EDITED) };
        let found = self.try_ask::<_, StatAnswer>(STAT_PATH, &stat).await;
        match (expect, found) {
            (Expect::Absent, Ok(_)) => ApiError::new(ErrorCode::AlreadyExists, "There is a file of this name already"),
            (Expect::Content { sha256 }, Ok(found)) => {
                let etag = stat_of(found).etag;
                match etag == Some(etag_of(sha256)) {
                    true => refused(&refusal),
                    false => ApiError::file_changed(
                        "Somebody else has changed the file since you read it; nothing was written. Read it again",
                        etag,
                    ),
                }
            }
            (Expect::Content { .. }, Err(Unanswered::Refused(now))) if now.code == ToolErrorCode::FileNotFound => {
                ApiError::file_changed("The file is not there any more; nothing was written", None)
            }
            _ => refused(&refusal),
        }
    }
}

/// What must be there for a file to be written.
fn precondition(headers: &HeaderMap) -> Result<Expect, ApiError> {
    let of = |name: HeaderName| headers.get_all(name).iter().collect::<Vec<_>>();
    match (of(IF_MATCH).as_slice(), of(IF_NONE_MATCH).as_slice()) {
        ([], []) => Ok(Expect::Anything),
        ([], [any]) if any.as_bytes() == b"*" => Ok(Expect::Absent),
        ([], _) => Err(ApiError::invalid("If-None-Match must be *")),
        ([etag], []) if content::is_etag(etag.as_bytes()) => {
            Ok(Expect::Content { sha256: String::from_utf8_lossy(etag.as_bytes()).trim_matches('"').to_owned() })
        }
        (_, []) => Err(ApiError::invalid("If-Match must be one ETag as this server has sent it")),
        _ => Err(ApiError::invalid("If-Match does not go with If-None-Match")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn preconditions() {
        let read = |pairs: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name.clone(), HeaderValue::from_str(value).expect("value"));
            }
            precondition(&headers).map_err(|error| error.code())
        };
        let digest = "ab".repeat(32);
        let etag = etag_of(&digest);
        assert_eq!(read(&[]), Ok(Expect::Anything));
        assert_eq!(read(&[(IF_NONE_MATCH, "*")]), Ok(Expect::Absent));
        assert_eq!(read(&[(IF_MATCH, &etag)]), Ok(Expect::Content { sha256: digest.clone() }));
        for bad in [
            &[(IF_MATCH, "*")][..],
            &[(IF_MATCH, &digest)],
            &[(IF_MATCH, &format!("W/{etag}"))],
            &[(IF_MATCH, &format!("{etag}, {etag}"))],
            &[(IF_MATCH, &etag), (IF_MATCH, &etag)],
            &[(IF_NONE_MATCH, &etag)],
            &[(IF_MATCH, &etag), (IF_NONE_MATCH, "*")],
        ] {
            assert_eq!(read(bad), Err(ErrorCode::InvalidRequest), "{bad:?}");
        }
    }
}
