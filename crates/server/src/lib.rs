//! The server: API, edge, lifecycle, auth.

#![forbid(unsafe_code)]

pub mod api;
pub mod auth;
mod base_template;
pub mod bounds;
pub mod builds;
pub mod config;
pub mod data_dir;
pub mod directory;
pub mod edge;
pub mod error;
mod failpoint;
pub mod lifecycle;
pub mod local;
pub mod server;
pub mod tls;
pub mod webhooks;

pub use base_template::Progress;
pub use cabana_store::Boot;
pub use config::Config;
pub use data_dir::DataDir;
pub use error::Error;
pub use server::{Server, TemplateSpec, Templates, serve};
