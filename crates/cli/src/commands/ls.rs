//! `cabana ls`: lists running and paused sandboxes.

use cabana_client::ListQuery;
use cabana_types::wire::{ListedSandbox, SandboxState};
use clap::ValueEnum;
use jiff::Timestamp;

use crate::amount::{mebibytes, parse_pair, relative};
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana ls
  cabana ls --metadata owner=me --state running
  cabana ls -q | xargs cabana kill              ids only
  cabana ls --json | jq '.[].sandboxID'

Prints a table on a terminal. If piped, prints one tab-separated line per sandbox: id, template,
state, CPUs, memory in MiB, disk in MiB, start, expiry, labels, time of the last state change, its
reason. Failed sandboxes are listed with --state failed; their disks are kept for a while (see
`cabana recover`). Those that have ended are listed with --state ended, the last end first.";

/// List sandboxes
#[derive(Debug, clap::Args)]
#[command(visible_alias = "list", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only sandboxes in this state
    #[arg(long, value_name = "STATE")]
    state: Vec<State>,
    /// Only sandboxes with this label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    metadata: Vec<(String, String)>,
    /// Only sandboxes of this template
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Print ids only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    Running,
    Paused,
    Failed,
    Ended,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let states = args.state.iter().filter_map(|state| match state {
        State::Running => Some(SandboxState::Running),
        State::Paused => Some(SandboxState::Paused),
        State::Failed | State::Ended => None,
    });
    let query = ListQuery {
        states: states.collect(),
        failed: args.state.iter().any(|state| matches!(state, State::Failed)),
        ended: args.state.iter().any(|state| matches!(state, State::Ended)),
        metadata: args.metadata.into_iter().collect(),
        template: args.template,
        ..Default::default()
    };
    let sandboxes = context.client()?.list_all(&query).await?;
    let out = &context.out;
    if args.json {
        out.json(&sandboxes)?;
    } else if args.quiet {
        let ids: String = sandboxes.iter().map(|s| format!("{}\n", s.sandbox_id)).collect();
        out.raw(ids.as_bytes())?;
    } else {
        let now = Timestamp::now();
        let people = out.is_terminal();
        let rows: Vec<_> = sandboxes.iter().map(|s| if people { row(s, now) } else { plain_row(s) }).collect();
        out.rows(
            &["ID", "TEMPLATE", "STATE", "CPU", "MEMORY", "DISK", "STARTED", "EXPIRES", "LABELS", "SINCE", "WHY"],
            &rows,
        )?;
        if rows.is_empty() {
            out.note("there are no sandboxes; create one with `cabana create`");
        }
    }
    Ok(0)
}

fn row(sandbox: &ListedSandbox, now: Timestamp) -> Vec<String> {
    let mut row = plain_row(sandbox);
    row[4] = mebibytes(sandbox.memory_mb.into());
    row[5] = mebibytes(sandbox.disk_size_mb.into());
    row[6] = relative(sandbox.started_at, now);
    // Only running sandboxes expire.
    row[7] = if sandbox.state == SandboxState::Running { relative(sandbox.end_at, now) } else { "-".to_owned() };
    row[9] = sandbox.since.map(|since| relative(since, now)).unwrap_or_default();
    row
}

fn plain_row(sandbox: &ListedSandbox) -> Vec<String> {
    let labels: Vec<_> = sandbox.metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let state = match (sandbox.phase.as_str(), sandbox.state) {
        ("", SandboxState::Running) => "running",
        ("", SandboxState::Paused) => "paused",
        (phase, _) => phase,
    };
    vec![
        sandbox.sandbox_id.to_string(),
        sandbox.alias.clone().unwrap_or_else(|| sandbox.template_id.clone()),
        state.to_owned(),
        sandbox.cpu_count.to_string(),
        sandbox.memory_mb.to_string(),
        sandbox.disk_size_mb.to_string(),
        sandbox.started_at.to_string(),
        sandbox.end_at.to_string(),
        labels.join(","),
        sandbox.since.map(|since| since.to_string()).unwrap_or_default(),
        sandbox.reason.clone().unwrap_or_default(),
    ]
}
