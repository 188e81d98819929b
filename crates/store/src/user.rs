//! People and the teams they belong to.

use std::collections::{BTreeSet, HashMap};

use cabana_types::{Role, TeamId, UserId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub email: Option<String>,
    pub name: String,
    /// Whether the user may change the server itself.
    pub admin: bool,
    pub created_at: Timestamp,
    pub disabled_at: Option<Timestamp>,
}

impl Store {
    /// A user.
    pub async fn user(&self, id: &UserId) -> Result<Option<User>, Error> {
        let row =
            sqlx::query("select * from users where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a user", e))?.as_ref().map(decode).transpose()
    }

    /// The role of a user in a team; `None` for those who are no member of it.
    pub async fn role(&self, team: &TeamId, user: &UserId) -> Result<Option<Role>, Error> {
        let row = sqlx::query("select role from members where team = $1 and user = $2")
            .bind(team.as_str())
            .bind(user.as_str())
            .fetch_optional(self.reader())
            .await;
        let row = row.map_err(|e| Error::query("read a role", e))?;
        row.map(|row| Columns(&row).word("role", |word| word.parse().ok())).transpose()
    }

    /// The names of keys and users, by id. Those that are gone have none.
    pub async fn actor_names(&self, ids: &BTreeSet<String>) -> Result<HashMap<String, String>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select id, name from api_keys where id in (");
        let mut list = sql.separated(", ");
        for id in ids {
            list.push_bind(id.clone());
        }
        sql.push(") union all select id, name from users where id in (");
        let mut list = sql.separated(", ");
        for id in ids {
            list.push_bind(id.clone());
        }
        let rows = sql.push(")").build().fetch_all(self.reader()).await.map_err(|e| Error::query("read names", e))?;
        rows.iter().map(|row| Ok((Columns(row).text("id")?, Columns(row).text("name")?))).collect()
    }

    /// The first admin. If there is no admin yet, `user` becomes the one, as an owner of `team`.
    pub async fn ensure_admin(&self, user: User, team: TeamId) -> Result<User, Error> {
        self.write(move |connection| Box::pin(async move { ensure_admin(connection, user, &team).await })).await
    }
}

async fn ensure_admin(connection: &mut SqliteConnection, user: User, team: &TeamId) -> Result<User, Error> {
    let row =
        sqlx::query("select * from users where admin <> 0 and disabled_at is null order by created_at, id limit 1")
            .fetch_optional(&mut *connection)
            .await
            .map_err(|e| Error::query("find an admin", e))?;
    if let Some(row) = row {
        return decode(&row);
    }
    sqlx::query("insert into users (id, email, name, admin, created_at) values ($1, $2, $3, 1, $4)")
        .bind(user.id.as_str())
        .bind(&user.email)
        .bind(&user.name)
        .bind(micros(user.created_at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("insert a user", e))?;
    sqlx::query("insert into members (team, user, role, created_at) values ($1, $2, $3, $4)")
        .bind(team.as_str())
        .bind(user.id.as_str())
        .bind(Role::Owner.as_str())
        .bind(micros(user.created_at))
        .execute(connection)
        .await
        .map_err(|e| Error::query("insert a member", e))?;
    Ok(user)
}

pub(crate) fn decode(row: &SqliteRow) -> Result<User, Error> {
    let row = Columns(row);
    Ok(User {
        id: row.id("id")?,
        email: row.text_or_none("email")?,
        name: row.text("name")?,
        admin: row.flag("admin")?,
        created_at: row.time("created_at")?,
        disabled_at: row.time_or_none("disabled_at")?,
    })
}
