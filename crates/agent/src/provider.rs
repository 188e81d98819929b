//! Models of providers: what is sent, what comes back, and what went wrong. Everything that comes from a provider is bounded.

pub mod anthropic;
mod conversation;
pub mod demo;
mod exchange;
pub mod openai;
mod problem;
mod reader;
pub mod retry;
pub mod sse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use exchange::{HttpClient, ProviderConfig, SILENCE, http_client};

use crate::model::Model;

/// The wire that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Chat completions, which many other servers speak too.
    OpenAi,
    /// Messages.
    Anthropic,
}

impl Kind {
    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            _ => None,
        }
    }

    /// Its name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// Where the provider is that the wire is named after.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
        }
    }
}

/// The models of a provider. Nothing is sent before the first call.
pub fn open(kind: Kind, config: ProviderConfig) -> Arc<dyn Model> {
    match kind {
        Kind::OpenAi => Arc::new(openai::OpenAi::new(config)),
        Kind::Anthropic => Arc::new(anthropic::Anthropic::new(config)),
    }
}
