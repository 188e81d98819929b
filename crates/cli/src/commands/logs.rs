//! `cabana logs`: what happened to a sandbox.

use std::collections::HashSet;
use std::time::Duration;

use cabana_types::SandboxId;
use cabana_types::wire::LogEntry;
use owo_colors::Style;

use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana logs ID
  cabana logs ID -f            goes on until the sandbox ends
  cabana logs ID --json        one JSON object a line";

/// How often a followed log is asked for what is new; the API has no stream of it.
const POLL: Duration = Duration::from_secs(1);
/// Lines of one answer.
const PAGE: u32 = 1000;

/// Show what happened to a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// Wait for more
    #[arg(short, long)]
    follow: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let mut shown = Shown::default();
    loop {
        // Asked before the log is read, so that what came up to its end is shown.
        let gone = args.follow && matches!(client.get(&args.id).await, Err(e) if e.is_not_found());
        let logs = match client.logs(&args.id, shown.start, Some(PAGE)).await {
            Ok(logs) => logs,
            // It was there, and is gone with its log.
            Err(e) if shown.start.is_some() && e.is_not_found() => return Ok(0),
            Err(e) => return Err(e.into()),
        };
        let full = logs.log_entries.len() >= PAGE as usize;
        let mut fresh = false;
        for entry in logs.log_entries {
            if shown.is_new(&entry) {
                fresh = true;
                show(&entry, &args, context)?;
            }
        }
        if full && fresh {
            continue;
        }
        if !args.follow || gone {
            return Ok(0);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What was shown already: the last moment, and the lines of that moment.
#[derive(Default)]
struct Shown {
    start: Option<i64>,
    at_start: HashSet<String>,
}

impl Shown {
    fn is_new(&mut self, entry: &LogEntry) -> bool {
        let moment = entry.timestamp.as_millisecond();
        match self.start {
            Some(start) if moment < start => return false,
            Some(start) if moment == start => {}
            _ => {
                self.start = Some(moment);
                self.at_start.clear();
            }
        }
        self.at_start.insert(format!("{}\0{}\0{}", entry.timestamp, entry.level, entry.message))
    }
}

fn show(entry: &LogEntry, args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    if args.json {
        return out.json_line(entry);
    }
    let style = match entry.level.as_str() {
        "error" => Style::new().red(),
        "warn" => Style::new().yellow(),
        _ => Style::new().dimmed(),
    };
    let level = out.mark(&format!("{:5}", crate::output::clean(&entry.level)), style);
    let message = crate::output::clean(&entry.message);
    out.raw(format!("{} {level} {message}\n", entry.timestamp).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_once_and_none_is_lost() {
        let entry = |ms: i64, text: &str| LogEntry {
            timestamp: jiff::Timestamp::from_millisecond(ms).expect("time"),
            message: text.to_owned(),
            level: "info".to_owned(),
            fields: Default::default(),
        };
        let mut shown = Shown::default();
        assert!(shown.is_new(&entry(5, "a")));
        assert!(!shown.is_new(&entry(5, "a")));
        assert!(shown.is_new(&entry(5, "b")), "another line of the same moment");
        assert!(shown.is_new(&entry(6, "a")));
        assert!(!shown.is_new(&entry(5, "b")));
    }
}
