//! Runs an action on several objects: continues after an error, and prints the ids or names of those that succeeded.

use std::fmt::Display;

use cabana_client::Error;

use crate::commands::Context;
use crate::failure::{Failure, Outcome};

/// `kind` names the objects; `act` returns whether it changed anything.
pub(crate) async fn run<T: Display>(
    kind: &str,
    ids: &[T],
    context: &Context,
    act: impl AsyncFn(&T) -> Result<bool, Error>,
) -> Outcome {
    let mut worst: Option<Failure> = None;
    for id in ids {
        match act(id).await {
            Ok(true) => context.out.line(&id.to_string())?,
            Ok(false) => {}
            Err(error) => {
                if let Some(earlier) = worst.replace(Failure::from(error).context(format!("{kind} {id}"))) {
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
