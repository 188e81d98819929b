//! Rows of chats as the API shows them.

use std::collections::HashMap;

use cabana_store::{AttachmentRow, CallRow, CheckpointRow, MessageRow, TurnRow};
use cabana_types::chat::{Author, CallStatus};
use cabana_types::wire::{Attachment, Checkpoint, Message, ToolCall, Turn};
use cabana_types::{AttachmentId, CallId};
use serde_json::json;

use super::room::Present;

/// Attachments by their ids.
pub(crate) type Files = HashMap<AttachmentId, AttachmentRow>;

pub(crate) fn turn(row: &TurnRow) -> Turn {
    Turn {
        id: row.id.clone(),
        chat_id: row.chat.clone(),
        message_id: row.message.clone(),
        status: row.state,
        reason: row.reason.clone(),
        steps: row.steps,
        usage: row.usage,
        prompt: row.prompt.clone(),
        created_at: row.created_at,
        ended_at: row.ended_at,
    }
}

/// A message with those of the calls that are its own.
pub(crate) fn message(row: &MessageRow, calls: &[CallRow], files: &Files) -> Message {
    let own = calls.iter().filter(|call| call.message == row.id);
    Message {
        id: row.id.clone(),
        chat_id: row.chat.clone(),
        turn_id: row.turn.clone(),
        role: row.role,
        author: row.author.clone().map(|user_id| Author { user_id }),
        status: row.status,
        content: row.content.clone(),
        tool_calls: own.map(|one| call(one, &of(one, files), None)).collect(),
        stop_reason: row.stop,
        usage: row.usage,
        model: row.model.clone(),
        created_at: row.created_at,
    }
}

/// A message as it is right now.
pub(crate) fn present_message(row: &MessageRow, calls: &[CallRow], files: &Files, now: &Present) -> Message {
    let mut shown = message(row, calls, files);
    if let Some(streaming) = now.streaming.as_ref().filter(|streaming| streaming.id == row.id) {
        shown.content.clone_from(&streaming.content);
    }
    for one in &mut shown.tool_calls {
        if let Some(output) = now.outputs.get(&one.id).filter(|_| one.status == CallStatus::Running) {
            one.output.clone_from(output);
        }
    }
    shown
}

fn of(row: &CallRow, files: &Files) -> Vec<AttachmentRow> {
    row.attachments.iter().filter_map(|id| files.get(id).cloned()).collect()
}

pub(crate) fn call(row: &CallRow, files: &[AttachmentRow], output: Option<&HashMap<CallId, String>>) -> ToolCall {
    let result = row.result.as_ref();
    let running = output.and_then(|output| output.get(&row.id)).cloned();
    ToolCall {
        id: row.id.clone(),
        message_id: row.message.clone(),
        name: row.name.clone(),
        title: row.title.clone(),
        arguments: row.arguments.clone(),
        sandbox_id: row.sandbox.clone(),
        status: row.status,
        why: row.why.clone(),
        output: result.map(|result| result.output.clone()).or(running).unwrap_or_default(),
        data: result.map_or_else(|| json!({}), |result| result.data.clone()),
        error: result.and_then(|result| result.error.clone()),
        truncated: result.is_some_and(|result| result.truncated),
        duration_ms: result.map(|result| result.duration_ms),
        attachments: files.iter().map(attachment).collect(),
    }
}

pub(crate) fn attachment(row: &AttachmentRow) -> Attachment {
    Attachment {
        id: row.id.clone(),
        chat_id: row.chat.clone(),
        kind: row.kind,
        name: row.name.clone(),
        media_type: row.media_type.clone(),
        size: row.size,
        sha256: row.sha256.clone(),
        status: row.status,
        path: row.path.clone(),
        error: row.error.clone(),
        created_at: row.created_at,
    }
}

pub(crate) fn checkpoint(row: &CheckpointRow) -> Checkpoint {
    Checkpoint {
        turn_id: row.turn.clone(),
        message_id: row.message.clone(),
        kind: row.kind.clone(),
        label: row.label.clone(),
        created_at: row.created_at,
    }
}
