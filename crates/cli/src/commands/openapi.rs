//! `cabana openapi`: prints the API description.

use crate::commands::Context;
use crate::failure::Outcome;

/// Print the API's OpenAPI description
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cabana openapi > openapi.json\n\nWorks without a server.")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Outcome {
    context.out.raw(cabana_server::api::document().as_bytes())?;
    Ok(0)
}
