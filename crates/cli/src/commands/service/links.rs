//! `cabana service links`: lists the links to a service.

use cabana_types::wire::ServiceLink;
use jiff::Timestamp;

use super::named::{self, Named};
use crate::amount::relative;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana service links SANDBOX
  cabana service links SANDBOX/api --json

If piped, prints one tab-separated line per link: id, `valid`, `expired` or `revoked`, creation time,
expiry, how often it was opened, time of the last opening. The links themselves are not stored.";

/// List links to a service
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service: SANDBOX, SANDBOX/NAME or its id
    #[arg(value_name = "SERVICE", value_parser = named::parse)]
    service: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let links = client.service_links(&args.service.id(&client).await?).await?;
    let out = &context.out;
    if args.json {
        out.json(&links)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let time = |at: Timestamp| if out.is_terminal() { relative(at, now) } else { at.to_string() };
    let row = |link: &ServiceLink| {
        let state = match link.revoked_at {
            Some(_) => "revoked",
            None if link.expires_at <= now => "expired",
            None => "valid",
        };
        let (created, expires) = (time(link.created_at), time(link.expires_at));
        let last = link.last_opened_at.map(time).unwrap_or_default();
        vec![link.id.to_string(), state.to_owned(), created, expires, link.opened.to_string(), last]
    };
    let rows: Vec<_> = links.iter().map(row).collect();
    out.rows(&["ID", "STATE", "CREATED", "EXPIRES", "OPENED", "LAST OPENED"], &rows)?;
    if rows.is_empty() {
        out.note("there are no links; make one with `cabana service link`");
    }
    Ok(0)
}
