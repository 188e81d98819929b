//! Unguessable host names of services. Only their hashes are stored.

use cabana_types::{GrantId, ServiceId, SessionId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A name by which a service can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub id: GrantId,
    /// SHA-256 of the name.
    pub hash: [u8; 32],
    pub kind: GrantKind,
    pub service: ServiceId,
    pub created_at: Timestamp,
    pub created_by: Option<String>,
    pub expires_at: Timestamp,
    /// How often a page was opened by it.
    pub opened: u64,
    pub last_opened_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// Whom a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantKind {
    /// Anyone who has the name.
    Link,
    /// A frame of the console, for as long as a session lasts.
    Frame {
        session: SessionId,
        /// The console's origin.
        origin: String,
    },
}

impl Store {
    /// Inserts a grant; one of the same name is replaced. `false` if the service has `most` links that are valid.
    pub async fn put_grant(&self, grant: Grant, most: u32) -> Result<bool, Error> {
        self.write(move |connection| Box::pin(async move { put(connection, grant, most).await })).await
    }

    /// The links to a service, newest first.
    pub async fn links_of(&self, service: &ServiceId) -> Result<Vec<Grant>, Error> {
        let rows = sqlx::query(
            "select * from grants where service = $1 and kind = 'link' order by created_at desc, id limit 1000",
        )
        .bind(service.as_str())
        .fetch_all(self.reader())
        .await;
        rows.map_err(|e| Error::query("list links", e))?.iter().map(decode).collect()
    }

    /// Grants that are valid.
    pub async fn grants(&self, now: Timestamp) -> Result<Vec<Grant>, Error> {
        let rows = sqlx::query("select * from grants where revoked_at is null and expires_at > $1")
            .bind(micros(now))
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list grants", e))?.iter().map(decode).collect()
    }

    /// Revokes a link of a service. `None` if there is none; one that was revoked before stays so.
    pub async fn revoke_link(&self, service: ServiceId, id: GrantId, at: Timestamp) -> Result<Option<Grant>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "update grants set revoked_at = coalesce(revoked_at, $3) where id = $1 and service = $2 and kind = 'link'",
                )
                .bind(id.as_str())
                .bind(service.as_str())
                .bind(micros(at))
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("revoke a link", e))?;
                let row = sqlx::query("select * from grants where id = $1 and service = $2 and kind = 'link'")
                    .bind(id.as_str())
                    .bind(service.as_str())
                    .fetch_optional(connection)
                    .await
                    .map_err(|e| Error::query("read a link", e))?;
                row.as_ref().map(decode).transpose()
            })
        })
        .await
    }

    /// Records how often grants were used more, when last, and until when they are valid.
    pub async fn touch_grants(&self, used: Vec<(GrantId, u64, Option<Timestamp>, Timestamp)>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for (id, opened, last, expires_at) in used {
                    sqlx::query(
                        "update grants set opened = opened + $2, last_opened_at = coalesce($3, last_opened_at),
                            expires_at = max(expires_at, $4) where id = $1",
                    )
                    .bind(id.as_str())
                    .bind(i64::try_from(opened).unwrap_or(i64::MAX))
                    .bind(last.map(micros))
                    .bind(micros(expires_at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("record the use of a grant", e))?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Deletes grants that expired or were revoked before `before`.
    pub async fn remove_old_grants(&self, before: Timestamp) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from grants where expires_at < $1 or revoked_at < $1")
                    .bind(micros(before))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete old grants", e))?;
                Ok(done.rows_affected())
            })
        })
        .await
    }
}

async fn put(connection: &mut SqliteConnection, grant: Grant, most: u32) -> Result<bool, Error> {
    let (kind, session, origin) = match &grant.kind {
        GrantKind::Link => ("link", None, None),
        GrantKind::Frame { session, origin } => ("frame", Some(session.as_str().to_owned()), Some(origin.clone())),
    };
    if grant.kind == GrantKind::Link {
        let valid: i64 = sqlx::query_scalar(
            "select count(*) from grants where service = $1 and kind = 'link' and revoked_at is null and expires_at > $2",
        )
        .bind(grant.service.as_str())
        .bind(micros(grant.created_at))
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| Error::query("count links", e))?;
        if valid >= i64::from(most) {
            return Ok(false);
        }
    }
    sqlx::query("delete from grants where hash = $1")
        .bind(grant.hash.to_vec())
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("replace a grant", e))?;
    sqlx::query(
        "insert into grants (id, hash, kind, service, session, origin, created_at, created_by, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(grant.id.as_str())
    .bind(grant.hash.to_vec())
    .bind(kind)
    .bind(grant.service.as_str())
    .bind(session)
    .bind(origin)
    .bind(micros(grant.created_at))
    .bind(&grant.created_by)
    .bind(micros(grant.expires_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a grant", e))?;
    Ok(true)
}

fn decode(row: &SqliteRow) -> Result<Grant, Error> {
    let row = Columns(row);
    let kind = match row.borrowed("kind")? {
        "link" => GrantKind::Link,
        "frame" => GrantKind::Frame { session: row.id("session")?, origin: row.text("origin")? },
        _ => return Err(Error::decode("kind", "not a kind of grant")),
    };
    Ok(Grant {
        id: row.id("id")?,
        hash: row.bytes("hash")?.try_into().map_err(|_| Error::decode("hash", "not 32 bytes long"))?,
        kind,
        service: row.id("service")?,
        created_at: row.time("created_at")?,
        created_by: row.text_or_none("created_by")?,
        expires_at: row.time("expires_at")?,
        opened: row.number("opened")?,
        last_opened_at: row.time_or_none("last_opened_at")?,
        revoked_at: row.time_or_none("revoked_at")?,
    })
}
