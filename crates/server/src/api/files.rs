//! Files of a sandbox for people: looking around, reading, changing, moving. Everything is done by the guest with the permissions of the
//! sandbox's user, as for the tools; a paused sandbox is resumed.

mod content;
mod guest;

use std::sync::Arc;

use axum::extract::{FromRequest, Request, State};
use axum::{Extension, Json};
use cabana_types::guest::tools::{
    Action, Change, DIRECTORY_PATH, EDIT_PATH, Edit, EditAnswer, EntryKind, Expect, LIST_PATH, List, ListAnswer,
    ListEntry, MOVE_PATH, Move, NewDirectory as GuestDirectory, Placed, STAT_PATH, Stat, StatAnswer,
};
use cabana_types::wire::{FileEntry, FileKind, FileList, FileStat, MadeDirectory, MoveFile, NewDirectory, WrittenFile};
use http::StatusCode;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::guest::{FileGuest, cut, path_of, refused};
use super::App;
use super::body::Body;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

/// Entries of a listing.
const MAX_ENTRIES: usize = 2000;
/// Files up to this size have an `ETag` and can be written.
pub(super) const MAX_EDITED: u64 = 5 << 20;
/// Characters of a path or name that the guest answers.
const MAX_SHOWN: usize = 4096;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_files, delete_file))
        .routes(routes!(stat_file))
        .routes(routes!(content::read_content, content::write_content))
        .routes(routes!(make_directory))
        .routes(routes!(move_file))
}

/// List a directory of a sandbox, which is resumed if it is paused.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/files", tag = "files",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("path" = Option<String>, Query,
            description = "The directory; relative paths start at the working directory, which is the default"),
        ("hidden" = Option<bool>, Query, description = "Whether names that begin with a dot are listed"),
    ),
    responses((status = 200, description = "Its first 2000 entries; links are not followed", body = FileList)))]
pub(super) async fn list_files(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<FileList>, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let (path, hidden) = (path_of(query.text("path").unwrap_or("."))?, query.flag("hidden")?);
    let guest = app.files_of(&caller, &id).await?;
    let list = List { user: None, path, depth: 1, hidden, limit: MAX_ENTRIES };
    let listed: ListAnswer = guest.ask(LIST_PATH, &list).await?;
    let path: String = listed.path.chars().take(MAX_SHOWN).collect();
    let truncated = listed.truncated || listed.entries.len() > MAX_ENTRIES;
    let entries = listed.entries.into_iter().take(MAX_ENTRIES).map(|entry| entry_of(&path, entry)).collect();
    Ok(Json(FileList { path, entries, truncated }))
}

/// Describe a file or directory of a sandbox. Links are followed; `target` is where the path itself leads if it is one.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/files/stat", tag = "files",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("path" = String, Query, description = "What to describe"),
    ),
    responses((status = 200, description = "What is there", body = FileStat)))]
pub(super) async fn stat_file(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<FileStat>, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let path = path_of(query.text("path").unwrap_or_default())?;
    let guest = app.files_of(&caller, &id).await?;
    let found: StatAnswer = guest.ask(STAT_PATH, &Stat { user: None, path, inspect: Some(MAX_EDITED) }).await?;
    Ok(Json(stat_of(found)))
}

/// Make a directory in a sandbox, with its parents.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/files/directories", tag = "files",
    params(("sandboxID" = String, Path, description = "The sandbox")),
    request_body = NewDirectory,
    responses((status = 201, description = "It is made", body = MadeDirectory)))]
pub(super) async fn make_directory(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    request: Request,
) -> Result<(StatusCode, Json<MadeDirectory>), ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let Body(new): Body<NewDirectory> = Body::from_request(request, &()).await?;
    let path = path_of(&new.path)?;
    let guest = app.files_of(&caller, &id).await?;
    let made: Placed = guest.ask(DIRECTORY_PATH, &GuestDirectory { user: None, path }).await?;
    let path = made.path.chars().take(MAX_SHOWN).collect();
    Ok((StatusCode::CREATED, Json(MadeDirectory { path })))
}

/// Move or rename a file, link or directory of a sandbox.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/files/move", tag = "files",
    params(("sandboxID" = String, Path, description = "The sandbox")),
    request_body = MoveFile,
    responses((status = 204, description = "It is moved")))]
pub(super) async fn move_file(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    request: Request,
) -> Result<StatusCode, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let Body(wanted): Body<MoveFile> = Body::from_request(request, &()).await?;
    let (from, to) = (path_of(&wanted.from)?, path_of(&wanted.to)?);
    let guest = app.files_of(&caller, &id).await?;
    let _: Placed = guest.ask(MOVE_PATH, &Move { user: None, from, to }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete a file, link or directory of a sandbox. A link is not followed.
#[utoipa::path(delete, path = "/sandboxes/{sandboxID}/files", tag = "files",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("path" = String, Query, description = "What to delete"),
        ("recursive" = Option<bool>, Query, description = "Whether a directory is deleted with everything in it"),
    ),
    responses((status = 204, description = "It is deleted")))]
pub(super) async fn delete_file(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<StatusCode, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let (path, recursive) = (path_of(query.text("path").unwrap_or_default())?, query.flag("recursive")?);
    let guest = app.files_of(&caller, &id).await?;
    let change = Change { path, expect: Expect::Anything, action: Action::Delete { recursive } };
    let _: EditAnswer = guest.ask(EDIT_PATH, &Edit { user: None, changes: vec![change] }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn entry_of(directory: &str, entry: ListEntry) -> FileEntry {
    let name: String = entry.path.chars().take(MAX_SHOWN).collect();
    FileEntry {
        path: format!("{}/{name}", directory.trim_end_matches('/')),
        name,
        kind: kind_of(entry.kind),
        size: entry.size,
        mode: mode_of(entry.mode),
        modified_at: Timestamp::from_second(entry.modified).ok(),
        target: entry.target.map(|target| target.chars().take(MAX_SHOWN).collect()),
    }
}

fn stat_of(found: StatAnswer) -> FileStat {
    let asked = if found.asked.is_empty() { found.path } else { found.asked };
    let path: String = asked.chars().take(MAX_SHOWN).collect();
    let name = match path.trim_end_matches('/').rsplit_once('/') {
        Some((_, name)) => name.to_owned(),
        None => "/".to_owned(),
    };
    let content = found.content.unwrap_or_default();
    let etag = content.sha256.map(|sha256| etag_of(&sha256)).filter(|etag| super::content::is_etag(etag.as_bytes()));
    FileStat {
        entry: FileEntry {
            name,
            path,
            kind: kind_of(found.kind),
            size: found.size,
            mode: mode_of(found.mode),
            modified_at: Timestamp::from_second(found.modified).ok(),
            target: found.target.map(|target| target.chars().take(MAX_SHOWN).collect()),
        },
        etag,
        binary: content.binary,
        media_type: content.media_type.map(|kind| cut(&kind)),
    }
}

fn etag_of(sha256: &str) -> String {
    format!("\"{sha256}\"")
}

fn kind_of(kind: EntryKind) -> FileKind {
    match kind {
        EntryKind::File => FileKind::File,
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Link => FileKind::Symlink,
        EntryKind::Other => FileKind::Other,
    }
}

fn mode_of(bits: u32) -> String {
    format!("{:04o}", bits & 0o7777)
}
