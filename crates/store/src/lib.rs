//! What is remembered: teams, keys, templates, sandboxes and what happened to them, in SQLite. The only place with SQL.
//!
//! Every change goes through one writer, which puts waiting changes into one transaction; reads have connections of their
//! own and never wait for it.

#![forbid(unsafe_code)]

pub mod activity;
mod column;
pub mod error;
pub mod event;
pub mod key;
pub mod listing;
pub mod sandbox;
mod setting;
mod store;
pub mod template;
mod writer;

pub use error::Error;
pub use event::{Event, EventQuery};
pub use key::{ApiKey, KeyRemoval, Team};
pub use listing::{Order, Position, SandboxQuery};
pub use sandbox::{Idempotency, Inserted, Sandbox, Traffic};
pub use store::Store;
pub use template::{Build, BuildStatus, Template};
