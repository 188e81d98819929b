//! What a turn needs of a model: a request with a conversation and tools, an answer that comes in pieces. Providers implement [`Model`].

use std::time::Duration;

use async_trait::async_trait;
use cabana_types::chat::StopReason;
use cabana_types::tool::ToolImage;
use serde_json::Value;
use tokio::sync::mpsc;

/// A model that can be called.
#[async_trait]
pub trait Model: Send + Sync {
    /// Calls the model once. Pieces of the answer are sent as they come, in order; the answer has all of them. Dropping the future ends
    /// the call. An error may come after pieces.
    async fn call(&self, request: &ModelRequest, pieces: &mpsc::Sender<Piece>) -> Result<Answer, ModelError>;
}

/// What a model is asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// The provider's name of the model.
    pub model: String,
    pub system: String,
    pub messages: Vec<ModelMessage>,
    pub tools: Vec<ToolDefinition>,
    pub max_output_tokens: Option<u32>,
}

/// A message of a conversation, oldest first. A message with calls is followed by their results.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelMessage {
    User(Vec<UserPart>),
    Assistant(Said),
    Results(Vec<CallResult>),
}

/// A piece of a person's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserPart {
    Text(String),
    Image(ToolImage),
}

/// What the model said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    pub text: String,
    pub calls: Vec<ModelCall>,
    /// What the provider wants back as it was, such as thinking blocks with signatures.
    pub raw: Option<Value>,
}

/// A call of a tool as a model writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// The provider's name of the call.
    pub id: String,
    pub name: String,
    /// JSON, if the model made no mistake.
    pub arguments: String,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The provider's name of the call.
    pub id: String,
    pub name: String,
    pub output: String,
    pub is_error: bool,
    pub images: Vec<ToolImage>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// A JSON schema of an object.
    pub schema: Value,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Reasoning(String),
}

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<ModelCall>,
    pub raw: Option<Value>,
    pub stop: StopReason,
    pub tokens: Tokens,
}

/// Tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All that the model read, cached ones included.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

/// Why a call of a model failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorCode {
    /// The provider has too much to do, or limits the rate (429, 529).
    Overloaded,
    /// The provider does not respond, or with a failure of its own (5xx).
    Unavailable,
    /// The key is missing, wrong or revoked, or has no money (401, 402, 403).
    KeyRefused,
    /// There is no such model (404).
    NotFound,
    /// The conversation is longer than the model can read.
    ContextTooLong,
    /// The provider does not accept the request (other 4xx).
    Rejected,
    /// The answer broke off.
    CutOff,
    /// Nothing came for too long.
    Silent,
    /// What came is not what the wire says.
    Garbled,
    /// The answer is larger than what is kept.
    TooLarge,
}

impl ModelErrorCode {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overloaded => "model_overloaded",
            Self::Unavailable => "model_unavailable",
            Self::KeyRefused => "model_key_refused",
            Self::NotFound => "model_not_found",
            Self::ContextTooLong => "context_too_long",
            Self::Rejected => "model_rejected_request",
            Self::CutOff => "model_cut_off",
            Self::Silent => "model_silent",
            Self::Garbled => "model_garbled",
            Self::TooLarge => "model_answer_too_large",
        }
    }

    /// Whether the same call may succeed a little later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Overloaded | Self::Unavailable | Self::CutOff | Self::Silent | Self::Garbled)
    }
}

/// Why a call of a model failed, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub code: ModelErrorCode,
    /// What happened; the provider's own words are cut and are never trusted.
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// When the provider wants to be asked again.
    pub retry_after: Option<Duration>,
}
