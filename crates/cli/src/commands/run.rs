//! `cabana run`: runs a command in a new sandbox and kills the sandbox afterwards.

use cabana_client::StartCommand;

use crate::args::{CommandArgs, CommandLine, SandboxArgs, UploadArgs};
use crate::commands::Context;
use crate::failure::Outcome;
use crate::lease::Lease;
use crate::session;
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  cabana run -- python3 -c 'print(6 * 7)'
  cabana run -- bash -c 'ls /etc | wc -l'       use a shell for pipes and variables
  cat data.csv | cabana run -- sort -u          pass standard input
  cabana run --cpu 4 --memory 2G -- make -j4
  cabana run --upload data.csv -- wc -l user-uploads/data.csv
  cabana run -t -- top                          on a terminal
  cabana run --keep -- pip install flask        keep the sandbox

Ctrl-C sends SIGTERM to the command; a second one kills it. Without --timeout the sandbox lives as
long as the command. Exits with the command's exit code (128+n if it was killed by signal n).";

/// Run a command in a new sandbox, then kill the sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    command: CommandArgs,
    /// Keep the sandbox running afterwards
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    upload: UploadArgs,
    #[command(flatten)]
    sandbox: SandboxArgs,
    #[command(flatten)]
    line: CommandLine,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let (program, words) = args.line.split();
    let mut command = StartCommand { program, args: words, ..Default::default() };
    session::prepare(&mut command, &args.command);
    let files = args.upload.collect(&context.out)?;
    let mut signals = Signals::catch()?;
    let lease = Lease::create(&client, args.sandbox.to_request(), &files, &mut signals, &context.out).await?;
    let outcome = async {
        match &args.command.user {
            Some(user) => session::run(&lease.sandbox().as_user(user)?, &command, &mut signals).await,
            None => session::run(lease.sandbox(), &command, &mut signals).await,
        }
    }
    .await;
    lease.end(args.keep, &context.out).await;
    outcome
}
