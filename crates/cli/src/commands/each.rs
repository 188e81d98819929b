//! The same for several sandboxes: goes on after an error, and prints the ids of those with which it worked.

use cabana_client::Error;
use cabana_types::SandboxId;

use crate::commands::Context;
use crate::failure::{Failure, Outcome};

/// `act` says whether it did anything.
pub(crate) async fn run(
    ids: &[SandboxId],
    context: &Context,
    act: impl AsyncFn(&SandboxId) -> Result<bool, Error>,
) -> Outcome {
    let mut worst: Option<Failure> = None;
    for id in ids {
        match act(id).await {
            Ok(true) => context.out.line(id.as_str())?,
            Ok(false) => {}
            Err(error) => {
                if let Some(earlier) = worst.replace(Failure::from(error).context(format!("sandbox {id}"))) {
                    context.out.failure(&earlier);
                }
            }
        }
    }
    match worst {
        Some(failure) => Err(failure),
        None => Ok(0),
    }
}
