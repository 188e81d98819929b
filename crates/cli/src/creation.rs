//! Creates a sandbox, and waits for a template that is still being prepared, as on a server's first start.

use std::time::Duration;

use cabana_client::{Client, Error};
use cabana_types::ErrorCode;
use cabana_types::wire::{NewSandbox, Sandbox};

use crate::failure::Failure;
use crate::local_files::{self, LocalFile};
use crate::output::Output;

/// Polling interval for a template; the API has no notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Creates a sandbox, with files if there are any. Waits while its template is being prepared.
pub(crate) async fn create(
    client: &Client,
    new: &NewSandbox,
    files: &[LocalFile],
    idempotency_key: Option<&str>,
    out: &Output,
) -> Result<Sandbox, Failure> {
    let mut reported = false;
    loop {
        let bar = out.byte_bar(Some(local_files::total(files)));
        let created = match files.is_empty() {
            true => client.create(new, idempotency_key).await,
            false => client.create_with_files(new, local_files::opened(files, &bar)).await,
        };
        bar.finish_and_clear();
        match created {
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
