//! `cabana shell`: opens a login shell on a terminal, in a running or a new sandbox.

use std::io::IsTerminal;

use cabana_client::{SandboxHandle, StartCommand};
use cabana_types::SandboxId;

use crate::args::{CommandArgs, SandboxArgs, parse_id};
use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::lease::{self, Lease};
use crate::session;
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  cabana shell                  in a new sandbox, killed on exit
  cabana shell --keep           in a new sandbox, kept on exit
  cabana shell ID               in a running sandbox
  cabana shell ID --user root

While the shell is open, the sandbox does not expire. Exits with the shell's exit code.";

/// Prefers bash; a minimal image may have only sh.
const LOGIN_SHELL: &str = "if [ -x /bin/bash ]; then exec /bin/bash -il; else exec /bin/sh -il; fi";

/// Open a shell in a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox; a new one if omitted
    #[arg(value_name = "ID", value_parser = parse_id,
          conflicts_with_all = ["keep", "template", "cpu", "memory", "disk", "env", "metadata", "no_internet", "network",
                                "allow_out", "deny_out", "secret", "no_new_privileges", "timeout"])]
    id: Option<SandboxId>,
    /// Working directory [default: the user's home]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// User of the sandbox to run as [default: the template's]
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Keep the new sandbox running afterwards
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::user_error("a shell needs a terminal, but standard input is not one")
            .hint("`cabana exec ID -- COMMAND` runs a command without one"));
    }
    let client = context.client()?;
    let mut signals = Signals::catch()?;
    match &args.id {
        Some(id) => {
            let connected = client.connect(id, Some(lease::TIMEOUT_SECONDS)).await?;
            let _renewing = lease::keep_alive(client.clone(), id.clone());
            open(&client.handle(&connected)?, &args, &mut signals).await
        }
        None => {
            let lease = Lease::create(&client, args.sandbox.to_request(), &[], &mut signals, &context.out).await?;
            context.out.say(&format!("sandbox {}", lease.id()));
            let outcome = open(lease.sandbox(), &args, &mut signals).await;
            lease.end(args.keep, &context.out).await;
            outcome
        }
    }
}

async fn open(sandbox: &SandboxHandle, args: &Args, signals: &mut Signals) -> Outcome {
    let mut command = StartCommand {
        program: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), LOGIN_SHELL.to_owned()],
        ..Default::default()
    };
    let flags = CommandArgs { tty: true, no_stdin: false, cwd: args.cwd.clone(), user: None };
    session::prepare(&mut command, &flags);
    match &args.user {
        Some(user) => session::run(&sandbox.as_user(user)?, &command, signals).await,
        None => session::run(sandbox, &command, signals).await,
    }
}
