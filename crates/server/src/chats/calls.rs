//! Calls of tools in a turn. A call is written as running before it acts, and its result before the next step: it never runs twice.

use std::sync::Arc;

use cabana_agent::call::{self, Call, Observer};
use cabana_agent::model::ModelCall;
use cabana_agent::title;
use cabana_agent::tools::Tool;
use cabana_store::{AttachmentRow, CallRow, ChatChange, MessageRow};
use cabana_types::chat::{ASK_USER, Approve, CallStatus};
use cabana_types::tool::{ToolError, ToolErrorCode, ToolResult, ToolStatus};
use cabana_types::{CallId, MessageId};
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::engine::Work;
use super::event::NewEvent;
use super::output::LiveOutput;
use super::toolset::Runner;
use super::{describe, output};
use crate::failpoint;

/// Calls of one answer.
const MAX_CALLS: usize = 64;
/// Bytes of a call's arguments, and of the provider's name of it.
const MAX_ARGUMENTS: usize = 6 << 20;
const MAX_PROVIDER_ID: usize = 200;
const MAX_NAME: usize = 128;

/// The calls that an answer asks for. Those that cannot run have their result already.
pub(super) fn made(work: &Work, always: &[String], message: &MessageRow, calls: Vec<ModelCall>) -> Vec<CallRow> {
    let calls = calls.into_iter().take(MAX_CALLS).enumerate();
    calls.map(|(number, call)| one(work, always, message, u32::try_from(number).unwrap_or(u32::MAX), call)).collect()
}

fn one(work: &Work, always: &[String], message: &MessageRow, number: u32, call: ModelCall) -> CallRow {
    let name: String = call.name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    let parsed = match call.arguments.len() {
        0 => Ok(json!({})),
        size if size > MAX_ARGUMENTS => Err("the arguments are too long".to_owned()),
        _ => match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) if arguments.is_object() => Ok(arguments),
            Ok(_) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        },
    };
    let kept: String = call.arguments.chars().take(MAX_ARGUMENTS / 4).collect();
    let row = CallRow {
        id: CallId::from_random(rand::random()),
        chat: message.chat.clone(),
        turn: message.turn.clone(),
        message: message.id.clone(),
        number,
        provider_id: call.id.chars().filter(|c| !c.is_control()).take(MAX_PROVIDER_ID).collect(),
        title: title::call_title(&name, parsed.as_ref().unwrap_or(&Value::Null)),
        arguments: parsed.clone().unwrap_or(Value::String(kept)),
        name,
        sandbox: None,
        status: CallStatus::Pending,
        why: None,
        note: None,
        result: None,
        attachments: Vec::new(),
        started_at: None,
        ended_at: None,
    };
    let Some(runner) = work.tools.runner(&row.name) else {
        let known = work.tools.names().join(", ");
        let text = format!("there is no tool {:?}; the tools are: {known}", row.name);
        return refused(row, ToolErrorCode::InvalidArguments, &text);
    };
    if let Err(problem) = parsed {
        return refused(row, ToolErrorCode::InvalidArguments, &problem);
    }
    let always = always.contains(&row.name);
    match (runner, work.tools.approval(&row.name)) {
        (Runner::Client, _) => CallRow { status: CallStatus::Client, ..row },
        (_, Approve::Never) => {
            let text = format!("this chat does not allow {}", row.name);
            refused(row, ToolErrorCode::PermissionDenied, &text)
        }
        (_, Approve::Ask) if !always => {
            let why = format!("calls of {} need a person's approval in this chat", row.name);
            CallRow { status: CallStatus::Approval, why: Some(why), ..row }
        }
        _ => row,
    }
}

/// The call with an error as its result.
pub(crate) fn refused(call: CallRow, code: ToolErrorCode, message: &str) -> CallRow {
    let hint = match code {
        ToolErrorCode::InvalidArguments => "correct the call and make it again",
        ToolErrorCode::PermissionDenied => "do it in another way, or ask the person",
        _ => "go on when the person asks for it",
    };
    let error = ToolError { code, message: message.to_owned(), hint: hint.to_owned(), retryable: false };
    let result = ToolResult {
        call_id: call.id.clone(),
        tool: call.name.clone(),
        sandbox_id: None,
        status: ToolStatus::Error,
        output: format!("error {code}: {message}\nhint: {hint}"),
        data: json!({}),
        images: Vec::new(),
        error: Some(error),
        truncated: false,
        duration_ms: 0,
    };
    ended(call, result)
}

/// The call with its result.
pub(crate) fn ended(call: CallRow, result: ToolResult) -> CallRow {
    let status = if result.error.is_some() { CallStatus::Error } else { CallStatus::Success };
    let sandbox = result.sandbox_id.as_deref().and_then(|id| id.parse().ok()).or(call.sandbox);
    CallRow { status, sandbox, result: Some(result), ended_at: Some(Timestamp::now()), ..call }
}

/// The events by which a call becomes known. One that runs in the server is told of when it begins.
pub(super) fn announced(call: &CallRow) -> Vec<NewEvent> {
    match call.status {
        CallStatus::Pending | CallStatus::Running => Vec::new(),
        CallStatus::Client => vec![tool_call(call)],
        CallStatus::Approval => {
            let data = json!({"toolCallId": call.id, "why": call.why});
            vec![tool_call(call), NewEvent::new("approval.requested", Some(&call.turn), data)]
        }
        CallStatus::Success | CallStatus::Error => {
            let begun = CallRow { status: CallStatus::Running, result: None, ..call.clone() };
            vec![tool_call(&begun), tool_message(call, &[])]
        }
    }
}

fn tool_call(call: &CallRow) -> NewEvent {
    let data = json!({"toolCall": {
        "id": call.id, "messageId": call.message, "name": call.name, "title": call.title, "arguments": call.arguments,
        "sandboxId": call.sandbox, "status": call.status, "why": call.why,
    }});
    NewEvent::new("tool.call", Some(&call.turn), data)
}

/// The result of a call.
pub(crate) fn tool_message(call: &CallRow, attachments: &[AttachmentRow]) -> NewEvent {
    let wire = describe::call(call, attachments, None);
    let data = json!({
        "toolCallId": call.id, "name": call.name, "status": wire.status, "output": wire.output, "data": wire.data, "error": wire.error,
        "truncated": wire.truncated, "durationMs": wire.duration_ms, "sandboxId": call.sandbox, "attachments": wire.attachments,
    });
    NewEvent::new("tool.message", Some(&call.turn), data)
}

/// Runs calls of a message, all at once.
pub(super) async fn run(
    work: &Work,
    message: Option<MessageId>,
    indices: Vec<usize>,
) -> Result<(), cabana_store::Error> {
    let Some(message) = message else { return Ok(()) };
    let rows = work.app.store.calls_of(&[message]).await?;
    let chosen = rows.into_iter().enumerate().filter(|(index, _)| indices.contains(index)).map(|(_, row)| row);
    for done in join_all(chosen.map(|row| run_one(work, row))).await {
        done?;
    }
    Ok(())
}

async fn run_one(work: &Work, call: CallRow) -> Result<(), cabana_store::Error> {
    let Some(Runner::Tool(tool)) = work.tools.runner(&call.name) else {
        let text = format!("there is no tool {:?} any more", call.name);
        return keep(work, refused(call, ToolErrorCode::InvalidArguments, &text), Vec::new(), Vec::new()).await;
    };
    let adopted = call.status == CallStatus::Running;
    let call = if adopted { call } else { begin(work, call).await? };
    let result = execute(work, tool, &call, adopted).await;
    if work.stopping.is_cancelled() && !work.cancel.is_cancelled() && is_cut(&result) {
        // The server stops: the command runs on, and the next server goes on with it.
        return Ok(());
    }
    failpoint::hit("chat.called");
    let (attachments, events) = work.app.after_call(work, &call, &result).await;
    let mut result = result;
    output::shrink(&mut result);
    keep(work, ended(call, result), attachments, events).await?;
    failpoint::hit("chat.result");
    Ok(())
}

fn is_cut(result: &ToolResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.code == ToolErrorCode::Cancelled)
}

/// Writes that a call begins.
async fn begin(work: &Work, call: CallRow) -> Result<CallRow, cabana_store::Error> {
    let mut writing = work.room.write().await;
    let main = work.app.store.chat_sandboxes(&work.chat.id).await?;
    let asked = call.arguments.get("sandbox").and_then(Value::as_str).unwrap_or(cabana_types::chat::MAIN_SANDBOX);
    let sandbox = main.into_iter().find(|row| row.name == asked).map(|row| row.sandbox);
    let call = CallRow { status: CallStatus::Running, started_at: Some(Timestamp::now()), sandbox, ..call };
    writing.commit(vec![ChatChange::SetCall(call.clone())], vec![tool_call(&call)]).await?;
    drop(writing);
    failpoint::hit("chat.call");
    Ok(call)
}

async fn execute(work: &Work, tool: &'static dyn Tool, row: &CallRow, adopted: bool) -> ToolResult {
    let observer = Arc::new(LiveOutput::new(Arc::clone(&work.room), row.turn.clone(), row.id.clone(), adopted));
    let cancel = work.cancel.child_token();
    let running = Call {
        id: row.id.clone(),
        computers: work.app.chat_computers(work),
        cancel,
        observer: Arc::clone(&observer) as Arc<dyn Observer>,
        limits: work.app.calls.limits(),
    };
    let execution = async {
        match adopted {
            true => call::resume(tool, &row.arguments, &running).await,
            false => call::execute(tool, &row.arguments, &running).await,
        }
    };
    // A command that is being ended is ended first.
    let leaving = async {
        work.stopping.cancelled().await;
        if work.cancel.is_cancelled() {
            std::future::pending::<()>().await;
        }
    };
    let result = tokio::select! {
        biased;
        result = execution => result,
        () = leaving => left(row),
        never = observer.keep_sending() => match never {},
    };
    observer.finish().await;
    result
}

/// What stands for the result of a call that the next server goes on with. It is not kept.
fn left(row: &CallRow) -> ToolResult {
    let refused = refused(row.clone(), ToolErrorCode::Cancelled, "the server stops");
    refused.result.unwrap_or_else(|| call::interrupted(row.id.clone(), row.name.clone(), None))
}

/// Writes the result of a call.
async fn keep(
    work: &Work,
    call: CallRow,
    attachments: Vec<AttachmentRow>,
    more: Vec<NewEvent>,
) -> Result<(), cabana_store::Error> {
    let call = CallRow { attachments: attachments.iter().map(|file| file.id.clone()).collect(), ..call };
    let mut events = vec![tool_message(&call, &attachments)];
    events.extend(attachments.iter().map(|file| {
        NewEvent::new("artifact.created", Some(&call.turn), json!({"attachment": describe::attachment(file)}))
    }));
    events.extend(more);
    work.room.write().await.commit(vec![ChatChange::SetCall(call)], events).await
}

/// Whether a person answers a call.
pub(crate) fn is_question(call: &CallRow) -> bool {
    call.name == ASK_USER
}
