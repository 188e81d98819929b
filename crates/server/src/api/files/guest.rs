//! Requests about files to the guest of a sandbox, and what its refusals mean to a client.

use std::sync::Arc;
use std::time::Duration;

use cabana_edge::Route;
use cabana_edge::directory::InFlightGuard;
use cabana_guest_link::ToolCallError;
use cabana_types::error::chain;
use cabana_types::guest::tools::{ListeningPort, PORTS_PATH, Refusal};
use cabana_types::tool::ToolErrorCode;
use cabana_types::{ErrorCode, SandboxId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::api::App;
use crate::api::content::unresponsive;
use crate::api::entering::Entered;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::tools::Place;

/// How long the guest may take.
const TIME: Duration = Duration::from_secs(60);
/// Bytes of a path, as the kernel takes it.
const MAX_PATH: usize = 4095;
/// Characters of a guest's words.
const MAX_WORDS: usize = 1000;

/// The guest of a running sandbox, which is not paused as long as this exists.
pub(in crate::api) struct FileGuest {
    pub(in crate::api) route: Arc<Route>,
    _in_flight: InFlightGuard,
    _place: Place,
}

/// Why the guest did not do what was asked.
#[derive(Debug)]
pub(in crate::api) enum Unanswered {
    Refused(Refusal),
    Failed(ApiError),
}

impl App {
    /// The guest of a sandbox of the caller.
    pub(in crate::api) async fn files_of(&self, caller: &Caller, id: &SandboxId) -> Result<FileGuest, ApiError> {
        let row = self.find_usable(&caller.reach, id).await?;
        let Entered { route, in_flight, .. } = self.enter(&row).await?;
        let place = self.places.take(id).await.ok_or_else(|| {
            ApiError::new(ErrorCode::ServiceUnavailable, "Too many requests use this sandbox now; try again")
        })?;
        Ok(FileGuest { route, _in_flight: in_flight, _place: place })
    }
}

impl FileGuest {
    /// Asks the guest. A refusal is an error of the API.
    pub(in crate::api) async fn ask<T: Serialize + Sync, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &T,
    ) -> Result<R, ApiError> {
        self.try_ask(path, body).await.map_err(ApiError::from)
    }

    /// Asks the guest.
    pub(in crate::api) async fn try_ask<T: Serialize + Sync, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &T,
    ) -> Result<R, Unanswered> {
        self.answer(path, self.route.link.tool(path, body)).await
    }

    /// The sockets that listen inside.
    pub(in crate::api) async fn ports(&self) -> Result<Vec<ListeningPort>, ApiError> {
        Ok(self.answer(PORTS_PATH, self.route.link.ports()).await?)
    }

    async fn answer<R>(
        &self,
        path: &str,
        asking: impl Future<Output = Result<R, ToolCallError>>,
    ) -> Result<R, Unanswered> {
        let answer = tokio::select! {
            biased;
            answer = timeout(TIME, asking) => answer,
            () = self.route.gone.cancelled() => return Err(Unanswered::Failed(gone())),
        };
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ToolCallError::Refused(refusal))) => Err(Unanswered::Refused(refusal)),
            Ok(Err(ToolCallError::TooOld)) => Err(Unanswered::Failed(too_old())),
            Ok(Err(ToolCallError::Io(_))) if self.route.gone.is_cancelled() => Err(Unanswered::Failed(gone())),
            Ok(Err(ToolCallError::Io(error))) => {
                tracing::debug!(sandbox = %self.route.id, path, error = chain(&error), "no answer of a guest about files");
                Err(Unanswered::Failed(unresponsive()))
            }
            Err(_) => Err(Unanswered::Failed(unresponsive())),
        }
    }
}

impl From<Unanswered> for ApiError {
    fn from(error: Unanswered) -> Self {
        match error {
            Unanswered::Refused(refusal) => refused(&refusal),
            Unanswered::Failed(error) => error,
        }
    }
}

/// A refusal of the guest as an answer of the API.
pub(in crate::api) fn refused(refusal: &Refusal) -> ApiError {
    let code = match refusal.code {
        ToolErrorCode::FileNotFound => ErrorCode::FileNotFound,
        ToolErrorCode::PermissionDenied => ErrorCode::PermissionDenied,
        ToolErrorCode::AlreadyExists => ErrorCode::AlreadyExists,
        ToolErrorCode::NotAFile => ErrorCode::NotAFile,
        ToolErrorCode::NotADirectory => ErrorCode::NotADirectory,
        ToolErrorCode::InvalidArguments | ToolErrorCode::TooLarge => ErrorCode::InvalidRequest,
        ToolErrorCode::DiskFull => ErrorCode::SandboxDiskFull,
        ToolErrorCode::NoRoom => ErrorCode::ServiceUnavailable,
        ToolErrorCode::Interrupted => ErrorCode::FileConflict,
        _ => ErrorCode::SandboxUnresponsive,
    };
    let mut words = cut(&refusal.message);
    if let Some(first) = words.get(..1) {
        words.replace_range(..1, &first.to_ascii_uppercase());
    }
    ApiError::new(code, words)
}

/// Words of a guest are untrusted.
pub(in crate::api) fn cut(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect()
}

/// A path that a client names.
pub(in crate::api) fn path_of(text: &str) -> Result<String, ApiError> {
    match text {
        "" => Err(ApiError::invalid("path is missing")),
        text if text.len() > MAX_PATH => Err(ApiError::invalid(format!("path is longer than {MAX_PATH} bytes"))),
        text if text.contains('\0') => Err(ApiError::invalid("path contains a NUL character")),
        text => Ok(text.to_owned()),
    }
}

fn gone() -> ApiError {
    ApiError::new(ErrorCode::SandboxStateConflict, "The sandbox ended or was paused during the request")
}

fn too_old() -> ApiError {
    ApiError::new(
        ErrorCode::NotSupported,
        "The sandbox was started by an earlier version of the server, which cannot do this; pause it with memory: false and resume \
         it, or create a new one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bounded() {
        assert_eq!(path_of("a\n\"b").unwrap(), "a\n\"b");
        for bad in ["", "a\0", &"x".repeat(MAX_PATH + 1)] {
            assert!(path_of(bad).is_err());
        }
    }

    #[test]
    fn words_of_a_guest_are_cut() {
        let refusal = Refusal {
            code: ToolErrorCode::PermissionDenied,
            message: format!("é\u{1b}[31m{}", "x".repeat(5000)),
            path: None,
            size: None,
            media_type: None,
        };
        let answer = refused(&refusal);
        assert_eq!(answer.code(), ErrorCode::PermissionDenied);
        assert!(answer.message().starts_with("é[31mx") && answer.message().chars().count() == MAX_WORDS);
    }
}
