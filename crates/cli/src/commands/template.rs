//! `cabana template`: manages templates.

mod build;
mod context;
mod credentials;
mod gallery;
mod import;
mod init;
mod logs;
mod ls;
mod network;
mod pull;
mod request;
mod sudo;
mod upload;
mod watch;

use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const TAG_EXAMPLES: &str = "\
Examples:
  cabana template tag web:v2 stable              also tag the build v2 as stable
  cabana template tag web:v1 default             roll back: `web` is v1 again
  cabana template tag web:2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f default

A tag names one build of a template; adding it to another build moves it. Existing sandboxes are not
affected. Prints the new names.";

const UNTAG_EXAMPLES: &str = "\
Examples:
  cabana template untag web v1
  cabana template untag web v1 v2

The builds are kept for a while under their ids. `default` can be moved, but not removed.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana template rm web
  cabana template rm web worker

Deletes templates with all their builds; a running build is cancelled. A template that sandboxes
were started from is kept until they are gone. Prints the names of the deleted templates. Continues
after an error.";

/// Manage templates, which sandboxes start from
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    Build(Box<build::Args>),
    Pull(Box<pull::Args>),
    Import(Box<import::Args>),
    Ls(ls::Args),
    Gallery(gallery::ListArgs),
    Get(gallery::GetArgs),
    /// Add tags to a build
    #[command(after_help = TAG_EXAMPLES)]
    Tag {
        /// The build: NAME, NAME:TAG or NAME:BUILD
        #[arg(value_name = "NAME:TAG")]
        target: String,
        /// Tags to add
        #[arg(value_name = "TAG", required = true)]
        tags: Vec<String>,
    },
    /// Remove tags
    #[command(after_help = UNTAG_EXAMPLES)]
    Untag {
        /// The template
        #[arg(value_name = "NAME")]
        name: String,
        /// Tags to remove
        #[arg(value_name = "TAG", required = true)]
        tags: Vec<String>,
    },
    /// Delete templates
    #[command(visible_alias = "delete", after_help = RM_EXAMPLES)]
    Rm {
        /// Names or ids of the templates
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    Network(network::Args),
    Sudo(sudo::Args),
    Logs(logs::Args),
    Init(init::Args),
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let out = &context.out;
    match command {
        Command::Build(args) => return Box::pin(build::run(*args, context)).await,
        Command::Pull(args) => return Box::pin(pull::run(*args, context)).await,
        Command::Import(args) => return Box::pin(import::run(*args, context)).await,
        Command::Ls(args) => return ls::run(args, context).await,
        Command::Gallery(args) => return gallery::list(args, context).await,
        Command::Get(args) => return Box::pin(gallery::get(args, context)).await,
        Command::Network(args) => return network::run(args, context).await,
        Command::Sudo(args) => return sudo::run(args, context).await,
        Command::Logs(args) => return Box::pin(logs::run(args, context)).await,
        Command::Init(args) => return init::run(&args, context),
        Command::Tag { target, tags } => {
            let given = context.client()?.assign_tags(&target, &tags).await;
            let given = given.map_err(|e| Failure::from(e).context(format!("template {target}")))?;
            for tag in given.tags {
                out.line(&format!("{}:{tag}", without_tag(&target)))?;
            }
        }
        Command::Untag { name, tags } => {
            let removed = context.client()?.remove_tags(&name, &tags).await;
            removed.map_err(|e| Failure::from(e).context(format!("template {name}")))?;
            for tag in tags {
                out.line(&format!("{name}:{tag}"))?;
            }
        }
        Command::Rm { names } => {
            let client = context.client()?;
            let delete = async |name: &String| client.delete_template(name).await.map(|()| true);
            return each::run("template", &names, context, delete).await;
        }
    }
    Ok(0)
}

/// The `name` part of `name:tag`.
fn without_tag(name: &str) -> &str {
    name.split_once(':').map_or(name, |(name, _)| name)
}
