//! Bodies of the API for agents, models and their providers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chat::{ChatTool, TurnLimits};
use crate::{AgentId, Secret};

/// Body of `POST /agents`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewAgent {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `loop` or omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The server's default if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Instructions for the model, after the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ChatTool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<TurnLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<String>>,
}

/// Body of `PATCH /agents/{id}`. What is omitted stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// An empty text: the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ChatTool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<TurnLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<String>>,
}

/// An agent: a model with instructions and tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agent {
    pub id: AgentId,
    pub name: String,
    pub description: String,
    pub kind: String,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub model: Option<String>,
    pub system: String,
    pub tools: Vec<ChatTool>,
    pub limits: TurnLimits,
    pub suggestions: Vec<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// A model that chats can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Model {
    /// `PROVIDER/MODEL`.
    pub id: String,
    pub provider: String,
    pub name: String,
    /// Whether it is scripted and no AI.
    pub demo: bool,
    /// Whether chats use it that name none.
    pub default: bool,
    /// Tokens that fit.
    pub context_window: u64,
    /// Whether its price is known.
    pub priced: bool,
}

/// The models.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelPage {
    pub models: Vec<Model>,
    /// What a person can ask the demo for.
    pub suggestions: Vec<String>,
}

/// Body of `POST /model-providers`. A provider of this name is replaced.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewModelProvider {
    /// The first part of its models' names.
    pub name: String,
    /// `openai` or `anthropic`.
    pub kind: String,
    /// The provider's own address if omitted.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Kept sealed and never shown.
    #[serde(default)]
    pub key: Option<Secret>,
    /// Names of models that are offered.
    #[serde(default)]
    pub models: Vec<String>,
}

/// A model provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelProvider {
    pub name: String,
    pub kind: String,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub base_url: Option<String>,
    pub has_key: bool,
    pub models: Vec<String>,
    /// `server`: from the server's settings; `team`: made by this team.
    pub scope: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub created_at: Option<Timestamp>,
}
