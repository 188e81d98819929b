//! `cabana commit`: creates a template from a sandbox.

use cabana_client::Error;
use cabana_types::SandboxId;
use cabana_types::wire::CommitRequest;

use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana exec ID -- sudo apt-get install -y ffmpeg
  cabana commit ID media                       a template with ffmpeg in it
  cabana create --template media
  cabana commit ID media:v2 --tag stable

The template contains the sandbox's whole disk, but not its processes, its memory or the environment
it was created with. The sandbox keeps running. Prints NAME:BUILD, which always names this build.";

/// Create a template from a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// Name of the template; an existing one gets a new build [default: sandbox-ID]
    #[arg(value_name = "NAME[:TAG]")]
    name: Option<String>,
    /// Tag for the build; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let wanted = CommitRequest { alias: args.name, tags: (!args.tags.is_empty()).then_some(args.tags) };
    let made = context.client()?.commit(&args.id, &wanted).await.map_err(|e| match e {
        e @ Error::TimedOut { .. } => {
            Failure::from(e).hint("the server continues; `cabana template ls` shows when it is ready")
        }
        other => other.into(),
    });
    let made = made?;
    if args.json {
        context.out.json(&made)?;
    } else {
        let name = made.aliases.first().map_or(made.template_id.as_str(), String::as_str);
        context.out.line(&format!("{name}:{}", made.build_id))?;
    }
    Ok(0)
}
