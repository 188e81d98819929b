//! Values behind the placeholders of sandboxes, sealed by the caller. They go with their sandbox and with their secret.

use std::sync::Arc;

use cabana_types::egress::EgressPolicy;
use cabana_types::{SandboxId, SecretId};

use crate::{Error, Store, policy_text};

/// What a placeholder stands for.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedPlaceholder {
    /// The placeholder.
    pub text: String,
    /// The secret.
    pub secret: SecretId,
    /// The sealed value.
    pub value: Vec<u8>,
}

impl Store {
    /// Replaces the values behind a sandbox's placeholders, and its egress policy if there is a new one.
    pub async fn set_placeholders(
        &self,
        id: SandboxId,
        values: Vec<SealedPlaceholder>,
        egress: Option<Arc<EgressPolicy>>,
    ) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("delete from placeholders where sandbox = $1")
                    .bind(id.as_str())
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("delete a sandbox's placeholders", e))?;
                for value in values {
                    // The secret may have been deleted since it was read.
                    sqlx::query(
                        "insert into placeholders (sandbox, text, secret, value)
                         select sandboxes.id, $2, secrets.id, $4 from sandboxes, secrets
                         where sandboxes.id = $1 and sandboxes.state <> 'ended' and secrets.id = $3",
                    )
                    .bind(id.as_str())
                    .bind(value.text)
                    .bind(value.secret.as_str())
                    .bind(value.value)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write a sandbox's placeholder", e))?;
                }
                if let Some(egress) = egress {
                    sqlx::query("update sandboxes set egress = $2 where id = $1 and state <> 'ended'")
                        .bind(id.as_str())
                        .bind(policy_text::write(&egress)?.as_ref())
                        .execute(connection)
                        .await
                        .map_err(|e| Error::query("write a sandbox's egress policy", e))?;
                }
                Ok(())
            })
        })
        .await
    }

    /// The sealed value behind a placeholder of a sandbox.
    pub async fn placeholder(&self, id: &SandboxId, text: &str) -> Result<Option<Vec<u8>>, Error> {
        sqlx::query_scalar("select value from placeholders where sandbox = $1 and text = $2")
            .bind(id.as_str())
            .bind(text)
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a sandbox's placeholder", e))
    }
}
