//! `cabana openapi`: the description of the API.

use crate::commands::Context;
use crate::failure::Outcome;

/// Print the API's OpenAPI description
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cabana openapi > openapi.json")]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args, context: &Context) -> Outcome {
    let description = context.client()?.openapi().await?;
    context.out.json(&description)?;
    Ok(0)
}
