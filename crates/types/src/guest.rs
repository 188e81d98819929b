//! The contract between the host and the guest daemon beyond E2B's surface: what it inherits, its first configuration, and the
//! paths of its control socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{SandboxId, Secret};

/// Inherited descriptor of the listening socket for traffic: E2B's surface, which the edge forwards requests to.
pub const TRAFFIC_FD: i32 = 3;
/// Inherited descriptor of a sealed memory file that holds [`GuestConfig`] as JSON.
pub const CONFIG_FD: i32 = 4;
/// Inherited write end of a pipe: the guest writes one byte when it serves, and closes it.
pub const READY_FD: i32 = 5;
/// Inherited descriptor of the listening control socket: only the host connects to it. The paths below are served there and nowhere else.
pub const CONTROL_FD: i32 = 6;

/// `POST /init`: changes settings of the running guest.
pub const INIT_PATH: &str = "/init";
/// `GET /health`: 204 while the guest serves; on both sockets.
pub const HEALTH_PATH: &str = "/health";
/// `GET /activity`: an [`Activity`].
pub const ACTIVITY_PATH: &str = "/activity";
/// `GET /ready?seconds=N`: a [`Readiness`] as soon as it is decided, after so many seconds at the latest if a number is given. What is not
/// ready by then is not looked at any more.
pub const READY_PATH: &str = "/ready";
/// Lines of output in a [`Readiness`].
pub const MAX_READY_LINES: usize = 20;
/// Bytes of one of them, and of the message.
pub const MAX_READY_LINE: usize = 1024;
/// `POST /stop`: ends every process in order and answers when none is left but the guest.
pub const STOP_PATH: &str = "/stop";
/// How long that takes at most, seconds: what has not ended by then is killed.
pub const STOP_SECONDS: u64 = 5;
/// Commands whose tag begins with this are services: that they run does not keep a sandbox from being idle.
pub const SERVICE_TAG: &str = "service:";
/// Tag of the template's start command.
pub const START_TAG: &str = "service:start";
/// Tag of its ready command, each time that it is tried.
pub const READY_TAG: &str = "service:ready";
/// `GET /bridge?port=N` with `Upgrade: cabana-bridge`: after `101` the stream is a connection to `127.0.0.1:N` (or `[::1]:N`)
/// inside; `502` where nothing listens.
pub const BRIDGE_PATH: &str = "/bridge";
/// Protocol name of the bridge's upgrade.
pub const BRIDGE_PROTOCOL: &str = "cabana-bridge";
/// `GET /journal`: what the guest noted of late, oldest first, as a list of [`JournalEntry`].
pub const JOURNAL_PATH: &str = "/journal";
/// Entries that the guest keeps.
pub const MAX_JOURNAL_ENTRIES: usize = 500;
/// Bytes of one entry's message.
pub const MAX_JOURNAL_MESSAGE: usize = 256;
/// Header by which the host tells the guest, on `GET /metrics`, how many bytes of its disk are used.
pub const DISK_USED_HEADER: &str = "cabana-disk-used";

/// What the guest is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Commands that run, services not counted.
    pub commands: usize,
}

/// Whether a sandbox is ready to be used: its start command was started, and its ready command has succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// It is.
    pub ready: bool,
    /// Why it is not, in words that complete "the sandbox is not ready: …".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the start command wrote last, or where that wrote nothing the ready command; oldest line first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// The exit code of the command that failed, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Everything the guest must know when it starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestConfig {
    /// The sandbox it is in.
    pub sandbox_id: SandboxId,
    /// The template's id, for `E2B_TEMPLATE_ID`.
    pub template_id: String,
    /// Token that every request must carry; `None` for sandboxes that were created without `secure`.
    pub access_token: Option<Secret>,
    /// Environment of every command.
    pub env_vars: BTreeMap<String, String>,
    /// User of commands that name none; where the image lacks it, root.
    pub default_user: String,
    /// Working directory of commands that name none; `None` for the user's home.
    pub default_workdir: Option<String>,
    /// A program with its arguments that runs as long as the sandbox does, as the default user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Vec<String>>,
    /// A program with its arguments that succeeds when the sandbox is ready to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<String>>,
    /// Virtual CPUs, for `/metrics`.
    pub cpu_count: u32,
    /// Memory, bytes, for `/metrics`.
    pub memory_bytes: u64,
    /// Disk, bytes, for `/metrics`.
    pub disk_bytes: u64,
}

/// Something that the guest noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// When, microseconds since 1970.
    pub at: i64,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What.
    pub message: String,
    /// The process that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}
