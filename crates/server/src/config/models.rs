//! Settings of models: providers, prices, and how much a model reads.

use std::collections::BTreeMap;

use cabana_agent::provider::Kind;
use cabana_types::Secret;
use cabana_types::chat::DEMO_MODEL;
use serde::{Deserialize, Deserializer};
use url::Url;

/// Characters of a model's name with its provider.
pub(crate) const MAX_MODEL: usize = 200;
/// Characters of a provider's name.
pub(crate) const MAX_PROVIDER: usize = 32;
/// Bytes of a provider's key.
pub(crate) const MAX_KEY: usize = 4096;
/// Models that a provider offers by name.
pub(crate) const MAX_MODELS: usize = 200;
/// The provider of the demo.
pub(crate) const DEMO: &str = "demo";
/// What names of agents begin with, where models are expected.
const AGENT: &str = "agent";
const MAX_URL: usize = 2048;
/// Micros for a million tokens.
const MAX_PRICE: u64 = 1_000_000_000_000;
const WINDOWS: std::ops::RangeInclusive<u64> = 1000..=100_000_000;

/// Models.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// The model of chats that name none.
    pub default: String,
    /// By name.
    pub providers: BTreeMap<String, Provider>,
    /// By `PROVIDER/MODEL`.
    pub prices: BTreeMap<String, Price>,
    /// Tokens that fit, by `PROVIDER/MODEL`.
    pub windows: BTreeMap<String, u64>,
}

/// A model provider of the operator.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The wire that it speaks.
    #[serde(deserialize_with = "kind")]
    pub kind: Kind,
    /// The provider's own address if it is absent.
    #[serde(default)]
    pub base_url: Option<String>,
    #[serde(default)]
    pub key: Option<Secret>,
    /// Names of models; any if it is empty.
    #[serde(default)]
    pub models: Vec<String>,
}

/// Micros for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: u64,
    /// That of `input` if it is absent.
    #[serde(default)]
    pub cached: Option<u64>,
    pub output: u64,
}

fn kind<'de, D: Deserializer<'de>>(reader: D) -> Result<Kind, D::Error> {
    let word = String::deserialize(reader)?;
    let unknown = || serde::de::Error::custom(format!("kind must be \"openai\" or \"anthropic\", not {word:?}"));
    Kind::parse(&word).ok_or_else(unknown)
}

impl Models {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (name, provider) in &self.providers {
            let wrong = |text: String| ("models.providers", format!("{name}: {text}"));
            check_provider_name(name).map_err(wrong)?;
            if let Some(url) = &provider.base_url {
                check_url(url).map_err(wrong)?;
            }
            if let Some(key) = &provider.key {
                check_key(key).map_err(wrong)?;
            }
            check_models(&provider.models).map_err(wrong)?;
        }
        let priced = self.prices.keys().map(|name| ("models.prices", name));
        for (setting, name) in priced.chain(self.windows.keys().map(|name| ("models.windows", name))) {
            check_model(name).map_err(|text| (setting, text))?;
        }
        for (name, price) in &self.prices {
            if price.input.max(price.cached.unwrap_or_default()).max(price.output) > MAX_PRICE {
                return Err(("models.prices", format!("{name}: more than {MAX_PRICE} micros for a million tokens")));
            }
        }
        for (name, window) in &self.windows {
            if !WINDOWS.contains(window) {
                let text = format!("{name}: must be between {} and {}, not {window}", WINDOWS.start(), WINDOWS.end());
                return Err(("models.windows", text));
            }
        }
        self.check_default().map_err(|text| ("models.default", text))
    }

    fn check_default(&self) -> Result<(), String> {
        if self.default == DEMO_MODEL {
            return Ok(());
        }
        let (provider, model) = check_model(&self.default)?;
        match self.providers.get(provider) {
            Some(found) if found.models.is_empty() || found.models.iter().any(|name| name == model) => Ok(()),
            Some(found) => {
                Err(format!("provider {provider} has no model {model:?}; it has {}", found.models.join(", ")))
            }
            None => {
                let names: Vec<&str> = [DEMO].into_iter().chain(self.providers.keys().map(String::as_str)).collect();
                Err(format!("there is no provider {provider:?}; there are {}", names.join(", ")))
            }
        }
    }
}

/// Checks the name of a provider.
pub(crate) fn check_provider_name(name: &str) -> Result<(), String> {
    let fits = (1..=MAX_PROVIDER).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    match fits {
        false => Err(format!("the name of a provider has 1 to {MAX_PROVIDER} of a-z, 0-9 and -")),
        true if name == DEMO => Err("demo is built in; choose another name".into()),
        true if name == AGENT => Err("agent/NAME stands for agents; choose another name".into()),
        true => Ok(()),
    }
}

/// Splits `PROVIDER/MODEL`.
pub(crate) fn check_model(id: &str) -> Result<(&str, &str), String> {
    let fits = id.len() <= MAX_MODEL && id.bytes().all(|b| b.is_ascii_graphic());
    id.split_once('/')
        .filter(|(provider, model)| fits && !provider.is_empty() && !model.is_empty())
        .ok_or_else(|| format!("{:?} is not a model: write PROVIDER/MODEL", crate::error::short(id)))
}

/// Checks the address of a provider, except for what its name resolves to.
pub(crate) fn check_url(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("base_url {:?} {why}", crate::error::short(text));
    let url = Url::parse(text).map_err(|_| wrong("is not a URL like https://api.example.com/v1"))?;
    if text.len() > MAX_URL {
        return Err(wrong("is longer than 2048 bytes"));
    }
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || url.port() == Some(0) {
        return Err(wrong("must begin with https:// or http:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err("base_url must not have a user, a password, a query or a fragment; put the key into key".into());
    }
    Ok(url)
}

/// Checks a key, of which an error repeats nothing: it is sent in a header.
pub(crate) fn check_key(key: &Secret) -> Result<(), String> {
    let text = key.expose();
    let fits = (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then_some(()).ok_or_else(|| format!("the key must have 1 to {MAX_KEY} printable characters, and no spaces"))
}

/// Checks the names of a provider's models.
pub(crate) fn check_models(models: &[String]) -> Result<(), String> {
    if models.len() > MAX_MODELS {
        return Err(format!("more than {MAX_MODELS} models"));
    }
    for name in models {
        let fits =
            (1..=MAX_MODEL - MAX_PROVIDER - 1).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
        if !fits {
            let name = crate::error::short(name);
            return Err(format!("{name:?} is not the name of a model: 1 to 167 printable characters, and no spaces"));
        }
    }
    Ok(())
}
