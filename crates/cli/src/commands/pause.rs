//! `cabana pause`: pauses sandboxes.

use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana pause ID                keep its processes and memory
  cabana pause ID --disk         keep only its disk; it reboots when it is resumed

The next `cabana exec`, `shell`, `cp` or `resume` resumes it.";

/// Pause a sandbox until it is resumed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandboxes
    #[arg(value_name = "ID", value_parser = parse_id, required = true)]
    ids: Vec<SandboxId>,
    /// Keep only its disk; its processes are shut down
    #[arg(long)]
    disk: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    each::run("sandbox", &args.ids, context, async |id| client.pause(id, !args.disk).await.map(|()| true)).await
}
