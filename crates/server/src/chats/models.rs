//! Models that chats can use: those of the operator's providers, those of a team's own, and the demo.

mod demo;
mod price;

use std::collections::BTreeSet;
use std::sync::Arc;

use cabana_agent::model::Model;
use cabana_agent::provider::{self, HttpClient, Kind, ProviderConfig, SILENCE, http_client};
use cabana_http::{AddressPolicy, Trust};
use cabana_store::{ProviderRow, Store};
use cabana_types::chat::DEMO_MODEL;
use cabana_types::error::chain;
use cabana_types::wire::{Model as ListedModel, ModelPage, ModelProvider};
use cabana_types::{Secret, TeamId};

use crate::config::{self, DEMO, Price, check_model};
use crate::error::short;
use crate::vault::ProviderKeys;

/// Tokens that fit into a model of which nothing is known.
const WINDOW: u64 = 128_000;
const DEMO_WINDOW: u64 = 32_000;
/// Names of models in a message.
const NAMED: usize = 20;

/// All providers.
pub(crate) struct Models {
    config: config::Models,
    store: Store,
    keys: ProviderKeys,
    /// For providers of the operator.
    anywhere: HttpClient,
    /// For providers of teams.
    public: HttpClient,
    demo: Arc<dyn Model>,
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Models").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A model that can be called.
#[derive(Clone)]
pub(crate) struct Resolved {
    /// `PROVIDER/MODEL`.
    pub(crate) id: String,
    pub(crate) model: Arc<dyn Model>,
    /// The provider's name of it.
    pub(crate) name: String,
    /// Tokens that fit.
    pub(crate) window: u64,
    pub(crate) price: Option<Price>,
    /// Whether it is scripted and no AI.
    pub(crate) demo: bool,
}

/// There is no such model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelUnknown {
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: String,
}

/// A provider, and the names of its models.
struct Known {
    name: String,
    models: Vec<String>,
}

impl Models {
    /// Nothing is sent to any provider.
    pub(crate) fn open(config: &config::Models, store: Store, keys: ProviderKeys) -> Arc<Self> {
        let client = |addresses| http_client(Trust::default(), addresses, SILENCE);
        Arc::new(Self {
            config: config.clone(),
            store,
            keys,
            anywhere: client(AddressPolicy::Internal),
            public: client(AddressPolicy::public()),
            demo: demo::model(),
        })
    }

    /// The model of chats that name none.
    pub(crate) fn default_model(&self) -> &str {
        &self.config.default
    }

    /// Whether a provider of the operator has this name.
    pub(crate) fn is_servers(&self, provider: &str) -> bool {
        self.config.providers.contains_key(provider)
    }

    /// Finds a model. Providers of teams are read each time: a key that was replaced or revoked is not used again.
    pub(crate) async fn resolve(&self, team: &TeamId, id: &str) -> Result<Resolved, ModelUnknown> {
        let (provider, name) = check_model(id).map_err(|message| ModelUnknown { message, hint: list_hint() })?;
        if provider == DEMO {
            return match id == DEMO_MODEL {
                true => Ok(self.resolved(id, name, Arc::clone(&self.demo))),
                false => Err(no_model(provider, name, &[name_of(DEMO_MODEL).to_owned()])),
            };
        }
        if let Some(found) = self.config.providers.get(provider) {
            check_offered(provider, name, &found.models)?;
            let key = found.key.clone();
            return Ok(self.resolved(id, name, connect(found.kind, found.base_url.as_deref(), key, &self.anywhere)));
        }
        let row = self.store.provider(team, provider).await.map_err(|error| failed(&error))?;
        let Some(row) = row else { return Err(self.no_provider(team, provider).await) };
        check_offered(provider, name, &row.models)?;
        Ok(self.resolved(id, name, self.team_model(&row)?))
    }

    fn team_model(&self, row: &ProviderRow) -> Result<Arc<dyn Model>, ModelUnknown> {
        let name = &row.name;
        let again = |message: String| ModelUnknown { message, hint: "Set it again with POST /model-providers".into() };
        let kind = Kind::parse(&row.kind).ok_or_else(|| again(format!("Provider {name} has no known kind")))?;
        let key = match &row.key {
            Some(sealed) => Some(self.keys.open(&row.team, name, row.base_url.as_deref(), sealed).map_err(|error| {
                tracing::error!(provider = name, %error, "the key of a model provider cannot be read; set it again");
                again(format!("The key of provider {name} cannot be read"))
            })?),
            None => None,
        };
        Ok(connect(kind, row.base_url.as_deref(), key, &self.public))
    }

    fn resolved(&self, id: &str, name: &str, model: Arc<dyn Model>) -> Resolved {
        Resolved {
            id: id.to_owned(),
            model,
            name: name.to_owned(),
            window: self.window(id),
            price: self.config.prices.get(id).copied(),
            demo: id == DEMO_MODEL,
        }
    }

    /// Tokens that fit into a model.
    fn window(&self, id: &str) -> u64 {
        let usual = if id == DEMO_MODEL { DEMO_WINDOW } else { WINDOW };
        self.config.windows.get(id).copied().unwrap_or(usual)
    }

    /// The models that a team can choose from by name. A provider may have others.
    pub(crate) async fn list(&self, team: &TeamId) -> Result<ModelPage, cabana_store::Error> {
        let mut ids = vec![DEMO_MODEL.to_owned()];
        let agents = self.store.agents(team).await?;
        let mentioned: BTreeSet<&str> = [self.config.default.as_str()]
            .into_iter()
            .chain(self.config.prices.keys().map(String::as_str))
            .chain(self.config.windows.keys().map(String::as_str))
            .chain(agents.iter().filter_map(|agent| agent.model.as_deref()))
            .collect();
        for Known { name, models } in self.known(team).await? {
            ids.extend(models.iter().map(|model| format!("{name}/{model}")));
            if models.is_empty() {
                let own = |id: &&&str| id.split_once('/').is_some_and(|(provider, _)| provider == name);
                ids.extend(mentioned.iter().filter(own).map(|id| (*id).to_owned()));
            }
        }
        Ok(ModelPage { models: ids.iter().map(|id| self.listed(id)).collect(), suggestions: demo::suggestions() })
    }

    fn listed(&self, id: &str) -> ListedModel {
        let demo = id == DEMO_MODEL;
        ListedModel {
            id: id.to_owned(),
            provider: id.split_once('/').map_or(id, |(provider, _)| provider).to_owned(),
            name: if demo { "Demo (scripted, not an AI)".into() } else { name_of(id).to_owned() },
            demo,
            default: id == self.config.default,
            context_window: self.window(id),
            priced: demo || self.config.prices.contains_key(id),
        }
    }

    /// The operator's and the team's providers. Where both have a name, it is the operator's.
    async fn known(&self, team: &TeamId) -> Result<Vec<Known>, cabana_store::Error> {
        let servers = self.config.providers.iter();
        let mut known: Vec<Known> =
            servers.map(|(name, found)| Known { name: name.clone(), models: found.models.clone() }).collect();
        let rows = self.store.providers(team).await?.into_iter().filter(|row| !self.is_servers(&row.name));
        known.extend(rows.map(|row| Known { name: row.name, models: row.models }));
        Ok(known)
    }

    /// The providers without their keys, the operator's first.
    pub(crate) async fn providers(&self, team: &TeamId) -> Result<Vec<ModelProvider>, cabana_store::Error> {
        let servers = self.config.providers.iter().map(|(name, found)| ModelProvider {
            name: name.clone(),
            kind: found.kind.as_str().into(),
            // Where the operator's own servers are is not for teams.
            base_url: None,
            has_key: found.key.is_some(),
            models: found.models.clone(),
            scope: "server".into(),
            created_at: None,
        });
        let mut all: Vec<ModelProvider> = servers.collect();
        all.extend(self.store.providers(team).await?.iter().map(described));
        Ok(all)
    }

    async fn no_provider(&self, team: &TeamId, provider: &str) -> ModelUnknown {
        let known = match self.known(team).await {
            Ok(known) => known,
            Err(error) => return failed(&error),
        };
        let names: Vec<&str> = [DEMO].into_iter().chain(known.iter().map(|known| known.name.as_str())).collect();
        let message = format!("There is no model provider {:?}; there are {}", short(provider), names.join(", "));
        ModelUnknown { message, hint: "Add one with POST /model-providers, or choose a model of GET /models".into() }
    }
}

/// A team's provider without its key.
pub(crate) fn described(row: &ProviderRow) -> ModelProvider {
    ModelProvider {
        name: row.name.clone(),
        kind: row.kind.clone(),
        base_url: row.base_url.clone(),
        has_key: row.key.is_some(),
        models: row.models.clone(),
        scope: "team".into(),
        created_at: Some(row.created_at),
    }
}

fn connect(kind: Kind, base_url: Option<&str>, key: Option<Secret>, http: &HttpClient) -> Arc<dyn Model> {
    let base_url = base_url.unwrap_or_else(|| kind.default_base_url()).to_owned();
    provider::open(kind, ProviderConfig { base_url, key, http: http.clone() })
}

fn check_offered(provider: &str, name: &str, models: &[String]) -> Result<(), ModelUnknown> {
    match models.is_empty() || models.iter().any(|model| model == name) {
        true => Ok(()),
        false => Err(no_model(provider, name, models)),
    }
}

fn no_model(provider: &str, name: &str, models: &[String]) -> ModelUnknown {
    let more = if models.len() > NAMED { " and others" } else { "" };
    let names: Vec<&str> = models.iter().take(NAMED).map(String::as_str).collect();
    let message = format!("Provider {provider} has no model {:?}; it has {}{more}", short(name), names.join(", "));
    ModelUnknown { message, hint: list_hint() }
}

fn failed(error: &cabana_store::Error) -> ModelUnknown {
    tracing::error!(error = chain(error), "model providers could not be read");
    ModelUnknown { message: "The model providers could not be read".into(), hint: "Try again".into() }
}

fn list_hint() -> String {
    "GET /models lists the models".into()
}

fn name_of(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, name)| name)
}

#[cfg(test)]
mod tests;
