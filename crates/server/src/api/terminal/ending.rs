//! Why a terminal ends, as its client is told: a frame with the reason, then the code of the closing frame.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::ws::Message;
use cabana_edge::Route;
use cabana_types::sandbox::State;
use cabana_types::{ErrorCode, SandboxId};
use connectrpc::ConnectError;
use serde::Serialize;
use tokio::time::timeout;

use super::shell;
use crate::api::App;
use crate::api::entering::EnterError;
use crate::error::ApiError;
use crate::live::Goodbye;

/// The guest dies a moment before the server knows it.
const LEARN_TIME: Duration = Duration::from_secs(5);

/// What has ended is not there any more, or never was.
const GONE: u16 = 4404;
/// The sandbox was paused: resume it and connect again.
const PAUSED: u16 = 4409;
const TOO_MANY: u16 = 4429;
const INVALID: u16 = 4400;
const TRY_AGAIN: u16 = 1013;

/// How a terminal ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// The frame before the closing one, if the client can be told.
    ended: Option<Ended>,
    pub(super) goodbye: Goodbye,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    exit_code: Option<i32>,
    reason: Option<String>,
}

impl Ending {
    /// The shell has exited, or was ended by a signal.
    pub(super) fn exited(how: Result<i32, String>) -> Self {
        let ended = match how {
            Ok(code) => Ended { exit_code: Some(code), reason: None },
            Err(status) => Ended { exit_code: None, reason: Some(format!("the shell was ended: {status}")) },
        };
        Self { ended: Some(ended), goodbye: Goodbye::new(1000, "the shell has ended") }
    }

    /// The terminal does not exist.
    pub(super) fn unknown(pid: u32) -> Self {
        Self::because(GONE, format!("there is no terminal {pid}; it has ended"))
    }

    pub(super) fn too_many(text: String) -> Self {
        Self::because(TOO_MANY, text)
    }

    /// The reason in full, and as much as fits of it in the closing frame.
    fn because(code: u16, reason: String) -> Self {
        let goodbye = Goodbye::Close { code, reason: Cow::Owned(reason.clone()) };
        Self { ended: Some(Ended { exit_code: None, reason: Some(reason) }), goodbye }
    }

    /// The frame that says it.
    pub(super) fn frame(&self) -> Option<Message> {
        #[derive(Serialize)]
        struct Frame<'a> {
            ended: &'a Ended,
        }
        let ended = self.ended.as_ref()?;
        Some(Message::Text(serde_json::to_string(&Frame { ended }).unwrap_or_default().into()))
    }
}

impl From<Goodbye> for Ending {
    fn from(goodbye: Goodbye) -> Self {
        Self { ended: None, goodbye }
    }
}

impl From<ApiError> for Ending {
    fn from(error: ApiError) -> Self {
        let code = match error.code() {
            ErrorCode::SandboxNotFound => GONE,
            ErrorCode::InvalidRequest => INVALID,
            _ => TRY_AGAIN,
        };
        Self::because(code, error.message().to_owned())
    }
}

impl From<EnterError> for Ending {
    fn from(error: EnterError) -> Self {
        ApiError::from(error).into()
    }
}

/// The guest refused, or its stream broke off.
pub(super) async fn refused(app: &App, route: &Route, error: Option<ConnectError>) -> Ending {
    use connectrpc::ErrorCode as Code;
    if let Some(error) = error {
        let words = || shell::shown(error.message.as_deref().unwrap_or_default());
        match error.code {
            Code::InvalidArgument => return Ending::because(INVALID, words()),
            Code::PermissionDenied => return Ending::because(INVALID, words()),
            Code::ResourceExhausted => return Ending::too_many(words()),
            // Another socket of the terminal waited for this one.
            Code::Aborted => return Goodbye::TOO_SLOW.into(),
            _ => tracing::debug!(sandbox = %route.id, error = words(), "the stream of a terminal broke off"),
        }
    }
    match timeout(LEARN_TIME, route.gone.cancelled()).await {
        Ok(()) => gone(app, &route.id).await,
        Err(_) => Ending::because(TRY_AGAIN, "the sandbox does not respond; connect again".to_owned()),
    }
}

/// The sandbox stopped running.
pub(super) async fn gone(app: &App, id: &SandboxId) -> Ending {
    let again = || Ending::because(TRY_AGAIN, "the sandbox was paused and runs again; connect again".to_owned());
    match app.store.sandbox(id).await.map(|row| row.map(|row| row.state)) {
        Ok(Some(State::Ending { cause } | State::Ended { cause } | State::Failed { cause })) => {
            Ending::because(GONE, format!("the sandbox {}", cause.describe()))
        }
        Ok(Some(
            State::Pausing { why, .. }
            | State::Paused { why, .. }
            | State::Resuming { why, .. }
            | State::Archiving { why, .. },
        )) => Ending {
            ended: Some(Ended { exit_code: None, reason: Some(format!("the sandbox {}", why.describe())) }),
            goodbye: Goodbye::new(PAUSED, "paused"),
        },
        Ok(Some(State::Creating | State::Running)) => again(),
        Ok(None) => Ending::because(GONE, "the sandbox has ended".to_owned()),
        Err(error) => ApiError::from(error).into(),
    }
}
