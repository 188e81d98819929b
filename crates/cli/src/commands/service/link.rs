//! `cabana service link`: makes a link by which anyone can see a service.

use cabana_types::wire::NewServiceLink;

use super::named::{self, Named};
use crate::amount::parse_seconds;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana service link SANDBOX
  cabana service link SANDBOX/api --expires 7d

Prints the link. Whoever has it sees the service until it expires or is revoked by
`cabana service unlink`. It is shown only once: the server stores only its hash.";

/// Make a link for others
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service: SANDBOX, SANDBOX/NAME or its id
    #[arg(value_name = "SERVICE", value_parser = named::parse)]
    service: Named,
    /// How long it is valid: seconds, or 30m, 2h, at most 30d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_seconds)]
    expires: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let id = args.service.id(&client).await?;
    let new = NewServiceLink { expires_in_seconds: u64::try_from(args.expires).ok() };
    let link = client.create_service_link(&id, &new).await?;
    if args.json {
        context.out.json(&link)?;
        return Ok(0);
    }
    let url = link
        .url
        .ok_or_else(|| Failure::user_error("the server has sent no address").code(crate::failure::SYSTEM_ERROR))?;
    context.out.line(url.expose())?;
    Ok(0)
}
