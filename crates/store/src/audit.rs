//! The audit log: chains of entries, written by the one writer and never changed (`migrations/`).

mod prune;
mod read;

use std::collections::BTreeMap;

use cabana_types::TeamId;
use cabana_types::audit::{AuditEntry, AuditHash, AuditResult, Chain};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, integer, micros};
use crate::{Error, Store};

pub use prune::Pruned;
pub use read::{AuditQuery, verify_file};

/// The team of entries that are in the server's chain.
const NO_TEAM: &str = "";

/// What is to be recorded. Number and hashes come from the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAuditEntry {
    pub team: Option<TeamId>,
    pub at: Timestamp,
    pub actor: Option<String>,
    pub action: String,
    pub target: Option<String>,
    pub address: Option<String>,
    pub result: AuditResult,
    pub status: u16,
    pub details: BTreeMap<String, String>,
}

impl Store {
    /// Appends an entry to its chain.
    pub async fn record(&self, entry: NewAuditEntry) -> Result<(), Error> {
        self.write(move |connection| Box::pin(async move { append(connection, entry).await.map(drop) })).await
    }

    /// The chains: one team's, or all.
    pub async fn audit_chains(&self, team: Option<&TeamId>) -> Result<Vec<Chain>, Error> {
        let mut connection = self.reader().acquire().await.map_err(|e| Error::query("read chains", e))?;
        chains(&mut connection, team).await
    }
}

/// Appends an entry within the caller's transaction.
async fn append(connection: &mut SqliteConnection, new: NewAuditEntry) -> Result<AuditEntry, Error> {
    let team = key(new.team.as_ref());
    let chain = chain(connection, team).await?;
    let (last, previous_hash) = chain.map_or((0, AuditHash::START), |chain| (chain.last_seq, chain.last_hash));
    // The precision of the database is that of the hash.
    let at = Timestamp::from_microsecond(micros(new.at)).map_err(|e| Error::decode("at", e))?;
    let NewAuditEntry { actor, action, target, address, result, status, details, .. } = new.clone();
    let mut entry = AuditEntry {
        team: new.team.clone(),
        seq: last + 1,
        at,
        actor,
        action,
        target,
        address,
        result,
        status,
        details,
        previous_hash,
        hash: AuditHash::START,
    };
    entry.hash = entry.computed_hash();
    insert(connection, team, &entry).await?;
    sqlx::query(
        "insert into audit_chains (team, pruned_seq, pruned_hash, last_seq, last_hash) values ($1, 0, $2, $3, $4)
         on conflict (team) do update set last_seq = $3, last_hash = $4",
    )
    .bind(team)
    .bind(AuditHash::START.bytes().to_vec())
    .bind(integer(entry.seq))
    .bind(entry.hash.bytes().to_vec())
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a chain", e))?;
    Ok(entry)
}

async fn insert(connection: &mut SqliteConnection, team: &str, entry: &AuditEntry) -> Result<(), Error> {
    sqlx::query(
        "insert into audit (team, seq, at, actor, action, target, address, result, status, details, previous_hash, hash)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(team)
    .bind(integer(entry.seq))
    .bind(micros(entry.at))
    .bind(&entry.actor)
    .bind(&entry.action)
    .bind(&entry.target)
    .bind(&entry.address)
    .bind(entry.result.as_str())
    .bind(entry.status)
    .bind(column::json("details", &entry.details)?)
    .bind(entry.previous_hash.bytes().to_vec())
    .bind(entry.hash.bytes().to_vec())
    .execute(connection)
    .await
    .map_err(|e| Error::query("write the audit log", e))?;
    Ok(())
}

async fn chain(connection: &mut SqliteConnection, team: &str) -> Result<Option<Chain>, Error> {
    let row = sqlx::query("select * from audit_chains where team = $1").bind(team).fetch_optional(connection).await;
    row.map_err(|e| Error::query("read a chain", e))?.as_ref().map(decode_chain).transpose()
}

async fn chains(connection: &mut SqliteConnection, team: Option<&TeamId>) -> Result<Vec<Chain>, Error> {
    if let Some(team) = team {
        return Ok(chain(connection, team.as_str()).await?.into_iter().collect());
    }
    let rows = sqlx::query("select * from audit_chains order by team").fetch_all(connection).await;
    rows.map_err(|e| Error::query("list chains", e))?.iter().map(decode_chain).collect()
}

fn key(team: Option<&TeamId>) -> &str {
    team.map_or(NO_TEAM, TeamId::as_str)
}

fn team_of(row: &Columns<'_>) -> Result<Option<TeamId>, Error> {
    match row.borrowed("team")? {
        NO_TEAM => Ok(None),
        team => team.parse().map(Some).map_err(|e| Error::decode("team", e)),
    }
}

fn hash_of(row: &Columns<'_>, column: &'static str) -> Result<AuditHash, Error> {
    let bytes = row.bytes(column)?.try_into().map_err(|_| Error::decode(column, "not 32 bytes long"))?;
    Ok(AuditHash::new(bytes))
}

fn decode_chain(row: &SqliteRow) -> Result<Chain, Error> {
    let row = Columns(row);
    Ok(Chain {
        team: team_of(&row)?,
        pruned_seq: row.number("pruned_seq")?,
        pruned_hash: hash_of(&row, "pruned_hash")?,
        last_seq: row.number("last_seq")?,
        last_hash: hash_of(&row, "last_hash")?,
    })
}

fn decode(row: &SqliteRow) -> Result<AuditEntry, Error> {
    let row = Columns(row);
    Ok(AuditEntry {
        team: team_of(&row)?,
        seq: row.number("seq")?,
        at: row.time("at")?,
        actor: row.text_or_none("actor")?,
        action: row.text("action")?,
        target: row.text_or_none("target")?,
        address: row.text_or_none("address")?,
        result: row.word("result", |word| word.parse().ok())?,
        status: row.number("status")?,
        details: row.json("details")?,
        previous_hash: hash_of(&row, "previous_hash")?,
        hash: hash_of(&row, "hash")?,
    })
}
