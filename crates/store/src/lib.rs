//! The database: teams, keys, templates, sandboxes, their events and webhooks, in SQLite. The only crate with SQL.
//!
//! All changes go through one writer, which batches waiting changes into one transaction; reads have their own
//! connections and never wait for it.

#![forbid(unsafe_code)]

pub mod activity;
pub mod build;
pub mod build_log;
pub mod cache;
mod column;
pub mod delivery;
mod egress;
pub mod error;
pub mod event;
pub mod identity;
pub mod key;
pub mod listing;
mod migrations;
pub mod sandbox;
pub mod secret;
mod setting;
pub mod snapshot;
mod store;
pub mod tag;
pub mod template;
mod transition;
pub mod webhook;
mod writer;

pub use build::{Build, BuildLimits, BuildRequest, BuildStatus, BuildTarget};
pub use build_log::{BuildLine, BuildLogQuery, LogLevel};
pub use cache::{CacheKey, CacheKind};
pub use delivery::{Attempt, Delivery, PendingDelivery, Queue, Verdict};
pub use error::Error;
pub use event::{Event, EventQuery};
pub use identity::{SealedAuthority, SigningKey};
pub use key::{ApiKey, KeyRemoval, Team};
pub use listing::{Group, Order, Position, SandboxQuery};
pub use sandbox::{Boot, Idempotency, Inserted, Sandbox};
pub use secret::{SealedSecret, SecretChange, SecretInserted, SecretRef};
pub use snapshot::{Snapshot, SnapshotInserted, SnapshotKind, SnapshotQuery, SnapshotState};
pub use store::Store;
pub use tag::{Assignment, DEFAULT_TAG, Tag};
pub use template::{ProvidedTemplate, Template};
pub use webhook::{Webhook, WebhookChange};
