//! SQLite databases in a sandbox: one statement at a time, by programs of the sandbox. The server itself never opens such a file.

mod shell;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, Request, State};
use axum::{Extension, Json};
use cabana_types::ErrorCode;
use cabana_types::guest::tools::{EntryKind, STAT_PATH, Stat, StatAnswer};
use cabana_types::wire::{SqliteQuery, SqliteResult};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::Body;
use super::content::unresponsive;
use super::files::{FileGuest, cut, path_of};
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::tools::program::{self, Program, Ran};

/// How long a statement may take.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of a statement.
const MAX_SQL: usize = 64 << 10;
const MAX_PARAMS: usize = 100;
const MAX_ROWS: usize = 1000;
/// SQLite's own limit is 2000 by default.
const MAX_COLUMNS: usize = 4000;
/// Bytes of a result.
const MAX_RESULT: usize = 1 << 20;

/// Runs in the sandbox. Its text is in the environment, so that the log of commands shows a short one.
const SCRIPT: &str = include_str!("sqlite.py");
const LOADER: &str = "import os; exec(os.environ.pop('CABANA_SCRIPT'))";

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(query_sqlite))
}

/// What the script answers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Unavailable {
        #[allow(dead_code, reason = "tells the form of the answer")]
        unavailable: bool,
    },
    Error {
        error: String,
    },
    Result(SqliteResult),
}

/// Run one statement on a SQLite database of a sandbox, with the sandbox's own python3 or sqlite3.
///
/// The database is opened read-only unless `write` is set. The first 1000 rows or 1 MiB are returned. A value that is a blob is shown as
/// an object: the beginning as base64 in `blob`, and its `size`.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/sqlite", tag = "files",
    params(("sandboxID" = String, Path, description = "The sandbox")),
    request_body = SqliteQuery,
    responses((status = 200, description = "Rows, or the number of changed ones", body = SqliteResult)))]
pub(super) async fn query_sqlite(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    request: Request,
) -> Result<Json<SqliteResult>, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let Body(query): Body<SqliteQuery> = Body::from_request(request, &()).await?;
    check(&query)?;
    let path = path_of(&query.path)?;
    let guest = app.files_of(&caller, &id).await?;
    let found: StatAnswer = guest.ask(STAT_PATH, &Stat { path, ..Stat::default() }).await?;
    if found.kind != EntryKind::File {
        return Err(ApiError::new(ErrorCode::NotAFile, format!("{:?} is not a file", cut(&found.path))));
    }
    if let Some(result) = by_python(&guest, &found.path, &query).await? {
        return Ok(Json(result));
    }
    if let Some(result) = shell::query(&guest, &found.path, &query).await? {
        return Ok(Json(result));
    }
    Err(ApiError::new(
        ErrorCode::SqliteUnavailable,
        "The sandbox has neither python3 with its module sqlite3 nor the program sqlite3; install one of them in it",
    ))
}

fn check(query: &SqliteQuery) -> Result<(), ApiError> {
    if query.sql.trim().is_empty() || query.sql.len() > MAX_SQL {
        return Err(ApiError::invalid(format!("sql must have 1 to {MAX_SQL} bytes")));
    }
    if query.sql.contains('\0') {
        return Err(ApiError::invalid("sql contains a NUL character"));
    }
    let plain = |value: &Value| !value.is_array() && !value.is_object();
    if query.params.len() > MAX_PARAMS || !query.params.iter().all(plain) {
        return Err(ApiError::invalid(format!(
            "params must be at most {MAX_PARAMS} texts, numbers, booleans or nulls"
        )));
    }
    Ok(())
}

/// `None` if the sandbox has no Python with SQLite.
async fn by_python(guest: &FileGuest, path: &str, query: &SqliteQuery) -> Result<Option<SqliteResult>, ApiError> {
    let request = json!({ "path": path, "sql": query.sql, "params": query.params, "write": query.write });
    let program = Program {
        name: "python3",
        arguments: vec!["-I".into(), "-c".into(), LOADER.into()],
        env: vec![("CABANA_SCRIPT".into(), SCRIPT.into())],
        input: request.to_string(),
        time: TIME,
        most: MAX_RESULT,
    };
    let ran = program::run(&guest.route, program).await.map_err(|error| {
        tracing::debug!(sandbox = %guest.route.id, %error, "could not run python3 in a sandbox");
        unresponsive()
    })?;
    match ran {
        Ran::Ended { output, .. } if !output.is_empty() => match serde_json::from_slice(&output) {
            Ok(Said::Unavailable { .. }) => Ok(None),
            Ok(Said::Error { error }) => Err(refused(&error)),
            Ok(Said::Result(result)) => Ok(Some(bounded(result))),
            Err(_) => Err(refused("python3 in the sandbox did not answer as it should")),
        },
        Ran::Ended { exit, errors, .. } => {
            let last = errors.lines().last().unwrap_or(&exit.status);
            Err(refused(&format!("python3 in the sandbox ended: {last}")))
        }
        Ran::Missing => Ok(None),
        Ran::Cut(_) => Err(refused("the result is too large")),
        Ran::TimedOut => Err(too_slow()),
        Ran::Lost => Err(lost()),
    }
}

/// What comes from a sandbox is not trusted to be within the limits.
fn bounded(mut result: SqliteResult) -> SqliteResult {
    result.truncated |= result.rows.len() > MAX_ROWS || result.columns.len() > MAX_COLUMNS;
    result.rows.truncate(MAX_ROWS);
    result.columns.truncate(MAX_COLUMNS);
    result
}

fn refused(why: &str) -> ApiError {
    ApiError::new(ErrorCode::SqliteError, format!("SQLite: {}", cut(why)))
}

fn too_slow() -> ApiError {
    refused(&format!("the statement took longer than {} s and was ended", TIME.as_secs()))
}

fn lost() -> ApiError {
    ApiError::new(ErrorCode::SandboxStateConflict, "The sandbox ended or was paused during the request")
}
