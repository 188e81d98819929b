//! `cabana logs`: prints a sandbox's log.

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
  cabana logs ID -f            continue until the sandbox ends
  cabana logs ID --json        one JSON object per line";

/// Polling interval with --follow; the API has no log stream.
const POLL: Duration = Duration::from_secs(1);
/// Lines per request.
const PAGE: u32 = 1000;

/// Show a sandbox's log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// Keep printing new lines
    #[arg(short, long)]
    follow: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let mut printed = Printed::default();
    loop {
        // Checked before the log is read, so that everything up to the end is printed.
        let gone = args.follow && matches!(client.get(&args.id).await, Err(e) if e.is_not_found());
        let logs = match client.logs(&args.id, printed.start, Some(PAGE)).await {
            Ok(logs) => logs,
            // The sandbox and its log are gone.
            Err(e) if printed.start.is_some() && e.is_not_found() => return Ok(0),
            Err(e) => return Err(e.into()),
        };
        let full = logs.log_entries.len() >= PAGE as usize;
        let mut fresh = false;
        for entry in logs.log_entries {
            if printed.is_new(&entry) {
                fresh = true;
                print(&entry, &args, context)?;
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

/// Lines printed already: the latest timestamp, and the lines with that timestamp.
#[derive(Default)]
struct Printed {
    start: Option<i64>,
    at_start: HashSet<String>,
}

impl Printed {
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

fn print(entry: &LogEntry, args: &Args, context: &Context) -> Result<(), Failure> {
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
    fn every_line_is_printed_once() {
        let entry = |ms: i64, text: &str| LogEntry {
            timestamp: jiff::Timestamp::from_millisecond(ms).expect("time"),
            message: text.to_owned(),
            level: "info".to_owned(),
            fields: Default::default(),
        };
        let mut printed = Printed::default();
        assert!(printed.is_new(&entry(5, "a")));
        assert!(!printed.is_new(&entry(5, "a")));
        assert!(printed.is_new(&entry(5, "b")), "another line of the same moment");
        assert!(printed.is_new(&entry(6, "a")));
        assert!(!printed.is_new(&entry(5, "b")));
    }
}
