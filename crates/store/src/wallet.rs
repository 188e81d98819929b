//! Wallets of teams and the ledger: every entry moves an amount between a wallet and an account, so that all of them add up to nothing.

use cabana_types::money::{Micros, Overflow};
use cabana_types::{EntryKind, TeamId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::column::{Columns, micros};
use crate::{Error, Store, quota};

/// The account that gets what teams pay for what they used.
const REVENUE: &str = "revenue";

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub seq: i64,
    pub at: Timestamp,
    pub kind: EntryKind,
    /// The other side.
    pub account: String,
    pub amount: Micros,
    pub balance_after: Micros,
    pub reference: String,
    pub memo: Option<String>,
}

/// An amount that comes into a wallet, or leaves it if it is negative.
#[derive(Debug, Clone)]
pub struct NewEntry {
    pub team: TeamId,
    pub kind: EntryKind,
    pub account: String,
    pub amount: Micros,
    /// Written once: a repetition changes nothing.
    pub reference: String,
    pub memo: Option<String>,
}

impl Store {
    /// What is in a team's wallet; negative: what it owes.
    pub async fn wallet_balance(&self, team: &TeamId) -> Result<Micros, Error> {
        let balance: Option<i64> = sqlx::query_scalar("select balance from wallets where team = $1")
            .bind(team.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a wallet", e))?;
        Ok(Micros(balance.unwrap_or_default()))
    }

    /// Entries of a team's ledger, newest first, before one of them.
    pub async fn wallet_entries(&self, team: &TeamId, before: Option<i64>, limit: u32) -> Result<Vec<Entry>, Error> {
        let rows = sqlx::query("select * from wallet_entries where team = $1 and seq < $2 order by seq desc limit $3")
            .bind(team.as_str())
            .bind(before.unwrap_or(i64::MAX))
            .bind(limit)
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list entries of the ledger", e))?;
        rows.iter()
            .map(|row| {
                let row = Columns(row);
                Ok(Entry {
                    seq: row.integer("seq")?,
                    at: row.time("at")?,
                    kind: row.word("kind", EntryKind::parse)?,
                    account: row.text("account")?,
                    amount: Micros(row.integer("amount")?),
                    balance_after: Micros(row.integer("balance_after")?),
                    reference: row.text("ref")?,
                    memo: row.text_or_none("memo")?,
                })
            })
            .collect()
    }

    /// Writes an entry, unless one with its reference was written before. Returns whether it was written.
    pub async fn write_entry(&self, entry: NewEntry, at: Timestamp) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                quota::find_team(connection, &entry.team).await?;
                let known: bool = sqlx::query_scalar(
                    "select exists (select 1 from wallet_entries where ref = $1 and (team = $2 or kind = 'top_up'))",
                )
                .bind(&entry.reference)
                .bind(entry.team.as_str())
                .fetch_one(&mut *connection)
                .await
                .map_err(|e| Error::query("look for an entry of the ledger", e))?;
                if known {
                    return Ok(false);
                }
                write(connection, &entry, micros(at)).await?;
                Ok(true)
            })
        })
        .await
    }
}

/// Takes what was rated in one tick from a team's wallet.
pub(crate) async fn charge(
    connection: &mut SqliteConnection,
    team: &TeamId,
    cost: Micros,
    tick: i64,
    at: i64,
) -> Result<(), Error> {
    let entry = NewEntry {
        team: team.clone(),
        kind: EntryKind::Usage,
        account: REVENUE.to_owned(),
        amount: cost.negated().map_err(|_| overflow())?,
        reference: format!("tick:{tick}"),
        memo: None,
    };
    write(connection, &entry, at).await
}

async fn write(connection: &mut SqliteConnection, entry: &NewEntry, at: i64) -> Result<(), Error> {
    let balance: Option<i64> = sqlx::query_scalar("select balance from wallets where team = $1")
        .bind(entry.team.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(|e| Error::query("read a wallet", e))?;
    let balance = Micros(balance.unwrap_or_default()).plus(entry.amount).map_err(|_| overflow())?;
    sqlx::query(
        "insert into wallets (team, balance) values ($1, $2) on conflict do update set balance = excluded.balance",
    )
    .bind(entry.team.as_str())
    .bind(balance.0)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("write a wallet", e))?;
    sqlx::query(
        "insert into wallet_entries (team, at, kind, account, amount, balance_after, ref, memo)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(entry.team.as_str())
    .bind(at)
    .bind(entry.kind.as_str())
    .bind(&entry.account)
    .bind(entry.amount.0)
    .bind(balance.0)
    .bind(&entry.reference)
    .bind(&entry.memo)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("write an entry of the ledger", e))?;
    sqlx::query(
        "insert into accounts (name, balance) values ($1, $2) on conflict do update set balance = balance + excluded.balance",
    )
    .bind(&entry.account)
    .bind(entry.amount.negated().map_err(|_| overflow())?.0)
    .execute(connection)
    .await
    .map_err(|e| Error::query("write an account", e))?;
    Ok(())
}

fn overflow() -> Error {
    Error::decode("balance", Overflow)
}
