//! `cabana service unlink`: revokes links to a service.

use cabana_types::GrantId;

use super::named::{self, Named};
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana service unlink SANDBOX grt_0123456789abcdefghij

Whoever looks at the service by these links is cut off at once. Prints the ids of the revoked links.
Continues after an error.";

/// Revoke links to a service
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service: SANDBOX, SANDBOX/NAME or its id
    #[arg(value_name = "SERVICE", value_parser = named::parse)]
    service: Named,
    /// The links
    #[arg(value_name = "LINK", required = true, value_parser = parse_link)]
    links: Vec<GrantId>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let id = args.service.id(&client).await?;
    let revoke = async |link: &GrantId| client.delete_service_link(&id, link).await.map(|()| true);
    each::run("link", &args.links, context, revoke).await
}

fn parse_link(text: &str) -> Result<GrantId, String> {
    text.parse().map_err(|_| "not the id of a link; `cabana service links` lists them".to_owned())
}
