//! `cabana pause`: lays sandboxes to rest.

use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana pause ID                with its processes and memory
  cabana pause ID --disk         its disk alone; it boots afresh when it is resumed

The next `cabana exec`, `shell`, `cp` or `resume` wakes it.";

/// Pause a sandbox: nothing in it runs until it is woken
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandboxes
    #[arg(value_name = "ID", value_parser = parse_id, required = true)]
    ids: Vec<SandboxId>,
    /// Keep its disk alone: its processes end in order
    #[arg(long)]
    disk: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    each::run("sandbox", &args.ids, context, async |id| client.pause(id, !args.disk).await.map(|()| true)).await
}
