//! When the kept results of build steps were last used. What is in them is not known here.

use jiff::Timestamp;

use crate::column::{Columns, micros};
use crate::{Error, Store};

impl Store {
    /// Results of steps were made or used.
    pub async fn touch_layers(&self, keys: Vec<String>, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for key in keys {
                    sqlx::query(
                        "insert into layers (key, used_at) values ($1, $2)
                         on conflict (key) do update set used_at = max(used_at, excluded.used_at)",
                    )
                    .bind(key)
                    .bind(micros(at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write that a layer was used", e))?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Every kept result with when it was last used, the longest unused first.
    pub async fn layers_by_use(&self) -> Result<Vec<(String, Timestamp)>, Error> {
        let rows = sqlx::query("select key, used_at from layers order by used_at, key")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list layers", e))?;
        rows.iter().map(|row| Ok((Columns(row).text("key")?, Columns(row).time("used_at")?))).collect()
    }

    /// Results of steps are gone.
    pub async fn forget_layers(&self, keys: Vec<String>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for key in keys {
                    sqlx::query("delete from layers where key = $1")
                        .bind(key)
                        .execute(&mut *connection)
                        .await
                        .map_err(|e| Error::query("forget a layer", e))?;
                }
                Ok(())
            })
        })
        .await
    }
}
