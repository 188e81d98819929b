//! `cabana archive`: moves disks to cold storage.

use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana archive ID
  cabana archive ID --recycle     keep only artifacts/, user-uploads/ and --keep-path paths

Its processes are shut down. The next `cabana exec`, `shell`, `cp` or `resume` restores it.";

/// Move a sandbox's disk to cold storage
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandboxes
    #[arg(value_name = "ID", value_parser = parse_id, required = true)]
    ids: Vec<SandboxId>,
    /// Keep only the marked paths
    #[arg(long)]
    recycle: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    each::run("sandbox", &args.ids, context, async |id| client.archive(id, args.recycle).await.map(|()| true)).await
}
