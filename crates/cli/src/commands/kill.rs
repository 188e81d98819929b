//! `cabana kill`: kills sandboxes.

use cabana_client::ListQuery;
use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana kill ID
  cabana kill ID1 ID2 ID3
  cabana kill --all              ask for confirmation
  cabana kill --all --yes

Prints the ids of the killed sandboxes. Continues after an error.";

/// Kill sandboxes
#[derive(Debug, clap::Args)]
#[command(visible_alias = "shutdown", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandboxes
    #[arg(value_name = "ID", value_parser = parse_id, required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<SandboxId>,
    /// Kill every sandbox
    #[arg(long)]
    all: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "all")]
    yes: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    let ids = if args.all {
        let listed = client.list_all(&ListQuery::default()).await?;
        let ids: Vec<_> = listed.into_iter().map(|s| s.sandbox_id).collect();
        if !ids.is_empty() && !args.yes {
            if !out.can_ask() {
                return Err(Failure::user_error("killing all sandboxes needs confirmation").hint("add --yes"));
            }
            if !out.confirm(&format!("kill {} sandboxes?", ids.len()))? {
                return Err(Failure::user_error("nothing was killed"));
            }
        }
        ids
    } else {
        args.ids
    };
    each::run("sandbox", &ids, context, async |id| match client.kill(id).await {
        // With --all, it may have ended in the meantime.
        Err(e) if args.all && e.is_not_found() => Ok(false),
        done => done.map(|()| true),
    })
    .await
}
