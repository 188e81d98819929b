//! `cabana fork`: creates sandboxes from a copy of another's disk.

use cabana_types::SandboxId;
use cabana_types::wire::ForkRequest;

use crate::amount::parse_seconds;
use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, SYSTEM_ERROR};

const EXAMPLES: &str = "\
Examples:
  id2=$(cabana fork ID)
  cabana fork ID --count 5 --timeout 1h

Each new sandbox boots from a copy of the sandbox's disk, taken at one instant; processes are not
copied. Prints the new ids.";

/// Create sandboxes with a copy of another's disk
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// Number of sandboxes, 1 to 20
    #[arg(short, long, value_name = "COUNT", default_value_t = 1)]
    count: i64,
    /// Kill them after this long: seconds, or 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "5m")]
    timeout: i64,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let wanted = ForkRequest { timeout: Some(args.timeout), count: Some(args.count) };
    let mut failed = None;
    for made in context.client()?.fork(&args.id, &wanted).await? {
        match (made.sandbox, made.error) {
            (Some(sandbox), _) => context.out.line(sandbox.sandbox_id.as_str())?,
            (None, Some(error)) => failed = Some(error.message),
            (None, None) => failed = Some("a sandbox was not created".to_owned()),
        }
    }
    match failed {
        Some(message) => Err(Failure::user_error(message).code(SYSTEM_ERROR)),
        None => Ok(0),
    }
}
