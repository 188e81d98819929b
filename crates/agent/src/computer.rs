//! What tools need of a sandbox: its files, its commands, and links to its files. The server implements it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cabana_types::guest::tools as guest;
use cabana_types::tool::ToolErrorCode;
use serde_json::Value;

/// Finds, creates and changes the sandboxes that calls use.
#[async_trait]
pub trait Computers: Send + Sync {
    /// The sandbox that a call names, running: a paused one is resumed. `None` for the default one.
    async fn open(&self, sandbox: Option<&str>) -> Result<Arc<dyn Computer>, ComputerError>;

    /// Carries out a lifecycle tool. The arguments fit its schema.
    async fn lifecycle(&self, tool: &'static str, arguments: Value) -> Result<LifecycleDone, ComputerError>;

    /// Carries out a tool for services of a sandbox that is open. The arguments fit its schema.
    async fn service(
        &self,
        sandbox: &str,
        tool: &'static str,
        arguments: Value,
    ) -> Result<LifecycleDone, ComputerError>;
}

/// What a tool did that is not done in a sandbox itself.
#[derive(Debug, Clone)]
pub struct LifecycleDone {
    /// The sandbox concerned, if it was one.
    pub sandbox_id: Option<String>,
    /// Text for the model.
    pub output: String,
    /// The same for programs.
    pub data: Value,
}

/// A running sandbox. It is not paused while this exists.
#[async_trait]
pub trait Computer: Send + Sync {
    /// Its id.
    fn sandbox_id(&self) -> &str;

    /// Time beyond the usual limit that it took to resume the sandbox from the archive.
    fn extra_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads a file.
    async fn read(&self, request: guest::Read) -> Result<guest::ReadAnswer, ComputerError>;
    /// Describes what is at a path.
    async fn stat(&self, request: guest::Stat) -> Result<guest::StatAnswer, ComputerError>;
    /// Lists a directory.
    async fn list(&self, request: guest::List) -> Result<guest::ListAnswer, ComputerError>;
    /// Changes files: all or none.
    async fn edit(&self, request: guest::Edit) -> Result<guest::EditAnswer, ComputerError>;
    /// Searches the content of files.
    async fn grep(&self, request: guest::Grep) -> Result<guest::GrepAnswer, ComputerError>;
    /// Searches the names of files.
    async fn find(&self, request: guest::Find) -> Result<guest::FindAnswer, ComputerError>;
    /// Starts a command.
    async fn start(&self, command: NewCommand) -> Result<Box<dyn Command>, ComputerError>;
    /// The command with this tag, with its recent output; `None` if there is none.
    async fn attach(&self, tag: &str) -> Result<Option<Box<dyn Command>>, ComputerError>;
    /// Signals the process group of the command with this tag; `false` if it does not run.
    async fn signal(&self, tag: &str, signal: Signal) -> Result<bool, ComputerError>;
    /// Makes a link by which anyone can download a file, or a directory as an archive.
    async fn download_link(&self, link: NewLink) -> Result<Link, ComputerError>;
}

/// A command to start: a script for a login shell.
#[derive(Debug, Clone, Default)]
pub struct NewCommand {
    pub script: String,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    /// Standard input; empty if unset.
    pub stdin: Option<String>,
    /// By which it is found again.
    pub tag: String,
    /// Name of the file that gets all output.
    pub output_file: String,
    /// Bytes of output after which the file is made.
    pub output_after: u64,
}

/// A started command.
#[async_trait]
pub trait Command: Send {
    /// The next thing that it does; `None` if the connection to it is lost.
    async fn next(&mut self) -> Result<Option<CommandEvent>, ComputerError>;
}

/// What a command does.
#[derive(Debug, Clone)]
pub enum CommandEvent {
    /// It was started.
    Started { pid: u32 },
    /// It printed something.
    Output(OutputStream, Bytes),
    /// Output was lost before it was read.
    Dropped,
    /// It ended.
    Ended(Exit),
}

/// Where output was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// `exit status 1`, `signal: killed`.
    pub status: String,
}

/// A signal for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Term,
    Kill,
}

/// A link to make.
#[derive(Debug, Clone)]
pub struct NewLink {
    /// Absolute path of a file or directory.
    pub path: String,
    pub directory: bool,
    /// Name that the downloaded file gets.
    pub name: String,
    pub expires_in: Duration,
}

/// A link to a file.
#[derive(Debug, Clone)]
pub struct Link {
    pub url: String,
    /// RFC 3339.
    pub expires_at: String,
}

/// Why a sandbox did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ComputerError {
    /// The guest refused; nothing was changed.
    #[error("{}", .0.message)]
    Refused(guest::Refusal),
    /// The sandbox cannot be used.
    #[error("{message}")]
    Unavailable {
        message: String,
        /// Whether it may be possible later.
        retryable: bool,
    },
    /// Any other reason.
    #[error("{message}")]
    Failed { code: ToolErrorCode, message: String, hint: String },
}

impl ComputerError {
    /// The sandbox cannot be used now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), retryable: true }
    }
}
