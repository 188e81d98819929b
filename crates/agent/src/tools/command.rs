//! `sandbox_command`.

use std::time::Duration;

use async_trait::async_trait;
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::run::{End, Seen, exit_data, finished, output_path, stop, tag};
use super::{Spec, Tool, parse, specs};
use crate::call::{Context, Failure, Success, cancelled};

/// How long output that was printed already may take to arrive.
const READ_TIME: Duration = Duration::from_millis(200);

pub(super) struct ManageCommand;

#[derive(Deserialize)]
struct Arguments {
    command_id: String,
    action: Action,
    wait_seconds: u64,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Action {
    Read,
    Wait,
    Stop,
}

#[async_trait]
impl Tool for ManageCommand {
    fn spec(&self) -> &'static Spec {
        &specs::MANAGE_COMMAND
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { command_id, action, wait_seconds } = parse(arguments)?;
        let (computer, call) = (context.computer()?, context.call);
        let tag = tag(&command_id);
        let Some(mut command) = computer.attach(&tag).await? else {
            let text = format!("no command {command_id:?} runs in the sandbox, nor has one ended in the last minutes");
            let hint = format!("what it printed may still be in {}", output_path(&command_id));
            return Err(Failure::new(ToolErrorCode::FileNotFound, text).hint(hint));
        };
        let mut seen = Seen::new(call.limits.max_output);
        let limit = match action {
            Action::Wait => Duration::from_secs(wait_seconds).max(READ_TIME),
            Action::Read | Action::Stop => READ_TIME,
        };
        let end = tokio::select! {
            biased;
            end = seen.follow(command.as_mut(), context) => end?,
            () = call.cancel.cancelled() => return Err(cancelled()),
            () = tokio::time::sleep(limit) => End::Running,
        };
        match end {
            End::Exited(exit) => finished(&exit, seen.success(&command_id, 0, exit_data(&exit))),
            End::Running if action == Action::Stop => {
                stop(computer, &tag, command.as_mut(), &mut seen, context).await?;
                let mut success = seen.success(&command_id, 0, json!({"exitCode": null}));
                success.output.push_str("\n[stopped]");
                Ok(success)
            }
            End::Running => {
                let mut success = seen.success(&command_id, 0, json!({"exitCode": null}));
                success.output.push_str("\n[still running]");
                Ok(success)
            }
        }
    }
}
