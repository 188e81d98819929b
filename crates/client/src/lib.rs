//! Typed client of Cabana's API and of the guest in each sandbox. The command line uses only this.

#![forbid(unsafe_code)]

mod api;
mod command;
mod error;
mod exit;
mod files;
mod http;
mod query;
mod sandbox;
mod secrets;
mod templates;
mod webhooks;

pub use api::Client;
pub use cabana_http::Trust;
pub use command::{Command, CommandEvent, PtySize, Signal, StartCommand, StdinSink};
pub use error::{Error, Result};
pub use exit::Exit;
pub use files::{FileEntry, FileKind, FileStream};
pub use query::{EventQuery, ListQuery, Page};
pub use sandbox::SandboxHandle;
