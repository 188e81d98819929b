//! Changing who may use a template, and the defaults of its sandboxes.

use cabana_types::TemplateId;
use cabana_types::egress::Preset;
use jiff::Timestamp;

use crate::{Error, Store, feed, tag};

impl Store {
    /// Makes a template public or private.
    pub async fn set_public(&self, id: TemplateId, public: bool, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                // Teams that lose sight of it are told as well.
                feed::note_template(connection, &id).await?;
                let done = sqlx::query("update templates set public = $2 where id = $1 and public <> $2")
                    .bind(id.as_str())
                    .bind(public)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("publish a template", e))?;
                if done.rows_affected() > 0 {
                    tag::touch(connection, &id, at).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Sets the default isolation backend of a template's sandboxes; `None` for the server's default.
    pub async fn set_isolation(&self, id: TemplateId, isolation: Option<String>, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("update templates set isolation = $2 where id = $1 and isolation is not $2")
                    .bind(id.as_str())
                    .bind(&isolation)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("set a template's isolation", e))?;
                if done.rows_affected() > 0 {
                    tag::touch(connection, &id, at).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Sets the egress preset of a template's sandboxes; `None` for the server's default.
    pub async fn set_network(&self, id: TemplateId, network: Option<Preset>, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("update templates set network = $2 where id = $1 and network is not $2")
                    .bind(id.as_str())
                    .bind(network.map(Preset::as_str))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("set a template's network", e))?;
                if done.rows_affected() > 0 {
                    tag::touch(connection, &id, at).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Sets whether set-uid programs gain nothing in new sandboxes of a template.
    pub async fn set_no_new_privileges(&self, id: TemplateId, on: bool, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let sql = "update templates set no_new_privileges = $2 where id = $1 and no_new_privileges <> $2";
                let done = sqlx::query(sql)
                    .bind(id.as_str())
                    .bind(on)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("set whether a template's programs gain privileges", e))?;
                if done.rows_affected() > 0 {
                    tag::touch(connection, &id, at).await?;
                }
                Ok(())
            })
        })
        .await
    }
}
