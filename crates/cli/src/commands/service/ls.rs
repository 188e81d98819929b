//! `cabana service ls`: lists the services of one sandbox, or of all.

use cabana_client::{Client, ListQuery};
use cabana_types::SandboxId;
use cabana_types::wire::Service;
use futures_util::{StreamExt, TryStreamExt};

use super::state;
use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana service ls                 of all running and paused sandboxes
  cabana service ls SANDBOX
  cabana service ls --json | jq '.[].url'

If piped, prints one tab-separated line per service: SANDBOX/NAME, state, port, access, URL. A state
is starting, running, suspended (the sandbox is paused), stopped or error.";

/// Requests at the same time.
const AT_ONCE: usize = 8;

/// List services
#[derive(Debug, clap::Args)]
#[command(visible_alias = "list", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox [default: all]
    #[arg(value_name = "SANDBOX", value_parser = parse_id)]
    sandbox: Option<SandboxId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let services = match &args.sandbox {
        Some(sandbox) => client.services(sandbox).await?,
        None => of_all(&client).await?,
    };
    let out = &context.out;
    if args.json {
        out.json(&services)?;
        return Ok(0);
    }
    let rows: Vec<_> = services.iter().map(state::row).collect();
    out.rows(&state::HEADINGS, &rows)?;
    if rows.is_empty() {
        out.note("there are no services; start one with `cabana service start`");
    }
    Ok(0)
}

async fn of_all(client: &Client) -> Result<Vec<Service>, Failure> {
    let sandboxes = client.list_all(&ListQuery::default()).await?;
    let each = futures_util::stream::iter(sandboxes).map(|sandbox| async move {
        match client.services(&sandbox.sandbox_id).await {
            // It has ended meanwhile.
            Err(e) if e.is_not_found() => Ok(Vec::new()),
            services => services,
        }
    });
    let services: Vec<Vec<Service>> = each.buffered(AT_ONCE).try_collect().await?;
    Ok(services.into_iter().flatten().collect())
}
