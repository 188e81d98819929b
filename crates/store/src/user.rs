//! People: who they are, and how they sign in.

use std::collections::{BTreeSet, HashMap};

use cabana_types::{Role, SessionId, TeamId, UserId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, micros};
use crate::{Error, Store, member};

/// A person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    /// In lower case. The first admin has none until they choose one.
    pub email: Option<String>,
    pub name: String,
    /// Whether the user may change the server itself.
    pub admin: bool,
    pub created_at: Timestamp,
    pub disabled_at: Option<Timestamp>,
    pub has_password: bool,
    /// Issuer and subject of their account at an OIDC provider.
    pub oidc: Option<(String, String)>,
    /// To within a minute.
    pub last_seen_at: Option<Timestamp>,
}

/// A person to be inserted.
#[derive(Debug, Clone)]
pub struct NewUser {
    pub id: UserId,
    pub email: Option<String>,
    pub name: String,
    pub admin: bool,
    pub created_at: Timestamp,
    /// Argon2id in PHC form.
    pub password_hash: Option<String>,
    pub oidc: Option<(String, String)>,
}

/// A change of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    Name(String),
    Email(String),
    Admin(bool),
    /// Disabled since then, or enabled.
    Disabled(Option<Timestamp>),
    Oidc {
        issuer: String,
        subject: String,
    },
}

/// Why a person is not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserChanged {
    Done,
    Unknown,
    /// Another person has the email.
    EmailTaken,
    /// Nobody else is an admin of the server.
    LastAdmin,
}

impl Store {
    /// A user.
    pub async fn user(&self, id: &UserId) -> Result<Option<User>, Error> {
        let row =
            sqlx::query("select * from users where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a user", e))?.as_ref().map(decode).transpose()
    }

    /// The user of an email in lower case, with the hash of their password.
    pub async fn user_by_email(&self, email: &str) -> Result<Option<(User, Option<String>)>, Error> {
        let row = sqlx::query("select * from users where email = $1").bind(email).fetch_optional(self.reader()).await;
        let row = row.map_err(|e| Error::query("find a user", e))?;
        row.map(|row| Ok((decode(&row)?, Columns(&row).text_or_none("password_hash")?))).transpose()
    }

    /// The hash of a user's password.
    pub async fn password_hash(&self, id: &UserId) -> Result<Option<String>, Error> {
        let row = sqlx::query("select password_hash from users where id = $1")
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await;
        let row = row.map_err(|e| Error::query("read a password", e))?;
        row.map_or(Ok(None), |row| Columns(&row).text_or_none("password_hash"))
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
    pub async fn ensure_admin(&self, user: NewUser, team: TeamId) -> Result<User, Error> {
        self.write(move |connection| Box::pin(async move { ensure_admin(connection, user, &team).await })).await
    }

    /// Changes a user.
    pub async fn change_user(&self, id: UserId, changes: Vec<UserChange>) -> Result<UserChanged, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut done = UserChanged::Done;
                for change in changes {
                    done = self::change(connection, &id, change).await?;
                    if done != UserChanged::Done {
                        break;
                    }
                }
                Ok(done)
            })
        })
        .await
    }

    /// Sets the password of a user, and ends their sessions but `keep`. Those that were signed in with a key are the key's.
    pub async fn set_password(&self, id: UserId, hash: String, keep: Option<SessionId>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let query =
                    sqlx::query("update users set password_hash = $2 where id = $1").bind(id.as_str()).bind(hash);
                query.execute(&mut *connection).await.map_err(|e| Error::query("write a password", e))?;
                let query = sqlx::query("delete from sessions where user = $1 and key is null and id <> $2")
                    .bind(id.as_str())
                    .bind(keep.as_ref().map_or("", SessionId::as_str));
                query.execute(connection).await.map_err(|e| Error::query("end sessions", e))?;
                Ok(())
            })
        })
        .await
    }
}

async fn change(connection: &mut SqliteConnection, id: &UserId, change: UserChange) -> Result<UserChanged, Error> {
    let Some(user) = read(connection, id).await? else { return Ok(UserChanged::Unknown) };
    let loses_admin = matches!(change, UserChange::Admin(false) | UserChange::Disabled(Some(_)));
    if loses_admin && user.admin && user.disabled_at.is_none() {
        let others: i64 =
            sqlx::query_scalar("select count(*) from users where admin <> 0 and disabled_at is null and id <> $1")
                .bind(id.as_str())
                .fetch_one(&mut *connection)
                .await
                .map_err(|e| Error::query("count admins", e))?;
        if others == 0 {
            return Ok(UserChanged::LastAdmin);
        }
    }
    if let UserChange::Email(email) = &change
        && by_email(connection, email).await?.is_some_and(|other| other.id != *id)
    {
        return Ok(UserChanged::EmailTaken);
    }
    let query = match change {
        UserChange::Name(name) => sqlx::query("update users set name = $2 where id = $1").bind(id.as_str()).bind(name),
        UserChange::Email(email) => {
            sqlx::query("update users set email = $2 where id = $1").bind(id.as_str()).bind(email)
        }
        UserChange::Admin(admin) => {
            sqlx::query("update users set admin = $2 where id = $1").bind(id.as_str()).bind(admin)
        }
        UserChange::Disabled(at) => {
            sqlx::query("update users set disabled_at = $2 where id = $1").bind(id.as_str()).bind(at.map(micros))
        }
        UserChange::Oidc { issuer, subject } => {
            sqlx::query("update users set oidc_issuer = $2, oidc_subject = $3 where id = $1")
                .bind(id.as_str())
                .bind(issuer)
                .bind(subject)
        }
    };
    query.execute(connection).await.map_err(|e| Error::query("write a user", e))?;
    Ok(UserChanged::Done)
}

async fn ensure_admin(connection: &mut SqliteConnection, user: NewUser, team: &TeamId) -> Result<User, Error> {
    let row =
        sqlx::query("select * from users where admin <> 0 and disabled_at is null order by created_at, id limit 1")
            .fetch_optional(&mut *connection)
            .await
            .map_err(|e| Error::query("find an admin", e))?;
    if let Some(row) = row {
        return decode(&row);
    }
    insert(connection, &user).await?;
    member::insert(connection, team, &user.id, Role::Owner, user.created_at).await?;
    read(connection, &user.id).await?.ok_or_else(|| Error::decode("user", "missing"))
}

pub(crate) async fn insert(connection: &mut SqliteConnection, user: &NewUser) -> Result<(), Error> {
    let (issuer, subject) = user.oidc.clone().unzip();
    sqlx::query(
        "insert into users (id, email, name, admin, created_at, password_hash, oidc_issuer, oidc_subject)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(user.id.as_str())
    .bind(&user.email)
    .bind(&user.name)
    .bind(user.admin)
    .bind(micros(user.created_at))
    .bind(&user.password_hash)
    .bind(issuer)
    .bind(subject)
    .execute(connection)
    .await
    .map_err(|e| Error::query("insert a user", e))?;
    Ok(())
}

pub(crate) async fn read(connection: &mut SqliteConnection, id: &UserId) -> Result<Option<User>, Error> {
    let row = sqlx::query("select * from users where id = $1").bind(id.as_str()).fetch_optional(connection).await;
    row.map_err(|e| Error::query("read a user", e))?.as_ref().map(decode).transpose()
}

pub(crate) async fn by_email(connection: &mut SqliteConnection, email: &str) -> Result<Option<User>, Error> {
    let row = sqlx::query("select * from users where email = $1").bind(email).fetch_optional(connection).await;
    row.map_err(|e| Error::query("find a user", e))?.as_ref().map(decode).transpose()
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
        has_password: row.text_or_none("password_hash")?.is_some(),
        oidc: row.text_or_none("oidc_issuer")?.zip(row.text_or_none("oidc_subject")?),
        last_seen_at: row.time_or_none("last_seen_at")?,
    })
}
