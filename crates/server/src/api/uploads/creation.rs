//! Creating a sandbox together with files: the first part of the form is the usual body, the others are files. Either all files are in the
//! sandbox when the answer is sent, or there is no sandbox.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use cabana_form::Form;
use cabana_store::Sandbox as Row;
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::sandbox::EndCause;
use cabana_types::wire::{NewSandbox, Sandbox};
use cabana_types::{ErrorCode, SandboxId};
use http::{HeaderMap, Request};
use tokio_util::sync::CancellationToken;

use super::file::{FileError, Target};
use super::{Content, Failed, Files, FormError, entry, form, quoted};
use crate::api::App;
use crate::api::new_sandbox::Version;
use crate::auth::Caller;
use crate::error::ApiError;

/// How long the description of the sandbox may take to arrive.
const READ_TIME: Duration = Duration::from_secs(30);
/// How often the timeout of a sandbox is put off while its files arrive.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// Body of a creation with files.
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "describes a form, which is parsed as a stream")]
pub(in crate::api) struct SandboxForm {
    /// The usual body. It must be the first part.
    sandbox: NewSandbox,
    /// Files for `user-uploads/`, as in `POST /sandboxes/{sandboxID}/uploads`.
    #[schema(inline, max_items = 200)]
    file: Vec<Content>,
}

impl App {
    /// Creates a sandbox from a form. It is killed if a file fails or the client goes away before the answer.
    pub(in crate::api) async fn create_with_files(
        self: &Arc<Self>,
        caller: Caller,
        request: Request<Body>,
        version: Version,
    ) -> Result<Sandbox, ApiError> {
        if request.headers().contains_key("idempotency-key") {
            return Err(ApiError::invalid(
                "Idempotency-Key does not go with files; create the sandbox with the key, then upload the files",
            ));
        }
        let mut form = form(request)?;
        let new = tokio::time::timeout(READ_TIME, description(&mut form)).await.map_err(|_| {
            let text = format!("The part named sandbox did not arrive within {} s", READ_TIME.as_secs());
            ApiError::invalid(text)
        })??;
        let request = self.create_request(&caller, &HeaderMap::new(), new, version).await?;
        let first = form.part().await?;
        let gone = CancellationToken::new();
        let _here = gone.clone().drop_guard();
        let app = Arc::clone(self);
        let by = caller.actor.to_string();
        // Not cut short when the client disconnects: a sandbox that was created has to be killed then.
        let created = self.run_to_end(async move {
            let timeout = request.timeout;
            let row = app.lifecycle.create(request).await?;
            let id = row.id.clone();
            let uploading = app.upload_all(row, form, first, timeout);
            let uploaded = tokio::select! {
                biased;
                () = gone.cancelled() => Err(ApiError::invalid("The client has disconnected")),
                uploaded = uploading => uploaded,
            };
            // The client may have gone in the last moment.
            match uploaded {
                Ok(sandbox) if !gone.is_cancelled() => Ok(sandbox),
                outcome => {
                    app.discard(&id, by).await;
                    Err(outcome.err().unwrap_or_else(|| ApiError::invalid("The client has disconnected")))
                }
            }
        });
        created.await.unwrap_or_else(|| {
            Err(ApiError::new(ErrorCode::Internal, "The server failed; find the details in its log"))
        })
    }

    async fn upload_all(
        &self,
        row: Row,
        form: Form<FormError>,
        first: Option<cabana_form::Part>,
        timeout: u64,
    ) -> Result<Sandbox, ApiError> {
        let id = row.id.clone();
        let mut uploads = Vec::new();
        if first.is_some() {
            let target = Target::find(self.enter(&row).await?, self.tasks.clone()).await?;
            let mut files = Files { form, target: &target, most: self.max_upload, next: first, count: 0, ended: false };
            let uploading = async {
                while let Some((name, outcome)) = files.next().await {
                    match outcome {
                        Err(Failed { error, .. }) => return Err(refused(&name, &error)),
                        outcome => uploads.push(entry(name, outcome)),
                    }
                }
                Ok(())
            };
            tokio::select! {
                uploaded = uploading => uploaded?,
                () = self.put_off(&id, timeout) => {}
            }
            // The time of the sandbox begins when its files are there.
            self.lifecycle.set_timeout(&id, timeout, true).await?;
        }
        Ok(Sandbox { uploads: Some(uploads), ..self.sandbox_response(row) })
    }

    /// Puts the timeout of a sandbox off, for ever.
    async fn put_off(&self, id: &SandboxId, timeout: u64) {
        let mut ticks = tokio::time::interval(RENEW_EVERY);
        loop {
            ticks.tick().await;
            // If the sandbox has ended, the upload fails and says so.
            let _ = self.lifecycle.set_timeout(id, timeout, true).await;
        }
    }

    async fn discard(&self, id: &SandboxId, by: String) {
        if let Err(error) = self.lifecycle.kill(id, EndCause::Killed { by }).await {
            let error = cabana_types::error::chain(&error);
            tracing::warn!(sandbox = %id, error, "could not kill a sandbox whose files were not uploaded");
        }
    }
}

/// Reads the first part: what would be the body without files.
async fn description(form: &mut Form<FormError>) -> Result<NewSandbox, ApiError> {
    let missing = || ApiError::invalid("The first part of the form must be named sandbox: the usual body as JSON");
    let part = form.part().await?.ok_or_else(missing)?;
    if part.name.as_deref() != Some("sandbox") {
        return Err(missing());
    }
    let mut text = Vec::new();
    while let Some(bytes) = form.data().await? {
        if text.len() + bytes.len() > MAX_API_BODY_BYTES {
            let most = MAX_API_BODY_BYTES >> 20;
            return Err(ApiError::invalid(format!("The part named sandbox is larger than {most} MiB")));
        }
        text.extend_from_slice(&bytes);
    }
    crate::api::body::parse(&text)
}

fn refused(name: &str, error: &FileError) -> ApiError {
    let code = match error {
        FileError::Name(_) | FileError::Broken(_) => ErrorCode::InvalidRequest,
        FileError::TooLarge(_) => ErrorCode::BodyTooLarge,
        FileError::DiskFull => ErrorCode::StorageFull,
        FileError::Guest(_) => ErrorCode::SandboxCreateFailed,
    };
    ApiError::new(code, format!("File {} was not uploaded, and no sandbox was created: {error}", quoted(name)))
}
