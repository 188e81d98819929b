//! `sandbox_run_command`.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use cabana_types::guest::tools::OUTPUT_DIR;
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Spec, Tool, parse, specs, unknown_end};
use crate::call::{Context, Failure, Success, cancelled};
use crate::computer::{Command, CommandEvent, Computer, Exit, NewCommand, Signal};
use crate::output::Tail;

/// How long a background command is watched before the call returns.
const BACKGROUND_WATCH: Duration = Duration::from_secs(1);
/// A guest that responds starts a command within this time.
const START_TIME: Duration = Duration::from_secs(30);
/// Time between asking a command to end and killing it.
const TERM_GRACE: Duration = Duration::from_secs(5);
/// How long the output of a killed command may take to arrive.
const KILL_GRACE: Duration = Duration::from_secs(2);

pub(super) struct RunCommand;

#[derive(Deserialize)]
struct Arguments {
    command: String,
    cwd: Option<String>,
    timeout_seconds: u64,
    background: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdin: Option<String>,
}

#[async_trait]
impl Tool for RunCommand {
    fn spec(&self) -> &'static Spec {
        &specs::RUN_COMMAND
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let given: Arguments = parse(arguments)?;
        if given.command.contains('\0') {
            return Err(Failure::new(ToolErrorCode::InvalidArguments, "the command contains a NUL character"));
        }
        let (computer, call) = (context.computer()?, context.call);
        let tag = tag(call.id.as_str());
        let watch = Watch::new(&given, context);
        let Arguments { command: script, cwd, env, stdin, .. } = given;
        let command = NewCommand {
            script,
            cwd,
            env,
            stdin,
            tag: tag.clone(),
            output_file: format!("{}.txt", call.id),
            output_after: watch.output_after,
        };
        let started = tokio::select! {
            biased;
            started = computer.start(command) => started?,
            () = call.cancel.cancelled() => {
                // The guest may have started it already.
                let _ = computer.signal(&tag, Signal::Kill).await;
                return Err(cancelled());
            }
            () = tokio::time::sleep(START_TIME) => {
                let _ = computer.signal(&tag, Signal::Kill).await;
                return Err(Failure::new(ToolErrorCode::SandboxUnavailable, "the sandbox does not start the command"));
            }
        };
        watch.follow(computer, started, context).await
    }

    async fn resume(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let given: Arguments = parse(arguments)?;
        let (computer, call) = (context.computer()?, context.call);
        let tag = tag(call.id.as_str());
        let found = tokio::select! {
            biased;
            found = computer.attach(&tag) => found?,
            () = call.cancel.cancelled() => {
                let _ = computer.signal(&tag, Signal::Kill).await;
                return Err(cancelled());
            }
            () = tokio::time::sleep(START_TIME) => {
                return Err(Failure::new(ToolErrorCode::SandboxUnavailable, "the sandbox does not show the command"));
            }
        };
        match found {
            Some(command) => Watch::new(&given, context).follow(computer, command, context).await,
            None => Err(unknown_end(self.spec())),
        }
    }
}

/// How long a command is followed, and what is kept of its output.
struct Watch {
    tag: String,
    background: bool,
    limit: Duration,
    output_after: u64,
}

impl Watch {
    fn new(given: &Arguments, context: &Context<'_>) -> Self {
        let call = context.call;
        let background = given.background;
        Self {
            tag: tag(call.id.as_str()),
            background,
            limit: if background { BACKGROUND_WATCH } else { Duration::from_secs(given.timeout_seconds) },
            // Output that fits into the result needs no file. That of a background command is read from there.
            output_after: if background { 0 } else { call.limits.max_output as u64 },
        }
    }

    /// Follows a command to its end, or to the end of its time.
    async fn follow(
        &self,
        computer: &dyn Computer,
        mut command: Box<dyn Command>,
        context: &Context<'_>,
    ) -> Result<Success, Failure> {
        let (call, output_after) = (context.call, self.output_after);
        let mut seen = Seen::new(call.limits.max_output);
        let end = tokio::select! {
            biased;
            end = seen.follow(command.as_mut(), context) => end?,
            () = call.cancel.cancelled() => {
                stop(computer, &self.tag, command.as_mut(), &mut seen, context).await?;
                return Err(cancelled().partial(seen.success(call.id.as_str(), output_after, json!({"exitCode": null}))));
            }
            () = tokio::time::sleep(self.limit) => End::Running,
        };
        match end {
            End::Exited(exit) => finished(&exit, seen.success(call.id.as_str(), output_after, exit_data(&exit))),
            End::Running if self.background => {
                let mut success = seen.success(call.id.as_str(), output_after, json!({"exitCode": null}));
                let path = output_path(call.id.as_str());
                success.output.push_str(&format!(
                    "\n[still running as command {}; its output goes to {path}, stop it with `kill -- -{}`]",
                    call.id, seen.pid
                ));
                Ok(success)
            }
            End::Running => {
                stop(computer, &self.tag, command.as_mut(), &mut seen, context).await?;
                let text = format!("the command did not end within {} s and was ended", self.limit.as_secs());
                let partial = seen.success(call.id.as_str(), output_after, json!({"exitCode": null}));
                Err(Failure::new(ToolErrorCode::CommandTimeout, text).partial(partial))
            }
        }
    }
}

/// The tag of the command that a call starts.
pub(super) fn tag(call: &str) -> String {
    format!("call:{call}")
}

/// The file with all output of the command that a call started.
pub(super) fn output_path(call: &str) -> String {
    format!("{OUTPUT_DIR}/{call}.txt")
}

pub(super) fn exit_data(exit: &Exit) -> Value {
    json!({"exitCode": exit.code, "status": exit.status})
}

/// The result of a command that ended by itself.
pub(super) fn finished(exit: &Exit, mut seen: Success) -> Result<Success, Failure> {
    if exit.code == Some(0) {
        if seen.output.is_empty() {
            seen.output = "[no output]".into();
        }
        return Ok(seen);
    }
    let failure = match exit.code {
        Some(127) => {
            Failure::new(ToolErrorCode::CommandFailed, "the command exited with code 127: a program was not found")
                .hint("install the missing program, or check its name and PATH")
        }
        Some(code) => Failure::new(ToolErrorCode::CommandFailed, format!("the command exited with code {code}")),
        None if exit.status.contains("killed") => {
            Failure::new(ToolErrorCode::CommandFailed, format!("the command was ended by a signal ({})", exit.status))
                .hint("if nobody ended it, the sandbox ran out of memory: use less, or a sandbox with more")
        }
        None => {
            Failure::new(ToolErrorCode::CommandFailed, format!("the command was ended by a signal ({})", exit.status))
        }
    };
    Err(failure.partial(seen))
}

/// Whether a command still runs.
pub(super) enum End {
    Exited(Exit),
    Running,
}

/// What was seen of a command.
pub(super) struct Seen {
    output: Tail,
    max_output: usize,
    dropped: bool,
    pub(super) pid: u32,
}

impl Seen {
    pub(super) fn new(max_output: usize) -> Self {
        Self { output: Tail::for_limit(max_output), max_output, dropped: false, pid: 0 }
    }

    /// Takes what the command prints until it ends. May be dropped and called again.
    pub(super) async fn follow(&mut self, command: &mut dyn Command, context: &Context<'_>) -> Result<End, Failure> {
        loop {
            match command.next().await? {
                Some(CommandEvent::Started { pid }) => self.pid = pid,
                Some(CommandEvent::Dropped) => self.dropped = true,
                Some(CommandEvent::Output(stream, chunk)) => {
                    self.output.push(&chunk);
                    context.call.observer.output(stream, chunk).await;
                }
                Some(CommandEvent::Ended(exit)) => return Ok(End::Exited(exit)),
                None => {
                    let text = "the sandbox ended or was paused while the command ran";
                    return Err(Failure::new(ToolErrorCode::Interrupted, text));
                }
            }
        }
    }

    /// The result so far. More than `output_after` bytes are in the call's file; output that was lost here is there too.
    pub(super) fn success(&self, call: &str, output_after: u64, mut data: Value) -> Success {
        let path = (self.output.bytes() > output_after || output_after == 0 || self.dropped).then(|| output_path(call));
        let cut = self.output.finish(self.max_output, path.as_deref());
        if let Some(fields) = data.as_object_mut() {
            fields.insert("commandId".into(), call.into());
            fields.insert("outputPath".into(), path.into());
        }
        Success { output: cut.text, data, images: Vec::new(), truncated: cut.truncated || self.dropped }
    }
}

/// Ends a command: TERM to its process group, and KILL if that does not help.
pub(super) async fn stop(
    computer: &dyn Computer,
    tag: &str,
    command: &mut dyn Command,
    seen: &mut Seen,
    context: &Context<'_>,
) -> Result<(), Failure> {
    for (signal, grace) in [(Signal::Term, TERM_GRACE), (Signal::Kill, KILL_GRACE)] {
        if !computer.signal(tag, signal).await? {
            break;
        }
        let until = Instant::now() + grace;
        let ended = tokio::select! {
            biased;
            end = seen.follow(command, context) => matches!(end, Ok(End::Exited(_))),
            () = sleep_until(until) => false,
        };
        if ended {
            // Children that ignored the signal are in the same group.
            computer.signal(tag, Signal::Kill).await?;
            return Ok(());
        }
    }
    // It may have ended before it was signalled; what it printed last is on its way.
    let _ = timeout(KILL_GRACE, seen.follow(command, context)).await;
    Ok(())
}
