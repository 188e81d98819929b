//! `cabana chat rm`: deletes chats.

use cabana_types::ChatId;

use super::parse_chat;
use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana chat rm ID                        ask for confirmation
  cabana chat rm ID1 ID2 --yes
  cabana chat rm ID --keep-sandbox --yes   `cabana ls` still lists its sandboxes

Stops the chats, kills their sandboxes, and deletes messages and files. Prints the ids of the
deleted chats. Continues after an error.";

/// Delete chats and their sandboxes
#[derive(Debug, clap::Args)]
#[command(visible_alias = "delete", after_help = EXAMPLES)]
pub(super) struct Args {
    /// The chats
    #[arg(value_name = "ID", required = true, value_parser = parse_chat)]
    ids: Vec<ChatId>,
    /// Keep their sandboxes
    #[arg(long)]
    keep_sandbox: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    if !args.yes {
        if !out.can_ask() {
            return Err(Failure::user_error("deleting chats needs confirmation").hint("add --yes"));
        }
        let what = match args.ids.as_slice() {
            [id] => format!("delete the chat {id}?"),
            ids => format!("delete {} chats?", ids.len()),
        };
        if !out.confirm(&what)? {
            return Err(Failure::user_error("nothing was deleted"));
        }
    }
    each::run("chat", &args.ids, context, async |id| client.delete_chat(id, args.keep_sandbox).await.map(|()| true))
        .await
}
