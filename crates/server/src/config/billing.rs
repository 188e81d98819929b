//! Settings of money.

use cabana_types::BillingMode;
use serde::Deserialize;

/// What use costs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Billing {
    pub mode: BillingMode,
    /// Three letters.
    pub currency: String,
}

impl Billing {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.currency.len() == 3 && self.currency.bytes().all(|b| b.is_ascii_uppercase()) {
            return Ok(());
        }
        Err(("billing.currency", format!("{:?} is not a currency: write it like EUR", self.currency)))
    }
}
