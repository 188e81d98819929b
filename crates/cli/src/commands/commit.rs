//! `cabana commit`: a template of a sandbox.

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

The template is the sandbox's disk as it is, with the template under it; processes and what is in
memory are no part of it, nor are the variables that the sandbox was created with. The sandbox goes
on. Prints NAME:BUILD, which names this template for ever.";

/// Make a template of a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// What to call the template; one that is there gets another build [default: sandbox-ID]
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
            Failure::from(e).hint("the server goes on with it; `cabana template ls` shows when it is ready")
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
