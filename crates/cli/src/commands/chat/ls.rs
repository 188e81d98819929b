//! `cabana chat ls`: lists chats.

use cabana_client::ChatList;
use cabana_types::chat::ChatStatus;
use cabana_types::wire::Chat;
use jiff::Timestamp;

use super::render::one_line;
use crate::amount::relative;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana chat ls
  cabana chat ls --status waiting          those in which a person must answer
  cabana chat ls --search \"100 %\"          with this text in the title or in a message
  cabana chat ls --json | jq -r '.[].id'

If piped, prints one tab-separated line per chat: id, status, model, time of the last change, title.";

/// List chats, the last changed first
#[derive(Debug, clap::Args)]
#[command(visible_alias = "list", after_help = EXAMPLES)]
pub(super) struct Args {
    /// Only those that do this
    #[arg(long, value_name = "STATUS", value_parser = ["idle", "running", "waiting", "failed"])]
    status: Option<String>,
    /// Only those with this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Outcome {
    let list = ChatList {
        status: args.status.as_deref().and_then(ChatStatus::parse),
        text: args.search,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let chats = context.client()?.chats(&list).await?;
    let out = &context.out;
    if args.json {
        out.json(&chats)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let time = |at: Timestamp| if out.is_terminal() { relative(at, now) } else { at.to_string() };
    let row = |chat: &Chat| {
        let (status, title) = (chat.status.to_string(), one_line(&chat.title));
        vec![chat.id.to_string(), status, chat.model.clone(), time(chat.updated_at), title]
    };
    let rows: Vec<_> = chats.iter().map(row).collect();
    out.rows(&["ID", "STATUS", "MODEL", "CHANGED", "TITLE"], &rows)?;
    if rows.is_empty() {
        out.note("there are no such chats; begin one with `cabana chat`");
    }
    Ok(0)
}
