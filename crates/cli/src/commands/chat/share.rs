//! `cabana chat share`, `shares` and `unshare`: links by which anyone can read a chat.

use cabana_types::wire::{ChatShare, NewChatShare};
use cabana_types::{ChatId, GrantId, InvalidId};
use jiff::Timestamp;

use super::parse_chat;
use crate::amount::{parse_seconds, relative};
use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const SHARE_EXAMPLES: &str = "\
Examples:
  cabana chat share ID
  cabana chat share ID --live --expires 12h

Prints the address, which is shown only once. Whoever has it can read the messages and get copies of
artifacts, without signing in: up to now, or with --live also what comes later. Ids and addresses of
sandboxes are left out; files, terminals and services are never shown.";

const UNSHARE_EXAMPLES: &str = "\
Examples:
  cabana chat unshare ID LINK

`cabana chat shares ID` lists the links.";

const LS_EXAMPLES: &str = "\
Examples:
  cabana chat shares ID

If piped, prints one tab-separated line per link: id, state, until when, how often it was opened.";

/// Make a link by which anyone can read a chat
#[derive(Debug, clap::Args)]
#[command(after_help = SHARE_EXAMPLES)]
pub(super) struct Args {
    /// The chat
    #[arg(value_name = "ID", value_parser = parse_chat)]
    id: ChatId,
    /// Also show messages that come later
    #[arg(long)]
    live: bool,
    /// Also show arguments and output of tools
    #[arg(long)]
    tool_details: bool,
    /// Time after which it is invalid, such as 12h [default: 30 days]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    expires: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the links to a chat
#[derive(Debug, clap::Args)]
#[command(after_help = LS_EXAMPLES)]
pub(super) struct LsArgs {
    /// The chat
    #[arg(value_name = "ID", value_parser = parse_chat)]
    id: ChatId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Revoke links to a chat
#[derive(Debug, clap::Args)]
#[command(after_help = UNSHARE_EXAMPLES)]
pub(super) struct RmArgs {
    /// The chat
    #[arg(value_name = "ID", value_parser = parse_chat)]
    id: ChatId,
    /// The links, by id
    #[arg(value_name = "LINK", required = true, value_parser = parse_share)]
    shares: Vec<GrantId>,
}

pub(super) async fn run(args: Args, context: &Context) -> Outcome {
    let Args { id, live, tool_details, expires, json } = args;
    let expires_in_seconds = expires.map(u64::try_from).transpose();
    let expires_in_seconds = expires_in_seconds.map_err(|_| Failure::user_error("--expires must not be negative"))?;
    let made = context.client()?.share_chat(&id, &NewChatShare { live, tool_details, expires_in_seconds }).await?;
    if json {
        context.out.json(&made)?;
    } else {
        context.out.line(made.url.as_ref().map_or("", |url| url.expose()))?;
    }
    Ok(0)
}

pub(super) async fn ls(args: LsArgs, context: &Context) -> Outcome {
    let shares = context.client()?.chat_shares(&args.id).await?;
    if args.json {
        context.out.json(&shares)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let time = |at: Timestamp| if context.out.is_terminal() { relative(at, now) } else { at.to_string() };
    let row = |share: &ChatShare| {
        let state = match share.revoked_at {
            Some(_) => "revoked",
            None if share.expires_at <= now => "expired",
            None if share.live => "live",
            None => "valid",
        };
        vec![share.id.to_string(), state.to_owned(), time(share.expires_at), share.opened.to_string()]
    };
    let rows: Vec<_> = shares.iter().map(row).collect();
    context.out.rows(&["ID", "STATE", "EXPIRES", "OPENED"], &rows)?;
    Ok(0)
}

pub(super) async fn rm(args: RmArgs, context: &Context) -> Outcome {
    let client = context.client()?;
    let revoke = async |share: &GrantId| client.unshare_chat(&args.id, share).await.map(|()| true);
    each::run("link", &args.shares, context, revoke).await
}

fn parse_share(text: &str) -> Result<GrantId, String> {
    text.parse().map_err(|error: InvalidId| error.to_string())
}
