//! `cabana service logs`: prints what a service prints.

use cabana_client::ServiceLogEvent;
use cabana_types::wire::ServiceLogLines;

use super::named::{self, Named};
use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::output::clean;

const EXAMPLES: &str = "\
Examples:
  cabana service logs SANDBOX                  of the service named web
  cabana service logs SANDBOX/api --tail 20
  cabana service logs SANDBOX -f               continue until it ends
  cabana service logs svc_0123456789abcdefghij --json

The last megabyte of output is kept while the sandbox runs.";

/// Show what a service prints
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The service: SANDBOX, SANDBOX/NAME or its id
    #[arg(value_name = "SERVICE", value_parser = named::parse)]
    service: Named,
    /// Number of lines to begin with
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    tail: u32,
    /// Keep printing new lines
    #[arg(short, long)]
    follow: bool,
    /// Print JSON; with --follow, one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let id = args.service.id(&client).await?;
    let out = &context.out;
    if !args.follow {
        let log = client.service_log(&id, args.tail).await?;
        if args.json {
            out.json(&log)?
        } else {
            print(&log, context)?
        }
        return Ok(0);
    }
    let mut log = client.follow_service_log(&id, args.tail).await?;
    while let Some(event) = log.next().await? {
        match event {
            ServiceLogEvent::Lines(lines) if args.json => out.json_line(&lines)?,
            ServiceLogEvent::Lines(lines) => print(&lines, context)?,
            ServiceLogEvent::End(end) => {
                let reason = end.reason.as_deref().map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
                out.say(&format!("the service is now in state {}{reason}", end.state));
                return Ok(0);
            }
        }
    }
    Err(Failure::user_error("the server has closed the log").code(crate::failure::SYSTEM_ERROR))
}

fn print(log: &ServiceLogLines, context: &Context) -> Result<(), Failure> {
    if log.dropped > 0 {
        context.out.warn(&format!("{} bytes before these lines are no longer kept", log.dropped));
    }
    let lines: String = log.lines.iter().map(|line| format!("{}\n", clean(line))).collect();
    context.out.raw(lines.as_bytes())
}
