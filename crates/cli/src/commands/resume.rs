//! `cabana resume`: resumes sandboxes.

use cabana_types::SandboxId;

use crate::amount::parse_seconds;
use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana resume ID
  cabana resume ID --timeout 2h

The timeout of a running sandbox is only extended. Archived sandboxes are restored from cold
storage.";

/// Resume a paused sandbox
#[derive(Debug, clap::Args)]
#[command(visible_alias = "connect", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandboxes
    #[arg(value_name = "ID", value_parser = parse_id, required = true)]
    ids: Vec<SandboxId>,
    /// Minimum time until it expires: seconds, or 5m, 2h [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    timeout: Option<i64>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    each::run("sandbox", &args.ids, context, async |id| client.connect(id, args.timeout).await.map(|_| true)).await
}
