//! The database: teams, keys, templates, sandboxes, their events and webhooks, chats, in SQLite. The only crate with SQL.
//!
//! All changes go through one writer, which batches waiting changes into one transaction; reads have their own
//! connections and never wait for it.

#![forbid(unsafe_code)]

pub mod activity;
pub mod agent;
pub mod attachment;
pub mod audit;
pub mod build;
pub mod build_log;
pub mod cache;
pub mod chat;
pub mod chat_call;
pub mod chat_event;
pub mod chat_share;
pub mod checkpoint;
mod column;
pub mod delivery;
mod egress;
pub mod error;
pub mod event;
pub mod feed;
pub mod grant;
pub mod identity;
pub mod invitation;
pub mod key;
pub mod listing;
pub mod member;
pub mod message;
mod migrations;
pub mod model_provider;
pub mod placeholder;
pub mod plan;
mod policy_text;
pub mod project;
pub mod quota;
pub mod sandbox;
pub mod secret;
pub mod service;
pub mod session;
mod setting;
pub mod snapshot;
mod store;
pub mod tag;
pub mod team;
pub mod template;
mod tombstone;
pub mod tool_call;
mod transition;
pub mod turn;
pub mod user;
pub mod webhook;
mod writer;

pub use agent::{AgentPut, AgentRow};
pub use attachment::AttachmentRow;
pub use audit::{AuditQuery, NewAuditEntry, Pruned};
pub use build::{Build, BuildLimits, BuildRequest, BuildStatus, BuildTarget};
pub use build_log::{BuildLine, BuildLogQuery, LogLevel};
pub use cache::{CacheKey, CacheKind};
pub use chat::{ChatChange, ChatCommit, ChatCommitted, ChatQuery, ChatRequest, ChatRow, ChatSandboxRow, Summary};
pub use chat_call::CallRow;
pub use chat_event::EventRow;
pub use chat_share::ChatShareRow;
pub use checkpoint::CheckpointRow;
pub use delivery::{Attempt, Delivery, PendingDelivery, Queue, Verdict};
pub use error::Error;
pub use event::{Event, EventQuery};
pub use feed::{Change, Changes, NewEvent};
pub use grant::{Grant, GrantKind};
pub use identity::{SealedAuthority, SigningKey};
pub use invitation::{Accepted, Accepting, Invitation, InvitationState};
pub use key::{ApiKey, KeyRemoval, Team};
pub use listing::{Group, Order, Position, SandboxQuery};
pub use member::{Changer, MemberChange, MemberRow, People, ProjectMemberRow};
pub use message::MessageRow;
pub use model_provider::ProviderRow;
pub use placeholder::SealedPlaceholder;
pub use plan::{BUILT_IN_PLAN, PlanRemoval, PlanRow};
pub use project::{DEFAULT_PROJECT, Project, ProjectMemberSet, ProjectRemoval};
pub use quota::QuotaUse;
pub use sandbox::{Boot, Idempotency, Inserted, Sandbox};
pub use secret::{SealedSecret, SecretChange, SecretInserted, SecretRef};
pub use service::{LastRun, RunEnd, Service, ServicePut, ServiceSettings};
pub use session::Session;
pub use snapshot::{Snapshot, SnapshotInserted, SnapshotKind, SnapshotQuery, SnapshotState};
pub use store::Store;
pub use tag::{Assignment, DEFAULT_TAG, Tag};
pub use team::{TeamInUse, TeamOverview, TeamRemoval};
pub use template::{ProvidedTemplate, Template};
pub use tool_call::ToolCall;
pub use turn::TurnRow;
/// Id and name of the team that a server begins with. It is the operator's.
pub const ROOT_TEAM: &str = "default";

pub use user::{NewUser, User, UserChange, UserChanged};
pub use webhook::{Webhook, WebhookChange};
