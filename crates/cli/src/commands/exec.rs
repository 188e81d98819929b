//! `cabana exec`: runs a command in a running sandbox.

use std::time::Duration;

use cabana_client::StartCommand;
use cabana_types::SandboxId;

use crate::amount::{parse_pair, parse_seconds};
use crate::args::{CommandArgs, CommandLine, parse_id, to_map};
use crate::commands::Context;
use crate::failure::Outcome;
use crate::session;
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  cabana exec ID -- ls -l /
  cabana exec ID -- bash -c 'cd /tmp && ls'     use a shell for pipes and variables
  cabana exec ID -u root -- apt-get install -y jq
  tar c src | cabana exec ID -- tar x           pass standard input
  cabana exec ID -t -- vim notes.txt            on a terminal
  cabana exec ID --background -- python3 -m http.server

Ctrl-C sends SIGTERM to the command; a second one kills it. Exits with the command's exit code
(128+n if it was killed by signal n, 124 on --timeout).";

/// Run a command in a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    command: CommandArgs,
    /// Environment variable for the command; may be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    env: Vec<(String, String)>,
    /// Kill the command after this long: seconds, or 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    timeout: Option<i64>,
    /// Leave it running and print its process id
    #[arg(short, long, conflicts_with = "tty")]
    background: bool,
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    #[command(flatten)]
    line: CommandLine,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let (program, words) = args.line.split();
    let timeout = args.timeout.map(|s| Duration::from_secs(u64::try_from(s).unwrap_or(0)));
    let mut command = StartCommand { program, args: words, env: to_map(&args.env), timeout, ..Default::default() };
    session::prepare(&mut command, &args.command);
    let mut sandbox = client.sandbox(&args.id).await?;
    if let Some(user) = &args.command.user {
        sandbox = sandbox.as_user(user)?;
    }
    if args.background {
        command.stdin = false;
        let running = sandbox.start(&command).await?;
        context.out.line(&running.pid().to_string())?;
        return Ok(0);
    }
    let mut signals = Signals::catch()?;
    session::run(&sandbox, &command, &mut signals).await
}
