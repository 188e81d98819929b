//! `cabana service`: servers that run in sandboxes, and who may see them.

mod link;
mod links;
mod logs;
mod ls;
mod named;
mod open;
mod restart;
mod start;
mod state;
mod unlink;

use cabana_client::Client;

use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use named::Named;

const STOP_EXAMPLES: &str = "\
Examples:
  cabana service stop SANDBOX                    the service named web
  cabana service stop SANDBOX/api svc_0123456789abcdefghij

All of its processes get SIGTERM, and SIGKILL after a while. `cabana service restart` starts it
again. Prints the names of the stopped services. Continues after an error.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana service rm SANDBOX/api

Stops services and forgets them, with their links. Prints the names of the removed services.
Continues after an error.";

/// Run servers in sandboxes and look at them in a browser
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    Start(Box<start::Args>),
    Ls(ls::Args),
    Logs(logs::Args),
    Restart(restart::Args),
    /// Stop services
    #[command(after_help = STOP_EXAMPLES)]
    Stop {
        /// The services: SANDBOX, SANDBOX/NAME or ids
        #[arg(value_name = "SERVICE", required = true, value_parser = named::parse)]
        services: Vec<Named>,
    },
    /// Stop services and forget them
    #[command(visible_alias = "delete", after_help = RM_EXAMPLES)]
    Rm {
        /// The services: SANDBOX, SANDBOX/NAME or ids
        #[arg(value_name = "SERVICE", required = true, value_parser = named::parse)]
        services: Vec<Named>,
    },
    Open(open::Args),
    Link(link::Args),
    Links(links::Args),
    Unlink(unlink::Args),
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Start(args) => start::run(*args, context).await,
        Command::Ls(args) => ls::run(args, context).await,
        Command::Logs(args) => logs::run(args, context).await,
        Command::Restart(args) => restart::run(args, context).await,
        Command::Stop { services } => {
            let stop = async |client: &Client, service: &Named| {
                client.stop_service(&service.id(client).await?).await?;
                Ok(())
            };
            each(&services, context, stop).await
        }
        Command::Rm { services } => {
            let remove = async |client: &Client, service: &Named| {
                client.delete_service(&service.id(client).await?).await?;
                Ok(())
            };
            each(&services, context, remove).await
        }
        Command::Open(args) => open::run(args, context).await,
        Command::Link(args) => link::run(args, context).await,
        Command::Links(args) => links::run(args, context).await,
        Command::Unlink(args) => unlink::run(args, context).await,
    }
}

/// Does something with each service; continues after an error, and prints the names of those that succeeded.
async fn each(
    services: &[Named],
    context: &Context,
    act: impl AsyncFn(&Client, &Named) -> Result<(), Failure>,
) -> Outcome {
    let client = context.client()?;
    let mut worst: Option<Failure> = None;
    for service in services {
        match act(&client, service).await {
            Ok(()) => context.out.line(&service.to_string())?,
            Err(failure) => {
                if let Some(earlier) = worst.replace(failure.context(format!("service {service}"))) {
                    context.out.failure(&earlier);
                }
            }
        }
    }
    worst.map_or(Ok(0), Err)
}
