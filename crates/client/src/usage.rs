//! Usage, prices and wallets, one method for each call.

use cabana_types::SandboxId;
use cabana_types::wire::{PriceChanges, PriceList, SandboxUsage, TopUp, UsageReport, WalletEntryPage, WalletInfo};
use http::Method;

use crate::api::{Client, to_json};
use crate::error::Result;
use crate::query;

impl Client {
    /// What the team used. Parameters as in the API: `from`, `to`, `group`, `sandbox`, `project`.
    pub async fn usage(&self, parameters: &[(&str, String)]) -> Result<UsageReport> {
        self.fetch("read the usage", &format!("/usage{}", query::encode(parameters))).await
    }

    /// What a sandbox used.
    pub async fn sandbox_usage(&self, id: &SandboxId) -> Result<SandboxUsage> {
        self.fetch("read the usage of the sandbox", &format!("/sandboxes/{id}/usage")).await
    }

    /// What resources cost.
    pub async fn prices(&self) -> Result<PriceList> {
        self.fetch("list prices", "/prices").await
    }

    /// Sets prices.
    pub async fn set_prices(&self, changes: &PriceChanges) -> Result<PriceList> {
        let action = "set prices";
        let body = to_json(action, changes)?;
        self.call(action, self.request(Method::PUT, "/admin/prices", Some(body))?).await
    }

    /// The team's wallet.
    pub async fn wallet(&self) -> Result<WalletInfo> {
        self.fetch("read the wallet", "/wallet").await
    }

    /// The newest entries of the team's ledger.
    pub async fn wallet_entries(&self, limit: u32) -> Result<WalletEntryPage> {
        self.fetch("list the entries of the wallet", &format!("/wallet/entries?limit={limit}")).await
    }

    /// Adds money to a team's wallet.
    pub async fn top_up(&self, team: &str, top_up: &TopUp) -> Result<WalletInfo> {
        let action = "top up the wallet";
        let body = to_json(action, top_up)?;
        self.call(action, self.request(Method::POST, &format!("/admin/teams/{team}/top-ups"), Some(body))?).await
    }
}
