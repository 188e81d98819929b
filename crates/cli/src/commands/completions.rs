//! `cabana completions`: prints shell completion scripts.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  cabana completions bash > /etc/bash_completion.d/cabana
  cabana completions zsh > ~/.zfunc/_cabana
  cabana completions fish > ~/.config/fish/completions/cabana.fish";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cabana", &mut script);
    context.out.raw(&script)?;
    Ok(0)
}
