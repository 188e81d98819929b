//! `cabana templates`: what sandboxes start from.

use jiff::Timestamp;

use crate::amount::{mebibytes, relative};
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana templates ls
  cabana templates ls --json
  cabana create --template base

Piped, it is one line for each template, with tabs between: id, names, build status, CPUs, memory in MiB,
disk in MiB, time of the last change.";

/// Templates: what sandboxes start from
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List templates
    #[command(visible_alias = "list", after_help = EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let Command::Ls { json } = command;
    let templates = context.client()?.templates().await?;
    let out = &context.out;
    if json {
        out.json(&templates)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let people = out.is_terminal();
    let amount = |mib: u32| if people { mebibytes(mib.into()) } else { mib.to_string() };
    let rows: Vec<_> = templates
        .iter()
        .map(|t| {
            vec![
                t.template_id.to_string(),
                t.aliases.join(","),
                t.build_status.clone(),
                t.cpu_count.to_string(),
                amount(t.memory_mb),
                amount(t.disk_size_mb),
                if people { relative(t.updated_at, now) } else { t.updated_at.to_string() },
            ]
        })
        .collect();
    out.rows(&["ID", "NAMES", "BUILD", "CPU", "MEMORY", "DISK", "CHANGED"], &rows)?;
    Ok(0)
}
