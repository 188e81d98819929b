//! The program `cabana-interpreter`: runs cells of code in kernels, and streams what they print, show and raise. It is part of the template
//! `code-interpreter-v1` and listens in each of its sandboxes.

#![forbid(unsafe_code)]

mod bash;
mod clock;
mod context;
mod contexts;
mod error;
mod event;
mod execution;
mod jupyter;
mod kernel;
mod language;
mod line;
mod process;
mod script;
mod server;
mod zmtp;

use std::process::ExitCode;
use std::sync::Arc;

use crate::contexts::Contexts;
use crate::error::Error;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The template's start command shows it when the sandbox does not become ready.
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), format!("cabana-interpreter: {error}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    // One thread: kernels do the work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    runtime.block_on(async {
        let contexts = Arc::new(Contexts::open().await?);
        server::serve(contexts).await
    })
}
