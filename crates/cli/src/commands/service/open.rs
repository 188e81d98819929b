//! `cabana service open`: prints where a service can be seen.

use cabana_types::wire::OpenService;

use super::named::{self, Named};
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana service open SANDBOX
  xdg-open \"$(cabana service open SANDBOX --path /docs)\"          open it at once

Prints the address of the service. If it is private, it asks to sign in to the console;
`cabana login` prints a link for that, `cabana service link` makes one for others.";

/// Print the address of a service
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service: SANDBOX, SANDBOX/NAME or its id
    #[arg(value_name = "SERVICE", value_parser = named::parse)]
    service: Named,
    /// Path and query of the page [default: /]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let id = args.service.id(&client).await?;
    let opened = client.open_service(&id, &OpenService { path: args.path, frame: false }).await?;
    if args.json {
        context.out.json(&opened)?;
    } else {
        context.out.line(opened.url.expose())?;
    }
    Ok(0)
}
