//! Creates a sandbox, and waits for a template that is still being prepared, as on a server's first start.

use std::time::Duration;

use cabana_client::{Client, Error};
use cabana_types::ErrorCode;
use cabana_types::wire::{NewSandbox, Sandbox};

use crate::failure::Failure;
use crate::output::Output;

/// Polling interval for a template; the API has no notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Creates a sandbox. Waits while its template is being prepared.
pub(crate) async fn create(
    client: &Client,
    new: &NewSandbox,
    idempotency_key: Option<&str>,
    out: &Output,
) -> Result<Sandbox, Failure> {
    let mut reported = false;
    loop {
        match client.create(new, idempotency_key).await {
            Err(Error::Api { code: Some(ErrorCode::TemplateNotReady), .. }) => {
                if !reported {
                    out.say(&format!("waiting for the template {}, which the server is preparing", new.template_id));
                    reported = true;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            result => return Ok(result?),
        }
    }
}
