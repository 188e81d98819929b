//! `cabana recover`: makes a sandbox usable again.

use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana ls --state failed
  cabana recover ID

A failed sandbox, or one that does not answer, boots afresh from its disk; a paused one wakes; one that is
fine stays as it is.";

/// Make a failed or hung sandbox usable again
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandboxes
    #[arg(value_name = "ID", value_parser = parse_id, required = true)]
    ids: Vec<SandboxId>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    each::run("sandbox", &args.ids, context, async |id| client.recover(id).await.map(|_| true)).await
}
