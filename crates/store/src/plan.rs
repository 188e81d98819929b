//! Plans: limits under a name, and which team has which.

use cabana_types::TeamId;
use cabana_types::quota::Limits;
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store, quota};

/// The plan of teams that were given no other: without limits, and it stays so.
pub const BUILT_IN_PLAN: &str = "self-hosted";

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    pub id: String,
    pub name: String,
    pub limits: Limits,
    /// How many teams have it.
    pub teams: u64,
}

/// The result of removing a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanRemoval {
    /// Removed.
    Removed,
    /// So many teams have it.
    InUse { teams: u64 },
}

const SELECT: &str =
    "select id, name, limits, (select count(*) from teams where teams.plan = plans.id) as teams from plans";

impl Store {
    /// Every plan, by id.
    pub async fn plans(&self) -> Result<Vec<PlanRow>, Error> {
        let sql = format!("{SELECT} order by id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(self.reader()).await;
        rows.map_err(|e| Error::query("list plans", e))?.iter().map(decode).collect()
    }

    /// Makes a plan, or replaces its name and limits. `false` if there are `most` others.
    pub async fn put_plan(&self, plan: PlanRow, most: u32, at: Timestamp) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let others: u32 = sqlx::query_scalar("select count(*) from plans where id <> $1")
                    .bind(&plan.id)
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count plans", e))?;
                if others >= most {
                    return Ok(false);
                }
                sqlx::query(
                    "insert into plans (id, name, limits, created_at, updated_at) values ($1, $2, $3, $4, $4)
                     on conflict do update set name = $2, limits = $3, updated_at = $4",
                )
                .bind(&plan.id)
                .bind(&plan.name)
                .bind(column::json("limits", &plan.limits)?)
                .bind(micros(at))
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a plan", e))?;
                Ok(true)
            })
        })
        .await
    }

    /// Removes a plan that no team has.
    pub async fn remove_plan(&self, id: String) -> Result<PlanRemoval, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let teams = find(connection, &id).await?.teams;
                if teams > 0 {
                    return Ok(PlanRemoval::InUse { teams });
                }
                sqlx::query("delete from plans where id = $1")
                    .bind(&id)
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a plan", e))?;
                Ok(PlanRemoval::Removed)
            })
        })
        .await
    }

    /// A plan.
    pub async fn plan(&self, id: &str) -> Result<PlanRow, Error> {
        let mut connection = self.reader().acquire().await.map_err(|e| Error::query("read a plan", e))?;
        find(&mut connection, id).await
    }

    /// Gives a team a plan.
    pub async fn assign_plan(&self, team: TeamId, plan: String) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                quota::find_team(connection, &team).await?;
                find(connection, &plan).await?;
                sqlx::query("update teams set plan = $2 where id = $1")
                    .bind(team.as_str())
                    .bind(&plan)
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("write a team's plan", e))?;
                Ok(())
            })
        })
        .await
    }
}

async fn find(connection: &mut SqliteConnection, id: &str) -> Result<PlanRow, Error> {
    let sql = format!("{SELECT} where id = $1");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id).fetch_optional(connection).await;
    let row = row.map_err(|e| Error::query("read a plan", e))?;
    decode(&row.ok_or_else(|| Error::NoPlan(id.to_owned()))?)
}

fn decode(row: &SqliteRow) -> Result<PlanRow, Error> {
    let row = Columns(row);
    Ok(PlanRow {
        id: row.text("id")?,
        name: row.text("name")?,
        limits: row.json("limits")?,
        teams: row.number("teams")?,
    })
}
