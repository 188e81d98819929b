//! Prices, and wallets of teams.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::{Entry, NewEntry, PriceRow};
use cabana_types::wire::{Price, PriceChanges, PriceList, TopUp, WalletEntry, WalletEntryPage, WalletInfo};
use cabana_types::{BillingMode, EntryKind, ErrorCode, Micros, TeamId};
use jiff::{SignedDuration, Timestamp};

use super::App;
use super::body::Body;
use super::query::Query;
use super::quotas::named_team;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Prices may be announced for so long.
const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(2 * 366 * 24);
/// A price for "now" may take this long to arrive.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// Bytes of a reference and of a memo.
const MAX_TEXT: usize = 256;
/// Entries of a page.
const MAX_ENTRIES: u32 = 500;
/// The account of money that an admin of the server granted.
const GRANTS: &str = "manual";

/// What resources cost.
#[utoipa::path(get, path = "/prices", tag = "usage",
    responses((status = 200, description = "Prices of the past and the future", body = PriceList)))]
pub(super) async fn prices(State(app): State<Arc<App>>) -> Result<Json<PriceList>, ApiError> {
    Ok(Json(app.price_list().await?))
}

/// Set prices from now or a later time on. What was used before keeps its price. For operators.
#[utoipa::path(put, path = "/admin/prices", tag = "usage", request_body = PriceChanges,
    responses((status = 200, description = "All prices", body = PriceList)))]
pub(super) async fn set_prices(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(changes): Body<PriceChanges>,
) -> Result<Json<PriceList>, ApiError> {
    let now = Timestamp::now();
    let effective_from = changes.effective_from.unwrap_or(now);
    if effective_from < now - PATIENCE || effective_from > now + MAX_AHEAD {
        return Err(ApiError::invalid("effectiveFrom must not be in the past, nor more than two years ahead"));
    }
    if changes.prices.is_empty() {
        return Err(ApiError::invalid("prices is empty; name at least one kind"));
    }
    let row = |(kind, price): (cabana_types::UsageKind, Micros)| {
        if kind.priced_unit().is_none() {
            let text = format!("{kind} has no price here; prices of models are settings of their providers");
            return Err(ApiError::invalid(text));
        }
        check_amount("a price", price, Micros::ZERO)?;
        Ok(PriceRow { kind, price, effective_from: effective_from.max(now) })
    };
    let rows = changes.prices.into_iter().map(row).collect::<Result<_, _>>()?;
    app.store.set_prices(rows, caller.actor.to_string(), now).await?;
    Ok(Json(app.price_list().await?))
}

/// The team's wallet.
#[utoipa::path(get, path = "/wallet", tag = "usage",
    responses((status = 200, description = "The wallet", body = WalletInfo)))]
pub(super) async fn wallet(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<WalletInfo>, ApiError> {
    app.billing_is_on()?;
    Ok(Json(app.wallet_of(&caller.team).await?))
}

/// The team's ledger: what came in and what was used, newest first.
#[utoipa::path(get, path = "/wallet/entries", tag = "usage",
    params(
        ("before" = Option<i64>, Query, description = "Only entries before this one (`next` of the last page)"),
        ("limit" = Option<u32>, Query, description = "Entries, 1 to 500 (100 by default)"),
    ),
    responses((status = 200, description = "Entries", body = WalletEntryPage)))]
pub(super) async fn wallet_entries(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<WalletEntryPage>, ApiError> {
    app.billing_is_on()?;
    let limit = query.limit(100, MAX_ENTRIES)?;
    let before = query.number("before", 1..=i64::MAX)?;
    let mut entries = app.store.wallet_entries(&caller.team, before, limit + 1).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().map(|entry| entry.seq).filter(|_| more);
    Ok(Json(WalletEntryPage { entries: entries.into_iter().map(shown).collect(), next }))
}

/// Add money to a team's wallet. A reference is added once: a repetition changes nothing. For operators.
#[utoipa::path(post, path = "/admin/teams/{teamID}/top-ups", tag = "usage", request_body = TopUp,
    params(("teamID" = String, Path, description = "Id of the team")),
    responses((status = 200, description = "The wallet from now on", body = WalletInfo)))]
pub(super) async fn top_up(
    State(app): State<Arc<App>>,
    team: Result<Path<String>, PathRejection>,
    Body(top_up): Body<TopUp>,
) -> Result<Json<WalletInfo>, ApiError> {
    let team = named_team(team)?;
    app.billing_is_on()?;
    check_amount("amountMicros", top_up.amount_micros, Micros(1))?;
    if top_up.currency != app.currency {
        let text = format!("The currency of this server is {}, not {:?}", app.currency, short(&top_up.currency));
        return Err(ApiError::invalid(text));
    }
    let printable = |text: &str| text.len() <= MAX_TEXT && !text.chars().any(char::is_control);
    if top_up.reference.is_empty() || !printable(&top_up.reference) || !top_up.memo.as_deref().is_none_or(printable) {
        let text =
            format!("reference takes 1 to {MAX_TEXT} bytes, and memo at most as many, without control characters");
        return Err(ApiError::invalid(text));
    }
    let entry = NewEntry {
        team: team.clone(),
        kind: EntryKind::TopUp,
        account: GRANTS.to_owned(),
        amount: top_up.amount_micros,
        reference: format!("{GRANTS}:{}", top_up.reference),
        memo: top_up.memo,
    };
    app.store.write_entry(entry, Timestamp::now()).await?;
    Ok(Json(app.wallet_of(&team).await?))
}

impl App {
    /// An error where use costs nothing.
    fn billing_is_on(&self) -> Result<(), ApiError> {
        match self.store.billing() {
            BillingMode::Off => Err(ApiError::new(
                ErrorCode::NotSupported,
                "This server charges nothing (billing.mode is \"off\"); GET /usage says what was used",
            )),
            BillingMode::Postpaid => Ok(()),
        }
    }

    async fn wallet_of(&self, team: &TeamId) -> Result<WalletInfo, ApiError> {
        Ok(WalletInfo {
            team_id: team.to_string(),
            billing: self.store.billing(),
            currency: self.currency.clone(),
            balance_micros: self.store.wallet_balance(team).await?,
        })
    }

    async fn price_list(&self) -> Result<PriceList, ApiError> {
        let price = |row: PriceRow| Price {
            kind: row.kind,
            unit: row.kind.priced_unit().unwrap_or_default().to_owned(),
            micros: row.price,
            effective_from: row.effective_from,
        };
        let prices = self.store.prices().await?.into_iter().map(price).collect();
        Ok(PriceList { billing: self.store.billing(), currency: self.currency.clone(), prices })
    }
}

fn check_amount(what: &str, amount: Micros, least: Micros) -> Result<(), ApiError> {
    match (least..=Micros::MOST).contains(&amount) {
        true => Ok(()),
        false => Err(ApiError::invalid(format!("{what} must be between {least} and {}, not {amount}", Micros::MOST))),
    }
}

fn shown(entry: Entry) -> WalletEntry {
    WalletEntry {
        seq: entry.seq,
        at: entry.at,
        kind: entry.kind,
        account: entry.account,
        amount_micros: entry.amount,
        balance_micros: entry.balance_after,
        reference: entry.reference,
        memo: entry.memo,
    }
}
