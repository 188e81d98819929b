//! `cabana timeout`: when a sandbox expires.

use cabana_types::SandboxId;

use crate::amount::{parse_seconds, short};
use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana timeout ID 600      ten minutes from now
  cabana timeout ID 2h
  cabana timeout ID 0        now";

/// Set when a sandbox expires, counted from now
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// Seconds, or 5m, 2h, 1d
    #[arg(value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: i64,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    context.client()?.set_timeout(&args.id, args.seconds).await?;
    context.out.note(&format!("{} expires in {}", args.id, short(args.seconds)));
    Ok(0)
}
