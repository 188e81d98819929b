//! Rating: adding what was used to the sums per hour and to the wallets. One transaction does all of it for some intervals, so that
//! nothing is counted twice and nothing is lost, whenever the process dies.

use std::collections::BTreeMap;

use cabana_meter::{Bill, Prices, hour_of, split};
use cabana_types::money::{Micros, Overflow};
use cabana_types::{BillingMode, TeamId, UsageKind, UsageSubject};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store, price, wallet};

/// What was rated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rated {
    /// Whether there is more to rate until the same time.
    pub more: bool,
}

/// A row of the sums.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    hour: i64,
    kind: &'static str,
    model: String,
    project: String,
}

/// An amount and its cost.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    amount: i64,
    cost: Micros,
}

impl Sum {
    fn add(&mut self, amount: i64, cost: Micros) -> Result<(), Overflow> {
        self.amount = self.amount.checked_add(amount).ok_or(Overflow)?;
        self.cost = self.cost.plus(cost)?;
        Ok(())
    }
}

/// What is written for one team.
#[derive(Debug)]
struct TeamSums {
    bill: Bill,
    charged: Micros,
    sums: BTreeMap<Key, Sum>,
}

impl Store {
    /// Rates up to `limit` intervals, and as many calls of models, until a time that lies in the past.
    pub async fn rate(&self, until: Timestamp, limit: u32) -> Result<Rated, Error> {
        let mode = self.billing();
        self.write(move |connection| Box::pin(async move { rate(connection, mode, ALL, micros(until), limit).await }))
            .await
    }

    /// The same for intervals that are closed.
    pub async fn rate_closed(&self, until: Timestamp, limit: u32) -> Result<Rated, Error> {
        let mode = self.billing();
        self.write(move |connection| {
            Box::pin(async move { rate(connection, mode, CLOSED, micros(until), limit).await })
        })
        .await
    }

    /// Until when everything is in the sums.
    pub async fn rated_until(&self) -> Result<Timestamp, Error> {
        let at: i64 = sqlx::query_scalar("select rated_at from rating")
            .fetch_one(self.reader())
            .await
            .map_err(|e| Error::query("read until when usage is rated", e))?;
        Timestamp::from_microsecond(at).map_err(|e| Error::decode("rated_at", e))
    }
}

/// Intervals to rate, from the index of those that have not been.
const ALL: &str =
    "select id, team, project, subject_kind, subject, kind, quantity, closed_at, rated_until from intervals
     where (closed_at is null or rated_until < closed_at) and rated_until < $1 order by rated_until limit $2";
const CLOSED: &str =
    "select id, team, project, subject_kind, subject, kind, quantity, closed_at, rated_until from intervals
     where closed_at is not null and rated_until < closed_at and rated_until < $1 order by rated_until limit $2";

async fn rate(
    connection: &mut SqliteConnection,
    mode: BillingMode,
    which: &'static str,
    until: i64,
    limit: u32,
) -> Result<Rated, Error> {
    let intervals = sqlx::query(which)
        .bind(until)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| Error::query("list intervals to rate", e))?;
    let calls = sqlx::query("select * from model_calls where rated = 0 order by id limit $1")
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| Error::query("list calls of models to rate", e))?;
    let full = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = intervals.len() >= full || calls.len() >= full;
    let prices = match mode {
        BillingMode::Off => Prices::default(),
        BillingMode::Postpaid => price::all(connection).await?,
    };
    let mut teams: BTreeMap<TeamId, TeamSums> = BTreeMap::new();
    for row in &intervals {
        let due = Due::decode(row, until)?;
        let sums = of_team(connection, &mut teams, &due.team).await?;
        for piece in split(due.from, due.until, prices.cuts()) {
            let amount = piece.length().checked_mul(due.quantity).ok_or_else(overflow)?;
            let cost = sums.bill.add(due.kind, amount, prices.at(due.kind, piece.from)).map_err(|_| overflow())?;
            let key =
                Key { hour: piece.hour, kind: due.kind.as_str(), model: String::new(), project: due.project.clone() };
            add_hourly(connection, &due.team, &due.subject, due.subject_kind, &key, amount, cost).await?;
            sums.sums.entry(key).or_default().add(amount, cost).map_err(|_| overflow())?;
            sums.charged = sums.charged.plus(cost).map_err(|_| overflow())?;
        }
        sqlx::query("update intervals set rated_until = $2 where id = $1")
            .bind(due.id)
            .bind(due.until)
            .execute(&mut *connection)
            .await
            .map_err(|e| Error::query("write that an interval was rated", e))?;
    }
    for row in &calls {
        rate_call(connection, &mut teams, row).await?;
    }
    if !teams.is_empty() {
        let tick: i64 = sqlx::query_scalar("update rating set tick = tick + 1 returning tick")
            .fetch_one(&mut *connection)
            .await
            .map_err(|e| Error::query("number what is rated", e))?;
        for (team, sums) in &teams {
            write_team(connection, team, sums).await?;
            if mode != BillingMode::Off && sums.charged != Micros::ZERO {
                wallet::charge(connection, team, sums.charged, tick, until).await?;
            }
        }
    }
    if !more && which == ALL {
        sqlx::query("update rating set rated_at = max(rated_at, $1)")
            .bind(until)
            .execute(connection)
            .await
            .map_err(|e| Error::query("write until when usage is rated", e))?;
    }
    Ok(Rated { more })
}

/// An interval, and the part of it that was not rated yet.
struct Due {
    id: i64,
    team: TeamId,
    project: String,
    subject_kind: UsageSubject,
    subject: String,
    kind: UsageKind,
    quantity: i64,
    from: i64,
    until: i64,
}

impl Due {
    fn decode(row: &SqliteRow, until: i64) -> Result<Self, Error> {
        let row = Columns(row);
        Ok(Self {
            id: row.integer("id")?,
            team: row.id("team")?,
            project: row.text_or_none("project")?.unwrap_or_default(),
            subject_kind: row.word("subject_kind", UsageSubject::parse)?,
            subject: row.text("subject")?,
            kind: row.word("kind", UsageKind::parse)?,
            quantity: row.integer("quantity")?,
            from: row.integer("rated_until")?,
            until: row.number_or_none::<i64>("closed_at")?.unwrap_or(until).min(until),
        })
    }
}

async fn rate_call(
    connection: &mut SqliteConnection,
    teams: &mut BTreeMap<TeamId, TeamSums>,
    row: &SqliteRow,
) -> Result<(), Error> {
    let row = Columns(row);
    let (id, team, chat) = (row.integer("id")?, row.id::<TeamId>("team")?, row.text("chat")?);
    let (model, project) = (row.text("model")?, row.text_or_none("project")?.unwrap_or_default());
    let hour = hour_of(row.integer("at")?);
    let cost = Micros(row.number_or_none("micros")?.unwrap_or_default());
    let sums = of_team(connection, teams, &team).await?;
    for (kind, amount, cost) in [
        (UsageKind::ModelCalls, 1, cost),
        (UsageKind::InputTokens, row.integer("input")?, Micros::ZERO),
        (UsageKind::CachedTokens, row.integer("cached")?, Micros::ZERO),
        (UsageKind::OutputTokens, row.integer("output")?, Micros::ZERO),
    ] {
        if amount == 0 {
            continue;
        }
        let key = Key { hour, kind: kind.as_str(), model: model.clone(), project: project.clone() };
        add_hourly(connection, &team, &chat, UsageSubject::Chat, &key, amount, cost).await?;
        sums.sums.entry(key).or_default().add(amount, cost).map_err(|_| overflow())?;
        sums.charged = sums.charged.plus(cost).map_err(|_| overflow())?;
    }
    sqlx::query("update model_calls set rated = 1 where id = $1")
        .bind(id)
        .execute(connection)
        .await
        .map_err(|e| Error::query("write that a call of a model was rated", e))?;
    Ok(())
}

async fn of_team<'t>(
    connection: &mut SqliteConnection,
    teams: &'t mut BTreeMap<TeamId, TeamSums>,
    team: &TeamId,
) -> Result<&'t mut TeamSums, Error> {
    if !teams.contains_key(team) {
        let carry: Option<i64> = sqlx::query_scalar("select carry from bills where team = $1")
            .bind(team.as_str())
            .fetch_optional(connection)
            .await
            .map_err(|e| Error::query("read what was rounded off", e))?;
        let bill = Bill::carried(carry.unwrap_or_default());
        teams.insert(team.clone(), TeamSums { bill, charged: Micros::ZERO, sums: BTreeMap::new() });
    }
    teams.get_mut(team).ok_or_else(overflow)
}

async fn write_team(connection: &mut SqliteConnection, team: &TeamId, sums: &TeamSums) -> Result<(), Error> {
    for (key, sum) in &sums.sums {
        sqlx::query(
            "insert into usage_total (team, hour, kind, model, project, amount, micros) values ($1, $2, $3, $4, $5, $6, $7)
             on conflict do update set amount = amount + excluded.amount, micros = micros + excluded.micros",
        )
        .bind(team.as_str())
        .bind(key.hour)
        .bind(key.kind)
        .bind(&key.model)
        .bind(&key.project)
        .bind(sum.amount)
        .bind(sum.cost.0)
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("add to what a team used", e))?;
    }
    sqlx::query("insert into bills (team, carry) values ($1, $2) on conflict do update set carry = excluded.carry")
        .bind(team.as_str())
        .bind(sums.bill.carry())
        .execute(connection)
        .await
        .map_err(|e| Error::query("write what was rounded off", e))?;
    Ok(())
}

async fn add_hourly(
    connection: &mut SqliteConnection,
    team: &TeamId,
    subject: &str,
    subject_kind: UsageSubject,
    key: &Key,
    amount: i64,
    cost: Micros,
) -> Result<(), Error> {
    sqlx::query(
        "insert into usage_hourly (team, hour, subject, kind, model, project, subject_kind, amount, micros)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict do update set amount = amount + excluded.amount, micros = micros + excluded.micros",
    )
    .bind(team.as_str())
    .bind(key.hour)
    .bind(subject)
    .bind(key.kind)
    .bind(&key.model)
    .bind(&key.project)
    .bind(subject_kind.as_str())
    .bind(amount)
    .bind(cost.0)
    .execute(connection)
    .await
    .map_err(|e| Error::query("add to what was used in an hour", e))?;
    Ok(())
}

fn overflow() -> Error {
    Error::decode("amount", Overflow)
}
