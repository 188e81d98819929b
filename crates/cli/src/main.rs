//! `cabana`: the one program people run. Parses the command line, and only then starts threads.

#![forbid(unsafe_code)]

mod amount;
mod args;
mod commands;
mod connection;
mod creation;
mod failure;
mod guest_program;
mod lease;
mod output;
mod session;
mod signals;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, YOURS};
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let out = Output::detect();
    match start(cli, out) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            out.failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints help, the version or what is wrong with the command line.
fn explain(error: &clap::Error) -> ExitCode {
    // If it cannot be printed there is nobody to tell.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(YOURS),
    }
}

fn start(cli: Cli, out: Output) -> Outcome {
    // It clones processes, which a program with threads must not: nothing may start one before this.
    if let Command::Launcher { guest } = &cli.command {
        cabana_jail::launcher::main(&guest_program::read(guest.as_deref())?)?;
        return Ok(0);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::from(e).context("cannot start the threads of this program"))?;
    let context = Context { out, server: cli.server };
    let outcome = runtime.block_on(commands::run(cli.command, &context));
    // A thread may still wait for a key press; it must not hold us.
    runtime.shutdown_background();
    outcome
}
