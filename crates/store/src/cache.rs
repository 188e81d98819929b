//! Index of the build cache: when each entry was last used. The contents are stored elsewhere.

use jiff::Timestamp;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// Kind of an entry of the build cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CacheKind {
    /// The result of a build step.
    Layer,
    /// An image whose blobs are cached.
    Image,
    /// A start command that passed its trial run.
    Start,
}

impl CacheKind {
    /// Every kind.
    pub const ALL: [CacheKind; 3] = [CacheKind::Layer, CacheKind::Image, CacheKind::Start];

    fn as_str(self) -> &'static str {
        match self {
            CacheKind::Layer => "layer",
            CacheKind::Image => "image",
            CacheKind::Start => "start",
        }
    }
}

/// Key of an entry of the build cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// Its kind.
    pub kind: CacheKind,
    /// Unique within its kind.
    pub key: String,
}

impl CacheKey {
    /// Makes a key.
    pub fn new(kind: CacheKind, key: impl Into<String>) -> Self {
        Self { kind, key: key.into() }
    }
}

impl Store {
    /// Records that entries were created or used.
    pub async fn touch_cache(&self, keys: Vec<CacheKey>, at: Timestamp) -> Result<(), Error> {
        self.write(move |tx| {
            Box::pin(async move {
                for CacheKey { kind, key } in keys {
                    sqlx::query(
                        "insert into layers (kind, key, used_at) values ($1, $2, $3)
                         on conflict (kind, key) do update set used_at = max(used_at, excluded.used_at)",
                    )
                    .bind(kind.as_str())
                    .bind(key)
                    .bind(micros(at))
                    .execute(&mut *tx)
                    .await
                    .map_err(|e| Error::query("write the use of the build cache", e))?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Whether the entry exists.
    pub async fn is_cached(&self, key: &CacheKey) -> Result<bool, Error> {
        let found = sqlx::query("select 1 from layers where kind = $1 and key = $2")
            .bind(key.kind.as_str())
            .bind(&key.key)
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("look into the build cache", e))?;
        Ok(found.is_some())
    }

    /// All entries of a kind with their last use, least recently used first.
    pub async fn cache_by_use(&self, kind: CacheKind) -> Result<Vec<(String, Timestamp)>, Error> {
        let rows = sqlx::query("select key, used_at from layers where kind = $1 order by used_at, key")
            .bind(kind.as_str())
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list the build cache", e))?;
        rows.iter().map(|row| Ok((Columns(row).text("key")?, Columns(row).time("used_at")?))).collect()
    }

    /// Deletes entries.
    pub async fn delete_cache_entries(&self, keys: Vec<CacheKey>) -> Result<(), Error> {
        self.write(move |tx| {
            Box::pin(async move {
                for CacheKey { kind, key } in keys {
                    sqlx::query("delete from layers where kind = $1 and key = $2")
                        .bind(kind.as_str())
                        .bind(key)
                        .execute(&mut *tx)
                        .await
                        .map_err(|e| Error::query("forget an entry of the build cache", e))?;
                }
                Ok(())
            })
        })
        .await
    }
}
