//! `cabana events`: lists events of all sandboxes or of one.

use cabana_client::EventQuery;
use cabana_types::SandboxId;
use jiff::Timestamp;

use crate::amount::relative;
use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana events                                    the latest events of all sandboxes
  cabana events ID
  cabana events --type sandbox.lifecycle.killed --limit 100
  cabana events --json

If piped, prints one tab-separated line per event: time, type, sandbox, reason.";

/// List sandbox events, latest first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: Option<SandboxId>,
    /// Only this type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Number of events
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let query = EventQuery { limit: Some(args.limit), types: args.types, ..Default::default() };
    let events = context.client()?.events(args.id.as_ref(), &query).await?;
    let out = &context.out;
    if args.json {
        out.json(&events)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            let time = if out.is_terminal() { relative(event.timestamp, now) } else { event.timestamp.to_string() };
            let reason = event.event_data.as_ref().and_then(|d| d.get("reason")).and_then(|r| r.as_str());
            vec![time, event.kind.clone(), event.sandbox_id.to_string(), reason.unwrap_or_default().to_owned()]
        })
        .collect();
    out.rows(&["WHEN", "TYPE", "SANDBOX", "REASON"], &rows)?;
    if rows.is_empty() {
        out.note("there are no events yet");
    }
    Ok(0)
}
