//! `cabana chat`: asks a model that uses sandboxes, and manages chats.

mod ask;
mod follow;
pub(crate) mod keys;
mod line;
mod ls;
mod render;
#[cfg(test)]
mod render_tests;
mod rm;
mod safe;
mod session;
mod share;
mod show;
pub(crate) mod start;
mod stop;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use cabana_client::Client;
use cabana_types::ChatId;
use cabana_types::turn::TurnState;

use self::follow::{Ended, Follower, Mode};
use self::start::Settings;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, SYSTEM_ERROR};
use crate::output::{Output, clean};
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  cabana chat \"why do the tests fail?\" --file app.tar.gz
  cabana chat                                      talk on the terminal; /help says how
  cabana chat --chat ID \"and now fix them\"         go on with a chat
  git diff | cabana chat --quiet > review.txt      read the message from standard input
  cabana chat --model demo/demo \"a page with a counter\"
  cabana chat --approve ask \"clean up /tmp\"        ask before each command and each change of a file
  cabana chat --json \"hello\" | jq -r .type         the events, one JSON object per line

The answer goes to standard output, everything else to standard error. Ctrl-C stops the turn, a
second one leaves. Exits with 0 if the model has answered, 1 if the turn failed, 130 if it was
stopped, and 3 if a person must allow or answer something and there is no terminal.";

/// Largest message that is read from standard input.
const MAX_INPUT: u64 = 2 << 20;
/// Exit code of a turn that a person stopped.
const STOPPED: u8 = 130;

/// Ask a model that uses sandboxes, or manage chats
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "chats",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    question: Question,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Ls(ls::Args),
    Show(show::Args),
    Rm(rm::Args),
    Stop(stop::Args),
    Share(share::Args),
    Shares(share::LsArgs),
    Unshare(share::RmArgs),
}

#[derive(Debug, clap::Args)]
struct Question {
    /// The message [default: standard input, or a conversation on a terminal]
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
    /// Go on with this chat
    #[arg(short, long, value_name = "ID", value_parser = parse_chat)]
    chat: Option<ChatId>,
    /// Model, as PROVIDER/MODEL [default: the chat's, the agent's or the server's]
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Agent, by name or id
    #[arg(short, long, value_name = "AGENT", conflicts_with = "chat")]
    agent: Option<String>,
    /// File or directory to send with the message; may be repeated
    #[arg(short, long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Answer without a sandbox
    #[arg(long)]
    no_sandbox: bool,
    /// Before commands and changes of files: ask, or allow everything [default: as the chat's tools say]
    #[arg(long, value_name = "HOW", value_parser = ["ask", "auto"])]
    approve: Option<String>,
    /// Print events as JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Print nothing but the answer
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    match args.command {
        None => ask(args.question, context).await,
        Some(Command::Ls(args)) => ls::run(args, context).await,
        Some(Command::Show(args)) => show::run(args, context).await,
        Some(Command::Rm(args)) => rm::run(args, context).await,
        Some(Command::Stop(args)) => stop::run(args, context).await,
        Some(Command::Share(args)) => share::run(args, context).await,
        Some(Command::Shares(args)) => share::ls(args, context).await,
        Some(Command::Unshare(args)) => share::rm(args, context).await,
    }
}

async fn ask(args: Question, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    let prompt = read_prompt(&args.prompt, out)?;
    let mode = Mode { json: args.json, quiet: args.quiet, allow: args.approve.as_deref() == Some("auto") };
    let agent = match &args.agent {
        Some(agent) => Some(start::find_agent(&client, agent).await?),
        None => None,
    };
    let mut settings = Settings {
        chat: args.chat,
        model: args.model,
        agent,
        no_sandbox: args.no_sandbox,
        ask: args.approve.as_deref() == Some("ask"),
        files: args.file,
    };
    let mut signals = Signals::catch()?;
    let Some(prompt) = prompt else {
        return Box::pin(session::run(&client, settings, mode, out, &mut signals)).await;
    };
    let begun = settings.send(&client, &prompt, out).await?;
    let mut follower = Follower::new(&client, out, &mut signals, mode);
    let ended = Box::pin(follower.follow(&begun.chat, &begun.turn.id, begun.after)).await;
    // What a person must do is said by the error.
    let waits = matches!(&ended, Err(failure) if failure.exit_code() == ask::NEEDS_ANSWER);
    if !args.quiet && !waits {
        go_on(&begun.chat.id, out);
    }
    outcome(&ended?)
}

/// The message; `None` for a conversation.
fn read_prompt(words: &[String], out: &Output) -> Result<Option<String>, Failure> {
    if !words.is_empty() {
        return Ok(Some(words.join(" ")));
    }
    if out.can_ask() {
        return Ok(None);
    }
    let mut text = String::new();
    if !std::io::stdin().is_terminal() {
        std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text)?;
    }
    if text.trim().is_empty() {
        return Err(Failure::user_error("there is no message")
            .hint("give it as an argument, pipe it into this command, or run it on a terminal"));
    }
    Ok(Some(text))
}

/// The exit code of a turn that has ended.
fn outcome(ended: &Ended) -> Outcome {
    let reason = ended.reason.as_deref().map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
    match ended.status {
        TurnState::Cancelled => Err(Failure::user_error("the turn was stopped").code(STOPPED)),
        TurnState::Failed => Err(Failure::user_error(format!("the turn failed{reason}"))),
        TurnState::Interrupted => Err(Failure::user_error(format!("the turn broke off{reason}")).code(SYSTEM_ERROR)),
        TurnState::Queued | TurnState::Running | TurnState::Waiting | TurnState::Complete => Ok(0),
    }
}

/// Says how to go on with a chat.
fn go_on(id: &ChatId, out: &Output) {
    out.say(&format!("{id}: go on with `cabana chat --chat {id}`"));
}

/// Where people see a chat.
fn console_url(client: &Client, id: &ChatId) -> String {
    format!("{}/console/chats/{id}", client.base_url())
}

fn parse_chat(text: &str) -> Result<ChatId, String> {
    text.parse().map_err(|_| "not a chat id; `cabana chat ls` lists them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        let code = |status| match outcome(&Ended { status, reason: Some("why".to_owned()) }) {
            Ok(code) => code,
            Err(failure) => failure.exit_code(),
        };
        assert_eq!(code(TurnState::Complete), 0);
        assert_eq!(code(TurnState::Failed), 1);
        assert_eq!(code(TurnState::Interrupted), 2);
        assert_eq!(code(TurnState::Cancelled), 130);
    }
}
