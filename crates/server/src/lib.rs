//! The server: the API, the lifecycle of sandboxes, builds, webhooks and configuration.

#![forbid(unsafe_code)]

pub mod api;
mod assets;
pub mod audit;
pub mod auth;
mod base_template;
pub mod builds;
mod chats;
pub mod config;
pub mod data_dir;
pub mod doctor;
mod egress;
pub mod error;
mod failpoint;
mod gallery;
mod guest_process;
pub mod lifecycle;
mod live;
pub mod local;
mod machine_status;
mod rater;
mod reboot;
pub mod resource_limits;
pub mod server;
mod services;
pub mod telemetry;
mod terminals;
mod tools;
pub mod vault;
pub mod webhooks;

pub use assets::{Assets, AssetsDirectory, NoAssets};
pub use base_template::Progress;
pub use cabana_store::Boot;
pub use config::Config;
pub use data_dir::DataDir;
pub use error::Error;
pub use server::{Server, TemplateSpec, Templates};
