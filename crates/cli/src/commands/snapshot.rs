//! `cabana snapshot`: manages snapshots of disks.

use cabana_types::SandboxId;
use jiff::Timestamp;

use crate::amount::relative;
use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana snapshot create ID --name before-upgrade
  cabana create --template before-upgrade           create a sandbox from it
  cabana snapshot ls
  cabana snapshot rm before-upgrade";

/// Manage snapshots of sandboxes' disks
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Take a snapshot and print its id or name
    #[command(after_help = EXAMPLES)]
    Create {
        /// The sandbox
        #[arg(value_name = "ID", value_parser = parse_id)]
        id: SandboxId,
        /// Name of the snapshot; an existing snapshot loses it
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// List snapshots
    #[command(visible_alias = "list", after_help = EXAMPLES)]
    Ls {
        /// Only those of this sandbox
        #[arg(value_name = "ID", value_parser = parse_id)]
        id: Option<SandboxId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete snapshots
    #[command(visible_alias = "delete", after_help = EXAMPLES)]
    Rm {
        /// Ids or names of the snapshots
        #[arg(value_name = "SNAPSHOT", required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    match command {
        Command::Create { id, name } => {
            out.line(&client.take_snapshot(&id, name.as_deref()).await?.snapshot_id)?;
        }
        Command::Ls { id, json } => {
            let snapshots = client.snapshots(id.as_ref()).await?;
            if json {
                out.json(&snapshots)?;
                return Ok(0);
            }
            let now = Timestamp::now();
            let people = out.is_terminal();
            let rows: Vec<_> = snapshots
                .into_iter()
                .map(|s| {
                    let made = s.created_at.map(|at| if people { relative(at, now) } else { at.to_string() });
                    let of = s.sandbox_id.map(|id| id.to_string());
                    vec![s.snapshot_id, of.unwrap_or_default(), made.unwrap_or_default()]
                })
                .collect();
            out.rows(&["SNAPSHOT", "OF", "MADE"], &rows)?;
            if rows.is_empty() {
                out.note("there are no snapshots; create one with `cabana snapshot create`");
            }
        }
        Command::Rm { names } => {
            for name in names {
                client.delete_snapshot(&name).await?;
                out.line(&name)?;
            }
        }
    }
    Ok(0)
}
