//! The contract between the host and the guest daemon beyond E2B's API: inherited descriptors, initial configuration,
//! and the paths of its control socket.

pub mod services;
pub mod tools;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{SandboxId, Secret};

/// Inherited descriptor of the listening traffic socket: E2B's API, to which the edge forwards requests.
pub const TRAFFIC_FD: i32 = 3;
/// Inherited descriptor of a sealed memory file that holds [`GuestConfig`] as JSON.
pub const CONFIG_FD: i32 = 4;
/// Inherited write end of a pipe: the guest writes one byte when it is serving, and closes it.
pub const READY_FD: i32 = 5;
/// Inherited descriptor of the listening control socket: only the host connects to it. The paths below are served there
/// and nowhere else.
pub const CONTROL_FD: i32 = 6;

/// `POST /init`: changes settings of the running guest.
pub const INIT_PATH: &str = "/init";
/// `GET /health`: 204 while the guest serves; on both sockets.
pub const HEALTH_PATH: &str = "/health";
/// `GET /activity`: an [`Activity`].
pub const ACTIVITY_PATH: &str = "/activity";
/// `GET /ready?seconds=N`: a [`Readiness`] as soon as it is known, or after N seconds if given. A sandbox that is not
/// ready by then is not checked any more.
pub const READY_PATH: &str = "/ready";
/// Lines of output in a [`Readiness`].
pub const MAX_READY_LINES: usize = 20;
/// Bytes of one of them, and of the message.
pub const MAX_READY_LINE: usize = 1024;
/// `POST /stop`: terminates every process and responds when only the guest is left.
pub const STOP_PATH: &str = "/stop";
/// Grace period of `/stop` in seconds; remaining processes are killed.
pub const STOP_SECONDS: u64 = 5;
/// Tag prefix of services: a running service does not keep a sandbox from being idle.
pub const SERVICE_TAG: &str = "service:";
/// Tag of the template's start command.
pub const START_TAG: &str = "service:start";
/// Tag of its ready command, each time it is run.
pub const READY_TAG: &str = "service:ready";
/// Tag prefix of terminals of people; a random part follows.
pub const TERMINAL_TAG: &str = "terminal:";
/// Header of `process.Process/Connect` on the control socket: the command must be a terminal of a person. The response has
/// [`DROPPED_HEADER`], and no line in the output stands for what was dropped.
pub const TERMINAL_HEADER: &str = "cabana-terminal";
/// Header of that response: how many bytes of the output are no longer kept.
pub const DROPPED_HEADER: &str = "cabana-dropped";
/// `GET /bridge?port=N` with `Upgrade: cabana-bridge`: after `101` the stream is a connection to `127.0.0.1:N` (or
/// `[::1]:N`) inside; `502` where nothing listens.
pub const BRIDGE_PATH: &str = "/bridge";
/// Protocol name of the bridge's upgrade.
pub const BRIDGE_PROTOCOL: &str = "cabana-bridge";
/// `GET /journal`: recent entries of the guest's journal, oldest first, as a list of [`JournalEntry`]. With `?last=N`, the last ones.
pub const JOURNAL_PATH: &str = "/journal";
/// Entries that the guest keeps.
pub const MAX_JOURNAL_ENTRIES: usize = 500;
/// Bytes of one entry's message.
pub const MAX_JOURNAL_MESSAGE: usize = 256;
/// `POST /trust` with a [`Trust`]: makes programs inside trust the sandbox's certificate authority, instead of an earlier one.
pub const TRUST_PATH: &str = "/trust";
/// Header of the host's `GET /metrics` requests: used bytes of the sandbox's disk.
pub const DISK_USED_HEADER: &str = "cabana-disk-used";

/// Current activity of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Running commands, without services.
    pub commands: usize,
}

/// The certificate authority that programs inside are to trust.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// Its certificate in PEM; `None` for no one.
    pub certificate: Option<String>,
}

/// Whether a sandbox is ready: its start command was started and its ready command has succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    pub ready: bool,
    /// Why it is not ready; completes "the sandbox is not ready: …".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Last output of the start command, or of the ready command if there is none; oldest line first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Exit code of the failed command, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Initial configuration of the guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestConfig {
    /// Its sandbox.
    pub sandbox_id: SandboxId,
    /// The template's id, for `E2B_TEMPLATE_ID`.
    pub template_id: String,
    /// Token that every request must carry; `None` if the sandbox was created without `secure`.
    pub access_token: Option<Secret>,
    /// Environment of every command.
    pub env_vars: BTreeMap<String, String>,
    /// Default user of commands; root if the image lacks it.
    pub default_user: String,
    /// Default working directory of commands; `None` for the user's home.
    pub default_workdir: Option<String>,
    /// Start command: a program with arguments that runs as long as the sandbox, as the default user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Vec<String>>,
    /// Ready command: a program with arguments that succeeds when the sandbox is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<String>>,
    /// Certificate, in PEM, of the authority that programs inside are to trust, if the egress proxy signs for hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// Virtual CPUs, for `/metrics`.
    pub cpu_count: u32,
    /// Memory, bytes, for `/metrics`.
    pub memory_bytes: u64,
    /// Disk, bytes, for `/metrics`.
    pub disk_bytes: u64,
}

/// An entry of the guest's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Time, microseconds since 1970.
    pub at: i64,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    pub message: String,
    /// The process concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}
