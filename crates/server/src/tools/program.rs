//! Short programs that the server runs inside a sandbox for a request, as the sandbox's user: input, bounded output, a time limit.

use std::time::Duration;

use cabana_agent::computer::{CommandEvent, ComputerError, Exit, OutputStream, Signal};
use cabana_edge::Route;
use cabana_types::tool::ToolErrorCode;
use tokio::time::{Instant, timeout_at};

use super::process::{self, Direct};

/// Bytes of its standard error that are kept.
const MAX_ERRORS: usize = 4096;

/// A program, found by the search path of the sandbox.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) input: String,
    pub(crate) time: Duration,
    /// Bytes of output after which it is ended.
    pub(crate) most: usize,
}

/// What became of a program.
pub(crate) enum Ran {
    Ended {
        exit: Exit,
        output: Vec<u8>,
        errors: String,
    },
    /// It printed too much; this is the beginning.
    Cut(Vec<u8>),
    /// The sandbox does not have it.
    Missing,
    TimedOut,
    /// The sandbox ended or was paused.
    Lost,
}

/// Runs a program to its end.
pub(crate) async fn run(route: &Route, program: Program) -> Result<Ran, ComputerError> {
    let deadline = Instant::now() + program.time;
    let tag = format!("server:{:032x}", rand::random::<u128>());
    let direct = Direct {
        program: program.name,
        arguments: program.arguments,
        env: program.env,
        input: program.input,
        tag: tag.clone(),
    };
    let running = async {
        let mut command = process::start_direct(&route.link, route.gone.clone(), direct).await?;
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        loop {
            match command.next().await? {
                None => return Ok(Ran::Lost),
                Some(CommandEvent::Output(OutputStream::Stdout, bytes)) => {
                    output.extend_from_slice(&bytes);
                    if output.len() > program.most {
                        output.truncate(program.most);
                        return Ok(Ran::Cut(output));
                    }
                }
                Some(CommandEvent::Output(OutputStream::Stderr, bytes)) => {
                    let room = MAX_ERRORS.saturating_sub(errors.len());
                    errors.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
                }
                Some(CommandEvent::Started { .. } | CommandEvent::Dropped) => {}
                Some(CommandEvent::Ended(exit)) => {
                    let errors = String::from_utf8_lossy(&errors).into_owned();
                    return Ok(Ran::Ended { exit, output, errors });
                }
            }
        }
    };
    let ran = match timeout_at(deadline, running).await {
        Err(_) => Ok(Ran::TimedOut),
        // Whether it could be started may be known with the first message only.
        Ok(Err(ComputerError::Failed { code: ToolErrorCode::InvalidArguments, .. })) => Ok(Ran::Missing),
        Ok(ran) => ran,
    };
    if matches!(ran, Ok(Ran::TimedOut | Ran::Cut(_))) {
        // Killed at once: it has nothing to put in order. It may have ended.
        let _ = process::signal(&route.link, &tag, Signal::Kill).await;
    }
    ran
}
