//! `cabana usage`: what was used.

use cabana_types::SandboxId;
use cabana_types::wire::{UsageEntry, UsageReport};

use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana usage
  cabana usage --from 2026-11-01T00:00:00Z --group day,kind,model
  cabana usage --group sandbox --csv > usage.csv
  cabana usage --sandbox i4x2k…

Groups: day or hour, and kind, project, sandbox, model. Times are UTC. Amounts are exact, and at most a
minute behind: vCPU-seconds, MiB-seconds, or counts.";

/// Show what was used
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// From this time on; 30 days ago by default
    #[arg(long, value_name = "TIME")]
    from: Option<jiff::Timestamp>,
    /// Until this time; now by default
    #[arg(long, value_name = "TIME")]
    to: Option<jiff::Timestamp>,
    /// What the sums are grouped by
    #[arg(long, value_name = "LIST", default_value = "day,kind")]
    group: String,
    /// Only of this sandbox
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<SandboxId>,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let mut parameters = vec![("group", args.group)];
    parameters.extend(args.from.map(|from| ("from", from.to_string())));
    parameters.extend(args.to.map(|to| ("to", to.to_string())));
    parameters.extend(args.sandbox.map(|sandbox| ("sandbox", sandbox.to_string())));
    let client = context.client()?;
    let report = client.usage(&parameters).await?;
    if args.json {
        context.out.json(&report)?;
    } else {
        show(&report, args.csv, context)?;
    }
    if report.truncated {
        context.out.warn("there is more; ask for a shorter time, or group by less");
    }
    Ok(0)
}

/// A column of the table.
type Column = (&'static str, fn(&UsageEntry) -> Option<String>);

const COLUMNS: [Column; 5] = [
    ("PERIOD", |row| row.period.map(|period| period.to_string())),
    ("KIND", |row| Some(row.kind.to_string())),
    ("PROJECT", |row| row.project_id.clone()),
    ("OF", |row| Some(format!("{} {}", row.subject_kind?, row.subject_id.as_deref()?))),
    ("MODEL", |row| row.model.clone()),
];

fn show(report: &UsageReport, csv: bool, context: &Context) -> Result<(), crate::failure::Failure> {
    let shown: Vec<&Column> =
        COLUMNS.iter().filter(|(_, value)| report.rows.iter().any(|row| value(row).is_some())).collect();
    let costs = report.rows.iter().any(|row| row.cost_micros.0 != 0);
    let mut headings: Vec<&str> = shown.iter().map(|(heading, _)| *heading).collect();
    headings.extend(["AMOUNT", "UNIT"]);
    let cost = format!("COST {}", report.currency);
    if costs {
        headings.push(&cost);
    }
    let cells = |row: &UsageEntry| {
        let mut cells: Vec<String> = shown.iter().map(|(_, value)| value(row).unwrap_or_default()).collect();
        cells.extend([row.amount.clone(), row.unit.clone()]);
        cells.extend(costs.then(|| row.cost_micros.to_string()));
        cells
    };
    let rows: Vec<_> = report.rows.iter().map(cells).collect();
    if !csv {
        return context.out.rows(&headings, &rows);
    }
    let line = |cells: &[String]| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
    context.out.line(&headings.join(",").to_lowercase().replace(' ', "_"))?;
    rows.iter().try_for_each(|row| context.out.line(&line(row)))
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
