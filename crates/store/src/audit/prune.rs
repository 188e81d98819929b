//! Removing old entries. Where a chain then begins is in the row of the chain, and in an entry of the chain itself.

use cabana_types::audit::{self, AuditResult, Chain};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{NewAuditEntry, append, hash_of, key};
use crate::column::{Columns, integer, micros};
use crate::{Error, Store};

/// Entries that are deleted in one transaction.
const BATCH: i64 = 2000;

/// What pruning has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Chains that begin later now.
    pub chains: u64,
    /// Entries that are gone.
    pub entries: u64,
}

impl Store {
    /// Removes entries that are older than `before` from the beginnings of all chains, and records in each of them that `actor` did.
    pub async fn prune_audit(&self, before: Timestamp, actor: String, at: Timestamp) -> Result<Pruned, Error> {
        let mut pruned = Pruned::default();
        for chain in self.audit_chains(None).await? {
            let actor = actor.clone();
            let moved = self
                .write(move |connection| {
                    Box::pin(async move { move_checkpoint(connection, chain, before, actor, at).await })
                })
                .await?;
            pruned.chains += u64::from(moved > 0);
            pruned.entries += moved;
        }
        self.delete_pruned_audit().await?;
        Ok(pruned)
    }

    /// Deletes the entries before the beginnings of their chains, also those that an interrupted pruning has left.
    pub async fn delete_pruned_audit(&self) -> Result<(), Error> {
        for chain in self.audit_chains(None).await? {
            loop {
                let (team, through) = (key(chain.team.as_ref()).to_owned(), integer(chain.pruned_seq));
                let deleted = self.write(move |connection| {
                    Box::pin(async move {
                        let sql = "delete from audit where id in
                            (select id from audit where team = $1 and seq <= $2 order by seq limit $3)";
                        let done = sqlx::query(sql).bind(team).bind(through).bind(BATCH).execute(connection).await;
                        Ok(done.map_err(|e| Error::query("delete pruned entries", e))?.rows_affected())
                    })
                });
                if deleted.await? < BATCH.unsigned_abs() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Lets a chain begin after the entries that are too old. Returns how many they are.
async fn move_checkpoint(
    connection: &mut SqliteConnection,
    seen: Chain,
    before: Timestamp,
    actor: String,
    at: Timestamp,
) -> Result<u64, Error> {
    let team = key(seen.team.as_ref());
    // Only what precedes every newer entry: the clock may have been set back.
    let first: Option<i64> = sqlx::query_scalar("select min(seq) from audit where team = $1 and seq > $2 and at >= $3")
        .bind(team)
        .bind(integer(seen.pruned_seq))
        .bind(micros(before))
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| Error::query("find old entries", e))?;
    let through = first.map_or(seen.last_seq, |first| first.unsigned_abs().saturating_sub(1));
    if through <= seen.pruned_seq {
        return Ok(0);
    }
    let row = sqlx::query("select hash from audit where team = $1 and seq = $2")
        .bind(team)
        .bind(integer(through))
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| Error::query("read an entry", e))?;
    let hash = hash_of(&Columns(&row), "hash")?;
    let entry = NewAuditEntry {
        team: seen.team.clone(),
        at,
        actor: Some(actor),
        action: audit::PRUNED.into(),
        target: None,
        address: None,
        result: AuditResult::Ok,
        status: 0,
        details: [
            (audit::THROUGH.to_owned(), through.to_string()),
            (audit::THROUGH_HASH.to_owned(), hash.to_string()),
            ("before".to_owned(), before.to_string()),
        ]
        .into(),
    };
    append(connection, entry).await?;
    sqlx::query("update audit_chains set pruned_seq = $2, pruned_hash = $3 where team = $1")
        .bind(team)
        .bind(integer(through))
        .bind(hash.bytes().to_vec())
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a chain", e))?;
    Ok(through - seen.pruned_seq)
}
