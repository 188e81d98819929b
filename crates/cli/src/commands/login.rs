//! `cabana login`: prints a link that opens the console, signed in.

use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana login                        on the server's machine
  xdg-open \"$(cabana login)\"          open it at once
  cabana login --api-url https://api.cabana.example.com --api-key e2b_…

Prints a link to the web console. It signs in once, within ten minutes; whoever opens it is the
server's admin. To reach a server on another machine that listens on loopback only:
  ssh -L 3000:127.0.0.1:3000 MACHINE";

/// Print a link that opens the console in a browser
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let made = context.client()?.sign_in_code().await?;
    let out = &context.out;
    if args.json {
        out.json(&made)?;
        return Ok(0);
    }
    if out.is_terminal() {
        out.say("Open this link in a browser within ten minutes. It signs in once:\n");
    }
    out.line(made.url.expose())?;
    Ok(0)
}
