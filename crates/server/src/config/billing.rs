//! Settings of money, and of checks who somebody is.

use std::ops::RangeInclusive;

use cabana_types::{BillingMode, Secret};
use serde::Deserialize;

/// What use costs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Billing {
    pub mode: BillingMode,
    /// Three letters.
    pub currency: String,
    /// Where people top up; empty for none.
    pub top_up_url: String,
    /// Name of the payment provider whose webhooks top up; empty for none.
    pub provider: String,
    /// Signs its webhooks.
    pub provider_secret: Secret,
    /// Minutes after which what runs is paused when a wallet is empty.
    pub grace_minutes: u32,
}

/// Whether people must be checked before they use the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KycMode {
    /// They need not.
    Off,
    /// They must be checked.
    Required,
}

/// Checks who somebody is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kyc {
    pub mode: KycMode,
    /// Name of the provider that checks; `manual`: admins of the server do.
    pub provider: String,
    /// Where the provider checks; our reference is added as `reference`.
    pub provider_url: String,
    /// Signs its webhooks.
    pub provider_secret: Secret,
}

/// The built-in provider: an admin of the server.
pub const MANUAL: &str = "manual";

impl Billing {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(("billing.currency", format!("{:?} is not a currency: write it like EUR", self.currency)));
        }
        check_url("billing.top_up_url", &self.top_up_url)?;
        check_provider("billing.provider", &self.provider, "billing.provider_secret", &self.provider_secret)
    }

    pub(super) fn ranges(&self) -> [(&'static str, u32, RangeInclusive<u32>); 1] {
        [("billing.grace_minutes", self.grace_minutes, 0..=10_080)]
    }
}

impl Kyc {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        check_url("kyc.provider_url", &self.provider_url)?;
        if self.provider.is_empty() {
            return Err(("kyc.provider", format!("is missing: write {MANUAL:?}, or the name of a provider")));
        }
        if self.provider != MANUAL && self.provider_url.is_empty() {
            return Err(("kyc.provider_url", "is missing: people could not be checked".to_owned()));
        }
        let external = if self.provider == MANUAL { "" } else { &self.provider };
        check_provider("kyc.provider", external, "kyc.provider_secret", &self.provider_secret)
    }
}

fn check_url(setting: &'static str, url: &str) -> Result<(), (&'static str, String)> {
    let web = |url: &str| url.starts_with("https://") || url.starts_with("http://");
    match url.is_empty() || web(url) && url::Url::parse(url).is_ok() {
        true => Ok(()),
        false => Err((setting, format!("{url:?} is not a URL: write it like https://pay.example.com/top-up"))),
    }
}

fn check_provider(
    setting: &'static str,
    name: &str,
    secret_setting: &'static str,
    secret: &Secret,
) -> Result<(), (&'static str, String)> {
    if name.is_empty() {
        return Ok(());
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 32 || !name.bytes().all(allowed) || name == MANUAL {
        return Err((
            setting,
            format!("{name:?} is not a name: 1 to 32 characters of a-z, 0-9 and -, and not {MANUAL:?}"),
        ));
    }
    if secret.expose().len() < 16 {
        return Err((secret_setting, "must have at least 16 characters: anyone could sign webhooks".to_owned()));
    }
    Ok(())
}
