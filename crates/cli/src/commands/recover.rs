//! `cabana recover`: makes a sandbox usable again.

use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana ls --state failed
  cabana recover ID

A failed or unresponsive sandbox reboots from its disk; a paused one is resumed; a healthy one is
left alone.";

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
