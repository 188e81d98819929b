//! The vocabulary of Cabana: ids, the sandbox state machine, limits, error codes and wire types.
//! Pure: no IO, no clock, no HTTP library, no SQL, no Linux.

#![forbid(unsafe_code)]

pub mod address;
pub mod egress;
pub mod env;
pub mod error;
pub mod error_code;
pub mod fact;
pub mod guest;
pub mod id;
pub mod limits;
pub mod policy;
pub mod routing;
pub mod sandbox;
pub mod secret;
pub mod traffic;
pub mod wire;

pub use egress::EgressPolicy;
pub use error_code::ErrorCode;
pub use fact::Fact;
pub use id::{BuildId, InvalidId, KeyId, SandboxId, SecretId, TeamId, TemplateId, WebhookId};
pub use limits::Resources;
pub use policy::LifecyclePolicy;
pub use secret::Secret;
pub use traffic::Traffic;
