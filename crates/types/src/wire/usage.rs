//! What was used, what it costs, and wallets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BillingMode, EntryKind, Micros, UsageKind, UsageSubject};

/// What a team used in a time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageReport {
    /// The beginning of the first hour.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub from: Timestamp,
    /// The end of the last hour.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub to: Timestamp,
    /// What was used until then is in it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub rated_until: Timestamp,
    pub billing: BillingMode,
    /// The currency of all costs.
    pub currency: String,
    pub rows: Vec<UsageEntry>,
    /// Whether there are more rows than these; ask for a shorter time, or group by less.
    pub truncated: bool,
}

/// A sum. Amounts of different kinds are never added; what the sum is not grouped by is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageEntry {
    /// The beginning of the hour or the day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub period: Option<Timestamp>,
    pub kind: UsageKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// What used it: a sandbox, a snapshot or a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_kind: Option<UsageSubject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_id: Option<String>,
    /// The model; empty for what is no use of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The exact amount, as a decimal number.
    pub amount: String,
    /// What the amount is in.
    pub unit: String,
    /// Millionths of the currency.
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub cost_micros: Micros,
}

/// What a sandbox used.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxUsage {
    pub sandbox_id: String,
    /// What was used until then is in `totals`.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub rated_until: Timestamp,
    pub billing: BillingMode,
    pub currency: String,
    /// Its whole life, one per kind.
    pub totals: Vec<UsageEntry>,
    /// When it used how much, newest first.
    pub intervals: Vec<UsageInterval>,
    /// Whether there are older intervals than these.
    pub truncated: bool,
}

/// A time in which a sandbox used the same quantity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageInterval {
    pub id: i64,
    pub kind: UsageKind,
    /// vCPUs or MiB.
    pub quantity: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub opened_at: Timestamp,
    /// `null`: it goes on.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub closed_at: Option<Timestamp>,
}

/// A price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Price {
    pub kind: UsageKind,
    /// What it is for, such as `vCPU-hour`.
    pub unit: String,
    /// Millionths of the currency.
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub micros: Micros,
    /// It holds from then until the next price of the kind.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub effective_from: Timestamp,
}

/// What resources cost; the prices of models are those of the models.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PriceList {
    pub billing: BillingMode,
    pub currency: String,
    /// Past, present and future ones, the earliest first.
    pub prices: Vec<Price>,
}

/// Prices to set. What was used before keeps its price.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PriceChanges {
    /// Millionths of the currency for a vCPU-hour or a GiB-hour, by kind.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, i64>))]
    pub prices: BTreeMap<UsageKind, Micros>,
    /// Not in the past; now by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub effective_from: Option<Timestamp>,
}

/// A team's wallet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WalletInfo {
    #[serde(rename = "teamID")]
    pub team_id: String,
    pub billing: BillingMode,
    pub currency: String,
    /// Millionths of the currency; negative: what the team owes.
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub balance_micros: Micros,
}

/// Entries of a team's ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WalletEntryPage {
    /// Newest first.
    pub entries: Vec<WalletEntry>,
    /// `before` for the next page; `null`: there is none.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<i64>,
}

/// An entry of the ledger: an amount that moved between the wallet and an account.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WalletEntry {
    pub seq: i64,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    pub kind: EntryKind,
    /// The other side.
    pub account: String,
    /// What came in; negative: what went out.
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub amount_micros: Micros,
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub balance_micros: Micros,
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memo: Option<String>,
}

/// Money that came in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopUp {
    /// Millionths of the currency.
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub amount_micros: Micros,
    /// Must be that of the server.
    pub currency: String,
    /// What it stands for, such as the number of a payment: repeating it changes nothing.
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memo: Option<String>,
}
