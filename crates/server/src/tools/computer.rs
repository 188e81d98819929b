//! A sandbox as tools see it: its guest, reached over the control port.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cabana_agent::computer::{Command, Computer, ComputerError, Link, NewCommand, NewLink, Signal};
use cabana_edge::Route;
use cabana_edge::directory::InFlightGuard;
use cabana_guest_link::ToolCallError;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::guest::tools::{
    EDIT_PATH, Edit, EditAnswer, FIND_PATH, Find, FindAnswer, GREP_PATH, Grep, GrepAnswer, LIST_PATH, List, ListAnswer,
    READ_PATH, Read, ReadAnswer, STAT_PATH, Stat, StatAnswer,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::places::Place;
use super::process;

/// Makes links to files of sandboxes.
pub(crate) trait DownloadLinks: Send + Sync {
    /// A link that anyone can use until it expires.
    fn make(&self, sandbox: &SandboxId, link: &NewLink) -> Link;
}

/// A running sandbox. It is not paused as long as this exists.
pub(crate) struct SandboxComputer {
    pub(crate) route: Arc<Route>,
    pub(crate) links: Arc<dyn DownloadLinks>,
    /// Time that it took to bring the sandbox back from the archive.
    pub(crate) extra_time: Duration,
    pub(crate) _in_flight: InFlightGuard,
    pub(crate) _place: Place,
}

impl SandboxComputer {
    async fn tool<T: Serialize + Sync, R: DeserializeOwned>(&self, path: &str, body: &T) -> Result<R, ComputerError> {
        let answer = tokio::select! {
            biased;
            answer = self.route.link.tool(path, body) => answer,
            () = self.route.gone.cancelled() => return Err(gone()),
        };
        answer.map_err(|error| match error {
            ToolCallError::Refused(refusal) => ComputerError::Refused(refusal),
            ToolCallError::TooOld => unavailable(
                "the sandbox was started by an earlier version of the server, which has no tools; pause it with memory: false \
                 and resume it, or create a new one",
            ),
            ToolCallError::Io(_) if self.route.gone.is_cancelled() => gone(),
            ToolCallError::Io(error) => {
                tracing::debug!(sandbox = %self.route.id, path, error = chain(&error), "no answer of a guest to a tool");
                unresponsive(&chain(&error))
            }
        })
    }
}

#[async_trait]
impl Computer for SandboxComputer {
    fn sandbox_id(&self) -> &str {
        self.route.id.as_str()
    }

    fn extra_time(&self) -> Duration {
        self.extra_time
    }

    async fn read(&self, request: Read) -> Result<ReadAnswer, ComputerError> {
        self.tool(READ_PATH, &request).await
    }

    async fn stat(&self, request: Stat) -> Result<StatAnswer, ComputerError> {
        self.tool(STAT_PATH, &request).await
    }

    async fn list(&self, request: List) -> Result<ListAnswer, ComputerError> {
        self.tool(LIST_PATH, &request).await
    }

    async fn edit(&self, request: Edit) -> Result<EditAnswer, ComputerError> {
        self.tool(EDIT_PATH, &request).await
    }

    async fn grep(&self, request: Grep) -> Result<GrepAnswer, ComputerError> {
        self.tool(GREP_PATH, &request).await
    }

    async fn find(&self, request: Find) -> Result<FindAnswer, ComputerError> {
        self.tool(FIND_PATH, &request).await
    }

    async fn start(&self, command: NewCommand) -> Result<Box<dyn Command>, ComputerError> {
        process::start(&self.route.link, self.route.gone.clone(), command).await
    }

    async fn attach(&self, tag: &str) -> Result<Option<Box<dyn Command>>, ComputerError> {
        process::attach(&self.route.link, self.route.gone.clone(), tag).await
    }

    async fn signal(&self, tag: &str, signal: Signal) -> Result<bool, ComputerError> {
        process::signal(&self.route.link, tag, signal).await
    }

    async fn download_link(&self, link: NewLink) -> Result<Link, ComputerError> {
        Ok(self.links.make(&self.route.id, &link))
    }
}

/// The sandbox cannot be used, and waiting does not help.
pub(crate) fn unavailable(message: impl Into<String>) -> ComputerError {
    ComputerError::Unavailable { message: message.into(), retryable: false }
}

pub(super) fn gone() -> ComputerError {
    ComputerError::unavailable("the sandbox ended or was paused during the call")
}

/// The guest does not respond as it should. Its words are untrusted: they are cut.
pub(super) fn unresponsive(words: &str) -> ComputerError {
    let words: String = words.chars().filter(|c| !c.is_control()).take(200).collect();
    ComputerError::unavailable(format!("the sandbox does not respond: {words}"))
}
