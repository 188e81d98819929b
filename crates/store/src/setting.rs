//! Settings of this installation that are determined or chosen once, not configured.

use sqlx::Row;

use crate::{Error, Store};

impl Store {
    /// A setting, if it was ever written.
    pub async fn setting(&self, key: &'static str) -> Result<Option<String>, Error> {
        let row = sqlx::query("select value from settings where key = $1")
            .bind(key)
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a setting", e))?;
        row.map(|row| row.try_get(0).map_err(|e| Error::decode("value", e))).transpose()
    }

    /// Writes a setting.
    pub async fn set_setting(&self, key: &'static str, value: String) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "insert into settings (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value",
                )
                .bind(key)
                .bind(value)
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a setting", e))?;
                Ok(())
            })
        })
        .await
    }
}
