//! `cabana chat stop`: stops running turns.

use cabana_types::ChatId;
use cabana_types::wire::CancelRequest;

use super::parse_chat;
use crate::commands::{Context, each};
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana chat stop ID

Stops the model and everything that its tools run, and returns when all of it has stopped. Prints
the ids of the stopped chats. Continues after an error.";

/// Stop what chats do
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The chats
    #[arg(value_name = "ID", required = true, value_parser = parse_chat)]
    ids: Vec<ChatId>,
}

pub(super) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let stop = async |id: &ChatId| client.cancel_turn(id, &CancelRequest::default()).await.map(|_| true);
    each::run("chat", &args.ids, context, stop).await
}
