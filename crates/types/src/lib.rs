//! The vocabulary of Cabana: ids, the sandbox state machine, limits, error codes and wire types.
//! Pure: no IO, no clock, no HTTP library, no SQL, no Linux.

#![forbid(unsafe_code)]

#[macro_use]
mod word;

pub mod actor;
pub mod address;
pub mod billing;
pub mod chat;
mod code_enum;
pub mod egress;
pub mod env;
pub mod error;
pub mod error_code;
pub mod fact;
pub mod guest;
pub mod id;
pub mod limits;
pub mod money;
pub mod permission;
pub mod policy;
pub mod quota;
pub mod routing;
pub mod sandbox;
pub mod secret;
pub mod service;
pub mod tool;
pub mod traffic;
pub mod turn;
pub mod usage;
pub mod wire;

pub use actor::ActorId;
pub use billing::{BillingMode, EntryKind};
pub use egress::EgressPolicy;
pub use error_code::ErrorCode;
pub use fact::Fact;
pub use id::{
    AgentId, AttachmentId, BuildId, CallId, ChatId, GrantId, InvalidId, KeyId, MessageId, ProjectId, SandboxId,
    SecretId, ServiceId, SessionId, TeamId, TemplateId, TurnId, UserId, WebhookId,
};
pub use limits::Resources;
pub use money::Micros;
pub use permission::{Permission, Permissions, Role};
pub use policy::LifecyclePolicy;
pub use quota::QuotaKind;
pub use secret::Secret;
pub use traffic::Traffic;
pub use usage::{UsageKind, UsageSubject};
