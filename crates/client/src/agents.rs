//! Agents, models and model providers, one method for each call.

use cabana_types::wire::{Agent, ModelPage, ModelProvider, NewAgent};
use cabana_types::{AgentId, Secret};
use http::Method;
use serde::{Deserialize, Serialize};

use crate::api::{Client, to_json};
use crate::error::Result;
use crate::query::quote;

/// A model provider to add.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewProvider {
    /// The first part of its models' names.
    pub name: String,
    /// `openai` or `anthropic`.
    pub kind: String,
    /// The provider's own address if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    pub models: Vec<String>,
}

impl Client {
    /// The agents, by name.
    pub async fn agents(&self) -> Result<Vec<Agent>> {
        #[derive(Deserialize)]
        struct Agents {
            agents: Vec<Agent>,
        }
        Ok(self.fetch::<Agents>("list the agents", "/agents").await?.agents)
    }

    /// An agent.
    pub async fn agent(&self, id: &AgentId) -> Result<Agent> {
        self.fetch("get the agent", &format!("/agents/{id}")).await
    }

    /// Makes an agent.
    pub async fn create_agent(&self, new: &NewAgent) -> Result<Agent> {
        let action = "create an agent";
        self.call(action, self.request(Method::POST, "/agents", Some(to_json(action, new)?))?).await
    }

    /// Deletes an agent.
    pub async fn delete_agent(&self, id: &AgentId) -> Result<()> {
        self.call_empty("delete the agent", self.request(Method::DELETE, &format!("/agents/{id}"), None)?).await
    }

    /// The models that chats can use.
    pub async fn models(&self) -> Result<ModelPage> {
        self.fetch("list the models", "/models").await
    }

    /// The model providers.
    pub async fn model_providers(&self) -> Result<Vec<ModelProvider>> {
        #[derive(Deserialize)]
        struct Providers {
            providers: Vec<ModelProvider>,
        }
        Ok(self.fetch::<Providers>("list the model providers", "/model-providers").await?.providers)
    }

    /// Adds a model provider, or replaces the one of this name.
    pub async fn add_model_provider(&self, new: &NewProvider) -> Result<ModelProvider> {
        let action = "add the model provider";
        self.call(action, self.request(Method::POST, "/model-providers", Some(to_json(action, new)?))?).await
    }

    /// Removes a model provider.
    pub async fn delete_model_provider(&self, name: &str) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/model-providers/{}", quote(name)), None)?;
        self.call_empty("remove the model provider", request).await
    }
}
