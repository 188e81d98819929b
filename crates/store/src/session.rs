//! Sessions of people, and the one-time codes by which they begin. Only hashes of tokens and codes are stored.

use cabana_types::{KeyId, SessionId, TeamId, UserId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    /// SHA-256 of its token.
    pub hash: [u8; 32],
    pub user: UserId,
    /// The team that it acts for.
    pub team: TeamId,
    /// The API key that it was signed in with.
    pub key: Option<KeyId>,
    pub created_at: Timestamp,
    /// When the person last proved who they are.
    pub auth_at: Timestamp,
    /// To within a minute.
    pub last_seen_at: Timestamp,
    pub expires_at: Timestamp,
    /// Address of the client that signed in.
    pub address: Option<String>,
    /// Its `User-Agent`.
    pub agent: Option<String>,
}

impl Store {
    /// Inserts a session. Of the user's sessions, only the newest `most` stay.
    pub async fn insert_session(&self, session: Session, most: u32) -> Result<(), Error> {
        self.write(move |connection| Box::pin(async move { insert(connection, session, most).await })).await
    }

    /// Every session, oldest first.
    pub async fn sessions(&self) -> Result<Vec<Session>, Error> {
        let rows = sqlx::query("select * from sessions order by created_at, id").fetch_all(self.reader()).await;
        rows.map_err(|e| Error::query("list sessions", e))?.iter().map(decode).collect()
    }

    /// Deletes sessions.
    pub async fn remove_sessions(&self, ids: Vec<SessionId>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for id in ids {
                    sqlx::query("delete from sessions where id = $1")
                        .bind(id.as_str())
                        .execute(&mut *connection)
                        .await
                        .map_err(|e| Error::query("delete a session", e))?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Records when sessions were last used.
    pub async fn touch_sessions(&self, seen: Vec<(SessionId, Timestamp)>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for (id, at) in seen {
                    for sql in [
                        "update sessions set last_seen_at = max(last_seen_at, $2) where id = $1",
                        "update users set last_seen_at = max(coalesce(last_seen_at, 0), $2)
                         where id = (select user from sessions where id = $1 and key is null)",
                    ] {
                        let query = sqlx::query(sql).bind(id.as_str()).bind(micros(at));
                        query
                            .execute(&mut *connection)
                            .await
                            .map_err(|e| Error::query("record the use of a session", e))?;
                    }
                }
                Ok(())
            })
        })
        .await
    }

    /// Makes a session act for another team.
    pub async fn set_session_team(&self, id: SessionId, team: TeamId) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let query =
                    sqlx::query("update sessions set team = $2 where id = $1").bind(id.as_str()).bind(team.as_str());
                query.execute(connection).await.map_err(|e| Error::query("write the team of a session", e))?;
                Ok(())
            })
        })
        .await
    }

    /// Records that the person of a session proved again who they are.
    pub async fn confirm_session(&self, id: SessionId, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let query =
                    sqlx::query("update sessions set auth_at = $2 where id = $1").bind(id.as_str()).bind(micros(at));
                query.execute(connection).await.map_err(|e| Error::query("write a session", e))?;
                Ok(())
            })
        })
        .await
    }

    /// Inserts a one-time code of a kind, and forgets those that have expired. Only the newest `most` of the kind stay.
    pub async fn insert_ticket(
        &self,
        hash: [u8; 32],
        kind: &'static str,
        now: Timestamp,
        expires_at: Timestamp,
        most: u32,
    ) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "delete from tickets where expires_at <= $1 or (kind = $2 and created_at <= (select created_at from tickets
                        where kind = $2 order by created_at desc limit 1 offset $3))",
                )
                .bind(micros(now))
                .bind(kind)
                .bind(most.saturating_sub(1))
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("delete old tickets", e))?;
                sqlx::query("insert into tickets (hash, kind, created_at, expires_at) values ($1, $2, $3, $4)")
                    .bind(hash.to_vec())
                    .bind(kind)
                    .bind(micros(now))
                    .bind(micros(expires_at))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("insert a ticket", e))?;
                Ok(())
            })
        })
        .await
    }

    /// Uses a one-time code up. Returns whether it was valid.
    pub async fn take_ticket(&self, hash: [u8; 32], kind: &'static str, now: Timestamp) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let taken = sqlx::query("delete from tickets where hash = $1 and kind = $2 and expires_at > $3")
                    .bind(hash.to_vec())
                    .bind(kind)
                    .bind(micros(now))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("use a ticket", e))?;
                Ok(taken.rows_affected() > 0)
            })
        })
        .await
    }
}

async fn insert(connection: &mut SqliteConnection, session: Session, most: u32) -> Result<(), Error> {
    sqlx::query(
        "insert into sessions (id, hash, user, team, key, created_at, last_seen_at, expires_at, address, agent, auth_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(session.id.as_str())
    .bind(session.hash.to_vec())
    .bind(session.user.as_str())
    .bind(session.team.as_str())
    .bind(session.key.as_ref().map(KeyId::as_str))
    .bind(micros(session.created_at))
    .bind(micros(session.last_seen_at))
    .bind(micros(session.expires_at))
    .bind(&session.address)
    .bind(&session.agent)
    .bind(micros(session.auth_at))
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("insert a session", e))?;
    sqlx::query(
        "delete from sessions where user = $1 and id not in
            (select id from sessions where user = $1 order by last_seen_at desc, created_at desc limit $2)",
    )
    .bind(session.user.as_str())
    .bind(most)
    .execute(connection)
    .await
    .map_err(|e| Error::query("delete old sessions", e))?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<Session, Error> {
    let row = Columns(row);
    let key = row.text_or_none("key")?;
    Ok(Session {
        id: row.id("id")?,
        hash: row.bytes("hash")?.try_into().map_err(|_| Error::decode("hash", "not 32 bytes long"))?,
        user: row.id("user")?,
        team: row.id("team")?,
        key: key.map(|key| key.parse().map_err(|e| Error::decode("key", e))).transpose()?,
        created_at: row.time("created_at")?,
        auth_at: row.time("auth_at")?,
        last_seen_at: row.time("last_seen_at")?,
        expires_at: row.time("expires_at")?,
        address: row.text_or_none("address")?,
        agent: row.text_or_none("agent")?,
    })
}
