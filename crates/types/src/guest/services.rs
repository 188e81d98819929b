//! Requests of the host for services, on the guest's control socket. A service is a command with a tag that begins with
//! [`super::SERVICE_TAG`]; what it started belongs to it, also what has left its process group: every process inherits [`MARK`].

use serde::{Deserialize, Serialize};

/// `GET /output?tag=T`: an [`Output`]. With `&after=N`, from that cursor on, else the newest. With `&max=N`, at most so many bytes; of
/// the newest, the last. With `&wait=S`, the answer comes when there is output at the cursor or the command has ended, or after S
/// seconds. With `&end=true`, output is not waited for.
pub const OUTPUT_PATH: &str = "/output";
/// `GET /listening?wait=S` with `port=P`, `tag=T` or both: a [`Listening`] as soon as something listens on the port, or, without one,
/// as soon as the service does; when the service has ended and nothing of it is left; or after S seconds.
pub const LISTENING_PATH: &str = "/listening";
/// `POST /end?tag=T&seconds=S`: terminates all processes of a service, kills what is left after S seconds, and answers 204 when none is
/// left.
pub const END_PATH: &str = "/end";
/// Variable in the environment of every process of a service: its tag. The host sets it when it starts the command.
pub const MARK: &str = "CABANA_SERVICE";
/// Longest `wait` in seconds.
pub const MAX_WAIT: u64 = 60;
/// Most bytes of one [`Output`].
pub const MAX_OUTPUT: usize = 1 << 20;

/// Output of a command, and whether it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Differs after each start of the guest: commands of an earlier one are gone.
    pub boot: String,
    /// `None` if there is no such command, or it ended so long ago that it was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandOutput>,
}

/// Output of a command that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    pub pid: u32,
    /// How it ended; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<CommandEnd>,
    /// Cursor of the first byte of `data`: so many bytes were printed before it.
    pub begin: u64,
    /// Bytes, in base 64. Standard output and standard error in the order in which they arrived.
    pub data: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// `None` if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// `exit status 1`, `signal: killed`.
    pub status: String,
}

/// What listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    pub boot: String,
    /// The port that was asked for, or the service's first; `None` if nothing listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Process that listens, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Whether it belongs to the service; `false` if no tag was given.
    #[serde(default)]
    pub own: bool,
    /// Whether a process of the service runs.
    #[serde(default)]
    pub alive: bool,
}
