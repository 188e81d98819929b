//! Reading the audit log: pages by filters, and verification of the rows of a server or of a file.

use std::path::Path;

use cabana_types::TeamId;
use cabana_types::audit::{AuditEntry, AuditResult, Chains, Report};
use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Connection, QueryBuilder, Sqlite, SqliteConnection};

use super::{chains, decode, key, team_of};
use crate::column::{Columns, integer, micros};
use crate::{Error, Order, Store};

/// Rows that verifying reads at once.
const BATCH: i64 = 1000;

/// Filter and page of entries.
#[derive(Debug, Clone)]
pub struct AuditQuery {
    /// Only one team's chain; all chains otherwise.
    pub team: Option<TeamId>,
    /// Earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
    pub result: Option<AuditResult>,
    pub order: Order,
    /// Only those after this place, in this order.
    pub after: Option<u64>,
    pub limit: u32,
}

impl Store {
    /// A page of entries, each with its place.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Vec<(u64, AuditEntry)>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from audit where ");
        // The numbers of one chain are in an index; over all chains it is the order in which entries came.
        let place = match &query.team {
            Some(team) => {
                sql.push("team = ").push_bind(team.as_str().to_owned());
                "seq"
            }
            None => {
                sql.push("1 = 1");
                "id"
            }
        };
        sql.push(" and seq > coalesce((select pruned_seq from audit_chains c where c.team = audit.team), 0)");
        if let Some(from) = query.from {
            sql.push(" and at >= ").push_bind(micros(from));
        }
        if let Some(until) = query.until {
            sql.push(" and at < ").push_bind(micros(until));
        }
        for (column, value) in [("actor", &query.actor), ("action", &query.action), ("target", &query.target)] {
            if let Some(value) = value {
                sql.push(" and ").push(column).push(" = ").push_bind(value.clone());
            }
        }
        if let Some(result) = query.result {
            sql.push(" and result = ").push_bind(result.as_str());
        }
        let (beyond, order) = match query.order {
            Order::Ascending => (" > ", " asc"),
            Order::Descending => (" < ", " desc"),
        };
        if let Some(after) = query.after {
            sql.push(" and ").push(place).push(beyond).push_bind(integer(after));
        }
        sql.push(" order by ").push(place).push(order).push(" limit ").push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("read the audit log", e))?;
        rows.iter().map(|row| Ok((Columns(row).number(place)?, decode(row)?))).collect()
    }

    /// Verifies one team's chain, or all.
    pub async fn verify_audit(&self, team: Option<&TeamId>) -> Result<Report, Error> {
        // One snapshot: entries that come meanwhile would look like too many.
        let mut reading = self.reader().begin().await.map_err(|e| Error::query("begin to read", e))?;
        verify(&mut reading, team).await
    }
}

/// Verifies all chains in a database that no server has to serve. Nothing is changed.
pub async fn verify_file(path: &Path) -> Result<Report, Error> {
    let failed = |e: sqlx::Error| Error::Open { path: path.to_owned(), source: Box::new(e) };
    let options = SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await.map_err(failed)?;
    let mut reading = connection.begin().await.map_err(failed)?;
    verify(&mut reading, None).await
}

async fn verify(connection: &mut SqliteConnection, team: Option<&TeamId>) -> Result<Report, Error> {
    let mut verified = Chains::default();
    let known = chains(connection, team).await?;
    let mut teams: Vec<Option<TeamId>> = known.iter().map(|chain| chain.team.clone()).collect();
    let mut begins: Vec<u64> = known.iter().map(|chain| chain.pruned_seq).collect();
    known.into_iter().for_each(|chain| verified.expect(chain));
    if team.is_none() {
        // Entries of a chain whose row is gone.
        let rows = sqlx::query("select distinct team from audit where team not in (select team from audit_chains)");
        for row in rows.fetch_all(&mut *connection).await.map_err(|e| Error::query("list chains", e))? {
            teams.push(team_of(&Columns(&row))?);
            begins.push(0);
        }
    }
    for (team, begin) in teams.into_iter().zip(begins) {
        let mut after = integer(begin);
        loop {
            let rows = sqlx::query("select * from audit where team = $1 and seq > $2 order by seq limit $3")
                .bind(key(team.as_ref()))
                .bind(after)
                .bind(BATCH)
                .fetch_all(&mut *connection)
                .await
                .map_err(|e| Error::query("read the audit log", e))?;
            let Some(last) = rows.last() else { break };
            after = Columns(last).integer("seq")?;
            rows.iter().for_each(|row| check(&mut verified, team.as_ref(), row));
        }
    }
    Ok(verified.finish())
}

/// A row that was tampered with may not even be an entry.
fn check(verified: &mut Chains, team: Option<&TeamId>, row: &SqliteRow) {
    match decode(row) {
        Ok(entry) => verified.entry(&entry),
        Err(error) => {
            let seq = Columns(row).number("seq").unwrap_or_default();
            verified.unreadable(team.cloned(), seq, &cabana_types::error::chain(&error));
        }
    }
}
