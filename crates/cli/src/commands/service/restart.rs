//! `cabana service restart`: starts a service again.

use super::named::{self, Named};
use super::start::WAIT_SECONDS;
use super::state;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana service restart SANDBOX               the service named web
  cabana service restart SANDBOX/api --no-wait

Ends its processes if it runs, starts it, waits until it listens, and prints its name, state, port,
access and URL. The exit code is 1 if it ends or opens no port.";

/// Start a service again
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service: SANDBOX, SANDBOX/NAME or its id
    #[arg(value_name = "SERVICE", value_parser = named::parse)]
    service: Named,
    /// Do not wait until it listens
    #[arg(long)]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let id = args.service.id(&client).await?;
    let wait = if args.no_wait { 0 } else { WAIT_SECONDS };
    let service = client.restart_service(&id, wait).await?;
    state::report(&service, !args.no_wait, args.json, context)
}
