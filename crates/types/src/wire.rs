//! Bodies of the REST API, in E2B's wire form. Cabana's extensions are optional fields.

mod account;
mod agent;
mod attachment;
mod audit;
mod build;
mod chat;
mod doctor;
mod file;
mod gallery;
mod network;
mod pause;
mod people;
mod quota;
mod record;
mod sandbox;
mod secret;
mod service;
mod share;
mod sqlite;
mod tag;
mod team;
mod template;
mod terminal;
mod upload;
mod usage;
mod webhooks;

use serde::{Deserialize, Serialize};

use crate::ErrorCode;

pub use account::{ListedSession, Person, SessionInfo, SessionTeam, SignInCode, SignInRequest, WelcomeRequest};
pub use agent::{Agent, AgentUpdate, Model, ModelPage, ModelProvider, NewAgent, NewModelProvider};
pub use attachment::{Attachment, AttachmentPage, SyncRequest};
pub use audit::{AuditPage, AuditPrune, AuditPruned};
pub use build::{
    BuildInfo, BuildLogEntry, BuildLogPage, BuildReason, BuildStart, FileUpload, NewTemplate, RegistryCredentials,
    RequestedBuild, TemplateStep,
};
pub use chat::{
    Approval, ApprovalDecision, CancelRequest, Chat, ChatPage, ChatSandbox, ChatUpdate, Checkpoint, ForkChat,
    ForkedChat, Message, MessagePage, NewChat, NewChatSandbox, NewMessage, Restored, StartedTurn, ToolAnswer,
    ToolAnswers, ToolCall, Turn,
};
pub use doctor::{DoctorCheck, DoctorReport, DoctorState};
pub use file::{FileEntry, FileKind, FileList, FileStat, MadeDirectory, MoveFile, NewDirectory, WrittenFile};
pub use gallery::CuratedTemplate;
pub use network::{
    NetworkProxy, NetworkProxyTls, NetworkRequest, NetworkRule, NetworkStatus, NetworkTransform, SandboxNetwork,
};
pub use pause::{
    ArchiveRequest, CloneRequest, Clones, CommitRequest, ForkRequest, ForkResult, HotplugRequest, PauseRequest,
    ResizeRequest, SnapshotInfo, SnapshotRequest,
};
pub use people::{
    AcceptInvitation, Confirmation, Invitation, InvitationCode, InvitationInfo, MadeInvitation, MadeTeam, Member,
    MemberRole, NewInvitation, NewPassword, OwnTeam, PersonUpdate, Project, ProjectName, ServerUser, SessionUpdate,
    SignInMethods, TeamForOthers, TeamName, TeamOverview, UserPage, UserUpdate,
};
pub use quota::{
    LimitChanges, LimitSource, Plan, PlanChoice, PlanSettings, ProjectQuotas, QuotaExceeded, QuotaState, QuotaUser,
    TeamQuotas,
};
pub use record::{
    ActivityItem, ActivityPage, Event, LogEntry, LogLine, MaxTeamMetric, SandboxLogPage, SandboxLogs, SandboxMetric,
    SandboxesMetrics, TeamMetric,
};
pub use sandbox::{
    AutoResume, ConnectRequest, CreatorKind, ListedSandbox, NewSandbox, RefreshRequest, Sandbox, SandboxCreator,
    SandboxDetail, SandboxLifecycle, SandboxPort, SandboxState, TimeoutRequest,
};
pub use secret::{
    DeletedSecret, NewSecret, NewSigningKey, SecretBinding, SecretBindings, SecretInfo, SecretList, SecretReplacement,
    SecretUpdate, SecretView, SigningKeyChange,
};
pub use service::{
    NewService, NewServiceLink, OpenService, OpenedService, Service, ServiceLink, ServiceLogEnd, ServiceLogLines,
    ServiceUpdate,
};
pub use share::{ChatExposure, ChatShare, ExposedIn, KeyLike, NewChatShare};
pub use sqlite::{SqliteQuery, SqliteResult};
pub use tag::{
    AssignTags, AssignedTags, RemoveTags, TagAssignment, TagAssignmentPage, TagCount, TagExists, TagGroup,
    TagGroupPage, TemplateTag,
};
pub use team::{ApiKey, KeyMask, KeyName, KeyRequest, NewApiKey, Quota, QuotaLimit, QuotaUsage, Team};
pub use template::{
    Template, TemplateAlias, TemplateBuild, TemplateNames, TemplatePage, TemplateUpdate, TemplateWithBuilds,
};
pub use terminal::Terminal;
pub use upload::{UploadManifest, UploadStatus, UploadedFile};
pub use usage::{
    Price, PriceChanges, PriceList, SandboxUsage, TopUp, UsageEntry, UsageInterval, UsageReport, WalletEntry,
    WalletEntryPage, WalletInfo,
};
pub use webhooks::{DeliveryStatus, NewWebhook, Webhook, WebhookDelivery, WebhookUpdate};

/// Body of every error answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The HTTP status.
    pub code: u16,
    /// What went wrong and what to do next.
    pub message: String,
    /// The machine-readable cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Which limit is reached, and who uses it, if `error_code` is `quota_exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<QuotaExceeded>>,
}

/// Answer of `GET /status` (Cabana): what this server is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerStatus {
    /// Version of the program.
    pub version: String,
    /// The isolation backend.
    pub backend: String,
    /// Sandboxes that are up.
    pub running: u64,
    /// What the backend can do; servers before this field do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Its isolation backends; servers before this field do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub isolations: Vec<IsolationStatus>,
    /// The state of its disks; servers before this field, and those without a pool, do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageStatus>,
    /// What running sandboxes may use together; servers before this field do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityStatus>,
    /// The machine itself; servers before this field do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineStatus>,
}

/// The machine of a server, and how busy it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MachineStatus {
    /// Processors.
    pub cpu_count: u32,
    /// Processes that want to run, averaged over a minute.
    pub load: f64,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// Memory that programs can still have, MiB.
    #[serde(rename = "memoryAvailableMB")]
    pub memory_available_mb: u64,
}

/// The state of a server's disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StorageStatus {
    /// `ok`; `low`: no sandbox is created, and running ones can write little; `read_only`: the disk was full, and
    /// sandboxes cannot write until the server has mounted their disks again.
    pub state: String,
    /// MiB that are free where it is tightest.
    #[serde(rename = "freeMB")]
    pub free_mb: u64,
    /// MiB that must be free there for new sandboxes.
    #[serde(rename = "reserveMB")]
    pub reserve_mb: u64,
    /// Sandboxes whose disks are limited to a little more than what they use, until there is more space.
    pub clamped: u64,
}

/// What running sandboxes may use together. A limit of 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapacityStatus {
    /// The memory limits of all running sandboxes, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// Beyond this, no sandbox is created or resumed.
    #[serde(rename = "memoryLimitMB")]
    pub memory_limit_mb: u64,
    /// The disk limits of all running sandboxes, MiB.
    #[serde(rename = "diskMB")]
    pub disk_mb: u64,
    /// Beyond this, no sandbox is created or resumed.
    #[serde(rename = "diskLimitMB")]
    pub disk_limit_mb: u64,
}

/// An isolation backend of a server, and what it offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IsolationStatus {
    /// Its name, as `isolation` names it when a sandbox is created.
    pub name: String,
    /// Whether it is used for sandboxes that ask for none.
    pub default: bool,
    /// Sandboxes can be paused with their memory in RAM.
    pub pause_memory: bool,
    /// Their memory can be written to disk.
    pub checkpoint: bool,
    /// A paused sandbox keeps its memory over a restart of the machine.
    pub memory_outlives_reboot: bool,
    /// Directories of the host can be mounted inside.
    pub mounts: bool,
    /// What running out of memory ends: `process` or `sandbox`.
    pub out_of_memory: String,
}

/// What a server's isolation backend and storage pool can do. The rest is refused with `not_supported`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// The size of a sandbox's disk is enforced.
    pub disk_quota: bool,
    /// Sandboxes can be paused with their processes and memory.
    pub pause_memory: bool,
    /// Memory of paused sandboxes survives a reboot of the machine.
    pub memory_outlives_reboot: bool,
    /// Disks can be copied: snapshots and forks.
    pub copies: bool,
}

/// What differs between the world and what the server remembers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// In words; empty where nothing does.
    pub differences: Vec<String>,
}
