//! Creating a sandbox, with patience for a template that is still being prepared, as on a server's first start.

use std::time::Duration;

use cabana_client::{Client, Error};
use cabana_types::ErrorCode;
use cabana_types::wire::{NewSandbox, Sandbox};

use crate::failure::Failure;
use crate::output::Output;

/// How often a template is asked for; the API does not tell by itself.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Creates a sandbox. Waits while its template is being prepared.
pub(crate) async fn create(
    client: &Client,
    new: &NewSandbox,
    idempotency_key: Option<&str>,
    out: &Output,
) -> Result<Sandbox, Failure> {
    let mut told = false;
    loop {
        match client.create(new, idempotency_key).await {
            Err(Error::Api { code: Some(ErrorCode::TemplateNotReady), .. }) => {
                if !told {
                    out.say(&format!("waiting for the template {}, which the server is preparing", new.template_id));
                    told = true;
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
            result => return Ok(result?),
        }
    }
}
