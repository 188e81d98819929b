//! The `cabana` program. Parses the command line before it starts any thread.

#![forbid(unsafe_code)]

mod amount;
mod args;
mod assets;
mod commands;
mod connection;
mod creation;
mod failure;
mod guest_program;
mod interpreter_program;
mod lease;
mod local_files;
mod output;
mod session;
mod signals;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, USER_ERROR};
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

/// Prints help, the version or an error in the command line.
fn explain(error: &clap::Error) -> ExitCode {
    // An error of printing cannot be reported.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(USER_ERROR),
    }
}

fn start(cli: Cli, out: Output) -> Outcome {
    // The launcher clones processes, so it must run before any thread is started.
    if let Command::Launcher { guest } = &cli.command {
        cabana_jail::launcher::main(&guest_program::read(guest.as_deref())?)?;
        return Ok(0);
    }
    if let Command::Server { .. } = &cli.command {
        cabana_jail::privileges::reduce_server()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::from(e).context("cannot start the async runtime"))?;
    let context = Context { out, server: cli.server };
    let outcome = runtime.block_on(commands::run(cli.command, &context));
    // Do not wait for a thread that is blocked reading a key press.
    runtime.shutdown_background();
    outcome
}
