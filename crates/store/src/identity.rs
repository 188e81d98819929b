//! Keys of workload identity and certificate authorities of sandboxes, sealed by the caller.

use cabana_types::SandboxId;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A key that signs workload identity tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Its id in the header of a token.
    pub id: String,
    /// The sealed private key.
    pub key: Vec<u8>,
    /// The public key.
    pub public: Vec<u8>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When another took its place.
    pub retired_at: Option<Timestamp>,
}

/// The certificate authority of a sandbox.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedAuthority {
    /// PEM.
    pub certificate: String,
    /// The sealed private key.
    pub key: Vec<u8>,
}

impl Store {
    /// All signing keys, the current one first.
    pub async fn signing_keys(&self) -> Result<Vec<SigningKey>, Error> {
        let rows = sqlx::query("select * from signing_keys order by retired_at is not null, created_at desc, id")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list signing keys", e))?;
        rows.iter().map(decode).collect()
    }

    /// Makes a key the current one: all others are retired, and then those retired before `forget` are deleted.
    pub async fn rotate_signing_key(&self, key: SigningKey, forget: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update signing_keys set retired_at = $1 where retired_at is null")
                    .bind(micros(key.created_at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("retire a signing key", e))?;
                sqlx::query("delete from signing_keys where retired_at < $1")
                    .bind(micros(forget))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("delete signing keys", e))?;
                sqlx::query("insert into signing_keys (id, key, public, created_at) values ($1, $2, $3, $4)")
                    .bind(&key.id)
                    .bind(&key.key)
                    .bind(&key.public)
                    .bind(micros(key.created_at))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("write a signing key", e))?;
                Ok(())
            })
        })
        .await
    }

    /// The certificate authority of a sandbox, if it was made.
    pub async fn authority(&self, sandbox: &SandboxId) -> Result<Option<SealedAuthority>, Error> {
        let row = sqlx::query("select * from authorities where sandbox = $1")
            .bind(sandbox.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a certificate authority", e))?;
        row.map(|row| {
            let row = Columns(&row);
            Ok(SealedAuthority { certificate: row.text("certificate")?, key: row.bytes("key")? })
        })
        .transpose()
    }

    /// Stores the certificate authority of a sandbox that has none and has not ended. Returns whether it did.
    pub async fn insert_authority(&self, sandbox: SandboxId, authority: SealedAuthority) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query(
                    "insert into authorities (sandbox, certificate, key)
                     select id, $2, $3 from sandboxes where id = $1 and state <> 'ended'
                     on conflict (sandbox) do nothing",
                )
                .bind(sandbox.as_str())
                .bind(&authority.certificate)
                .bind(&authority.key)
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a certificate authority", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// Deletes everything that was sealed but secrets, whose values their owners can set again: after the loss of the key.
    pub async fn forget_sealed(&self) -> Result<(), Error> {
        self.write(|connection| {
            Box::pin(async move {
                for sql in ["delete from signing_keys", "delete from authorities", "delete from placeholders"] {
                    sqlx::query(sql)
                        .execute(&mut *connection)
                        .await
                        .map_err(|e| Error::query("delete sealed values", e))?;
                }
                Ok(())
            })
        })
        .await
    }
}

fn decode(row: &SqliteRow) -> Result<SigningKey, Error> {
    let row = Columns(row);
    Ok(SigningKey {
        id: row.text("id")?,
        key: row.bytes("key")?,
        public: row.bytes("public")?,
        created_at: row.time("created_at")?,
        retired_at: row.time_or_none("retired_at")?,
    })
}
