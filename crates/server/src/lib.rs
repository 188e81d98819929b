//! The server: the API, the lifecycle of sandboxes, builds, webhooks and configuration.

#![forbid(unsafe_code)]

pub mod api;
pub mod auth;
mod base_template;
pub mod builds;
pub mod config;
pub mod data_dir;
mod egress;
pub mod error;
mod failpoint;
pub mod lifecycle;
pub mod local;
mod reboot;
pub mod resource_limits;
pub mod server;
pub mod vault;
pub mod webhooks;

pub use base_template::Progress;
pub use cabana_store::Boot;
pub use config::Config;
pub use data_dir::DataDir;
pub use error::Error;
pub use server::{Server, TemplateSpec, Templates};
