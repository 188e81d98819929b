//! `cabana tool`: calls an agent tool in a sandbox.

mod arguments;
mod listing;

use std::io::{Read, Write};

use cabana_client::{Client, Exit, ToolEvent};
use cabana_types::SandboxId;
use cabana_types::tool::{ToolErrorCode, ToolResult, ToolStatus};
use cabana_types::wire::NewSandbox;
use serde_json::Value;

use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, USER_ERROR};
use crate::lease::Lease;
use crate::output::clean;
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  cabana tool                                          list the tools and their arguments
  cabana tool ls grep_files                            all about one of them
  cabana tool read_file --sandbox ID path=app.py start_line=10
  cabana tool run_command --sandbox ID command='npm test' timeout_seconds=600
  cabana tool run_command command='python3 --version'  in a new sandbox
  cabana tool apply_patch --sandbox ID --json '{\"patch\": \"…\"}'
  jq -n '{path: \"a\", content: \"b\"}' | cabana tool write_file --sandbox ID --json -
  cabana tool run_command --sandbox ID --detach command='make world'

NAME may leave out `sandbox_`. Values are numbers and booleans where the tool's schema says so.
Without --sandbox, a new sandbox is created for the call and killed afterwards. Prints what a
model would see, and the output of a command while it runs. Ctrl-C cancels the call. Exits with 0
if the tool succeeded and 1 if it did not; run_command exits with the command's exit code.";

/// Largest arguments that are read from standard input.
const MAX_INPUT: u64 = 16 << 20;
/// Beginning of the names of all tools.
const PREFIX: &str = "sandbox_";

/// Call a tool that agents use, or list them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tool, or `ls`
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Arguments of the tool; with `ls`, names of tools
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// The sandbox; a new one if omitted
    #[arg(short, long, value_name = "ID", value_parser = parse_id)]
    sandbox: Option<SandboxId>,
    /// Template of the new sandbox
    #[arg(long, value_name = "NAME", default_value = "base", conflicts_with = "sandbox")]
    template: String,
    /// Arguments as a JSON object, or - for standard input
    #[arg(long, value_name = "JSON")]
    json: Option<String>,
    /// Do not wait for the result; print where it will be
    #[arg(long, requires = "sandbox")]
    detach: bool,
    /// Print the result as JSON
    #[arg(long)]
    raw: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let name = match args.name.as_deref() {
        None => return listing::print(&client, &[], args.raw, context).await,
        Some("ls") => {
            let names: Vec<String> = args.pairs.iter().map(|name| full_name(name)).collect();
            return listing::print(&client, &names, args.raw, context).await;
        }
        Some(name) => full_name(name),
    };
    let arguments = read_arguments(&args, &client, &name).await?;
    if let (Some(id), true) = (&args.sandbox, args.detach) {
        let call = client.detach_tool(id, &name, &arguments).await?;
        match args.raw {
            true => context.out.json(&call)?,
            false => context.out.line(&call.result)?,
        }
        return Ok(0);
    }
    let mut signals = Signals::catch()?;
    let call = Call { client: &client, name: &name, arguments: &arguments, raw: args.raw };
    if let Some(id) = &args.sandbox {
        return call.run(id, &mut signals, context).await;
    }
    let new = NewSandbox { template_id: args.template, ..NewSandbox::default() };
    let lease = Lease::create(&client, new, &[], &mut signals, &context.out).await?;
    let outcome = call.run(lease.id(), &mut signals, context).await;
    lease.end(false, &context.out).await;
    outcome
}

fn full_name(name: &str) -> String {
    if name.starts_with(PREFIX) { name.to_owned() } else { format!("{PREFIX}{name}") }
}

async fn read_arguments(args: &Args, client: &Client, name: &str) -> Result<Value, Failure> {
    let text = match args.json.as_deref() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text)?;
            Some(text)
        }
        text => text.map(str::to_owned),
    };
    let given = match text {
        Some(text) => serde_json::from_str(&text)
            .map_err(|e| Failure::user_error(format!("the arguments are not JSON: {e}")).hint("pass an object"))?,
        None => Value::Object(serde_json::Map::new()),
    };
    if args.pairs.is_empty() {
        return Ok(given);
    }
    let names = [name.to_owned()];
    let described = client.tools(&names).await?;
    let schema = described.first().map(|tool| &tool.input_schema).unwrap_or(&Value::Null);
    arguments::merge(given, &args.pairs, schema)
}

struct Call<'a> {
    client: &'a Client,
    name: &'a str,
    arguments: &'a Value,
    raw: bool,
}

impl Call<'_> {
    async fn run(&self, id: &SandboxId, signals: &mut Signals, context: &Context) -> Outcome {
        tokio::select! {
            outcome = self.follow(id, context) => outcome,
            // Dropping the call closes its connection, and with it the call is cancelled.
            number = signals.recv() => Err(Failure::user_error("the call is cancelled").code(128 + number)),
        }
    }

    async fn follow(&self, id: &SandboxId, context: &Context) -> Outcome {
        let mut call = self.client.call_tool(id, self.name, self.arguments).await?;
        let mut live = false;
        while let Some(event) = call.next().await? {
            match event {
                ToolEvent::Output { stderr, text } if !self.raw => {
                    live = true;
                    if stderr {
                        std::io::stderr().lock().write_all(text.as_bytes())?;
                    } else {
                        context.out.raw(text.as_bytes())?;
                    }
                }
                ToolEvent::Output { .. } => {}
                ToolEvent::Ended(result) => {
                    if self.raw {
                        context.out.json(&result)?;
                    } else {
                        show(&result, live, context)?;
                    }
                    return Ok(exit_code(&result));
                }
            }
        }
        Err(Failure::user_error("the call ended without a result").code(crate::failure::SYSTEM_ERROR))
    }
}

/// Prints a result. The output of a command was printed while it ran.
fn show(result: &ToolResult, live: bool, context: &Context) -> Result<(), Failure> {
    if !live && !result.output.is_empty() {
        match context.out.is_terminal() {
            true => context.out.line(result.output.trim_end_matches('\n'))?,
            false => context.out.raw(format!("{}\n", result.output.trim_end_matches('\n')).as_bytes())?,
        }
    }
    for image in &result.images {
        context.out.say(&format!("[an image of type {}; --raw prints it]", clean(&image.media_type)));
    }
    // Otherwise the output contains it.
    if let Some(error) = &result.error
        && live
    {
        context.out.say(&format!("error: {} ({})", clean(&error.message), error.code));
        if !error.hint.is_empty() {
            context.out.say(&format!("\nhint: {}", clean(&error.hint)));
        }
    }
    Ok(())
}

fn exit_code(result: &ToolResult) -> u8 {
    if result.status == ToolStatus::Success {
        return 0;
    }
    match &result.error {
        Some(error) if error.code == ToolErrorCode::CommandFailed => {}
        _ => return USER_ERROR,
    }
    let status = result.data.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    match result.data.get("exitCode").and_then(Value::as_i64) {
        Some(code) => u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(USER_ERROR),
        None => Exit { code: -1, exited: false, status, error: None }.shell_code(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(error: Option<&str>, data: Value) -> ToolResult {
        let status = if error.is_some() { "error" } else { "success" };
        let error = error.map(|code| json!({"code": code, "message": "m", "hint": "", "retryable": false}));
        serde_json::from_value(json!({
            "callId": format!("call_{}", "a".repeat(20)), "tool": "t", "status": status, "output": "", "data": data,
            "error": error, "truncated": false, "durationMs": 1,
        }))
        .expect("result")
    }

    #[test]
    fn exit_codes() {
        assert_eq!(exit_code(&result(None, json!({"exitCode": 0}))), 0);
        assert_eq!(exit_code(&result(Some("command_failed"), json!({"exitCode": 7}))), 7);
        assert_eq!(
            exit_code(&result(Some("command_failed"), json!({"exitCode": null, "status": "signal: killed"}))),
            137
        );
        assert_eq!(exit_code(&result(Some("command_timeout"), json!({"exitCode": null}))), 1);
        assert_eq!(exit_code(&result(Some("file_not_found"), Value::Null)), 1);
    }

    #[test]
    fn names_may_be_short() {
        assert_eq!(full_name("read_file"), "sandbox_read_file");
        assert_eq!(full_name("sandbox_read_file"), "sandbox_read_file");
    }
}
