//! Secrets, one method for each call.

use cabana_types::wire::{NewSecret, SecretInfo, SecretUpdate, SecretView};
use http::Method;

use crate::api::{Client, MAX_PAGES, to_json};
use crate::error::{Error, Result};
use crate::query;

impl Client {
    /// All of the team's secrets, without their values.
    pub async fn secrets(&self) -> Result<Vec<SecretInfo>> {
        let (mut all, mut token): (Vec<SecretInfo>, Option<String>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let pairs: Vec<_> = token.take().map(|token| ("nextToken", token)).into_iter().collect();
            let request = self.request(Method::GET, &format!("/secrets{}", query::encode(&pairs)), None)?;
            let (page, next): (Vec<SecretInfo>, _) = self.call_with_next("list secrets", request).await?;
            all.extend(page);
            match next {
                Some(next) => token = Some(next),
                None => return Ok(all),
            }
        }
        Err(Error::Answer { action: "list secrets", reason: "the listing does not end".to_owned() })
    }

    /// Creates a secret. With hosts, the answer is a binding.
    pub async fn create_secret(&self, new: &NewSecret) -> Result<SecretView> {
        let action = "create a secret";
        let body = to_json(action, new)?;
        self.call(action, self.request(Method::POST, "/secrets", Some(body))?).await
    }

    /// Sets a new value, by id or name.
    pub async fn update_secret(&self, secret: &str, new: &SecretUpdate) -> Result<SecretInfo> {
        let action = "update the secret";
        let body = to_json(action, new)?;
        self.call(action, self.request(Method::POST, &path(secret), Some(body))?).await
    }

    /// Deletes a secret, by id or name.
    pub async fn delete_secret(&self, secret: &str) -> Result<()> {
        self.call_empty("delete the secret", self.request(Method::DELETE, &path(secret), None)?).await
    }
}

fn path(secret: &str) -> String {
    let name: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    format!("/secrets/{}", name.replace('+', "%20"))
}
