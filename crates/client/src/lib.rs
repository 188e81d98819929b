//! Typed client of Cabana's API and of the guest in each sandbox. The command line uses only this.

#![forbid(unsafe_code)]

mod agents;
mod api;
mod audit;
mod chats;
mod command;
mod error;
mod exit;
mod files;
mod http;
mod mcp;
mod people;
mod query;
mod quotas;
mod sandbox;
mod secrets;
mod services;
mod shares;
mod sse;
mod templates;
mod tools;
mod uploads;
mod usage;
mod webhooks;

pub use agents::NewProvider;
pub use api::Client;
pub use audit::AuditList;
pub use cabana_http::Trust;
pub use chats::{ChatEvent, ChatList, ChatStream};
pub use command::{Command, CommandEvent, PtySize, Signal, StartCommand, StdinSink};
pub use error::{Error, Result};
pub use exit::Exit;
pub use files::{FileEntry, FileKind, FileStream};
pub use mcp::{Answers, Mcp};
pub use query::{EventQuery, ListQuery, Page};
pub use sandbox::SandboxHandle;
pub use services::{ServiceLog, ServiceLogEvent};
pub use tools::{DetachedCall, ToolCall, ToolDescription, ToolEvent};
pub use uploads::UploadFile;
