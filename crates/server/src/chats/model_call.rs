//! One call of the model: the conversation goes out, the answer comes in pieces, and is committed before any of its calls run.

use std::time::Duration;

use cabana_agent::model::{Answer, ModelError, ModelErrorCode, ModelRequest, Piece, Tokens};
use cabana_agent::{prompt, provider::retry};
use cabana_store::{CallRow, ChatChange, ChatRow, MessageRow, ModelCallRow};
use cabana_types::chat::{MessageStatus, Part, Role, StopReason, Usage};
use cabana_types::{MessageId, TurnId};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::compaction::Fitted;
use super::engine::Work;
use super::event::NewEvent;
use super::models::Resolved;
use super::ring::append;
use super::room::Room;
use super::{calls, describe};
use crate::failpoint;

/// Pieces are joined over this time.
const JOIN: Duration = Duration::from_millis(40);
/// How often the text so far is written.
const FLUSH: Duration = Duration::from_secs(1);
/// Pieces on their way.
const QUEUE: usize = 256;

/// How a call ended.
enum Ended {
    Answer(Answer),
    Failed(ModelError),
    /// A person stopped it, or the server stops.
    Dropped,
}

/// Calls the model and writes its answer.
pub(super) async fn call(work: &Work, repeats: u32) -> Result<(), cabana_store::Error> {
    let store = &work.app.store;
    let Some(turn) = store.turn(&work.turn).await? else { return Ok(()) };
    let model = match work.app.models.resolve(&work.chat.team, &turn.model).await {
        Ok(model) => model,
        Err(unknown) => {
            let error = ModelError {
                code: ModelErrorCode::NotFound,
                message: unknown.message,
                hint: unknown.hint,
                retry_after: None,
            };
            let Some(message) = begin(work, None).await? else { return Ok(()) };
            return failed(work, message, &error).await;
        }
    };
    if turn.steps == 0 {
        work.app.prepare_turn(work).await?;
    }
    let uploads = store.attachments_of(&work.chat.id).await?.iter().any(|file| file.path.is_some());
    let names = work.tools.sandbox_names();
    let system =
        prompt::system(work.tools.environment(uploads, &names), &work.app.chats.instructions(&work.chat).await?);
    let mut request = ModelRequest {
        model: model.name.clone(),
        system,
        messages: Vec::new(),
        tools: work.tools.definitions(),
        max_output_tokens: None,
    };
    match super::compaction::fit(work, &model, &mut request, repeats).await? {
        Fitted::Ready => {}
        Fitted::Failed(error) => {
            let Some(message) = begin(work, Some(&model)).await? else { return Ok(()) };
            return failed(work, message, &error).await;
        }
        Fitted::Stopped => return Ok(()),
    }
    if work.cancel.is_cancelled() || work.stopping.is_cancelled() {
        return Ok(());
    }
    let Some(message) = begin(work, Some(&model)).await? else { return Ok(()) };
    failpoint::hit("chat.asked");
    let mut content = Vec::new();
    match ask(work, &model, &request, &message, &mut content).await? {
        Ended::Dropped => dropped(work, message, content).await,
        Ended::Answer(answer)
            if answer.text.is_empty() && answer.calls.is_empty() && answer.stop == StopReason::End =>
        {
            let error = ModelError {
                code: ModelErrorCode::Garbled,
                message: "The model returned an empty answer".into(),
                hint: "Try again, or choose another model".into(),
                retry_after: None,
            };
            failed(work, MessageRow { content, ..message }, &error).await
        }
        Ended::Answer(answer) => answered(work, &model, message, answer).await,
        Ended::Failed(error) if error.code.is_retryable() && !content.is_empty() => {
            // The model is called again, at most twice in a turn.
            work.room.publish(error_event(&work.turn, &error, true)).await;
            interrupted(work, MessageRow { content, ..message }).await
        }
        Ended::Failed(error) => failed(work, MessageRow { content, ..message }, &error).await,
    }
}

/// Writes that a message begins.
async fn begin(work: &Work, model: Option<&Resolved>) -> Result<Option<MessageRow>, cabana_store::Error> {
    let mut writing = work.room.write().await;
    let Some(mut turn) = work.app.store.turn(&work.turn).await? else { return Ok(None) };
    turn.steps += 1;
    let message = MessageRow {
        id: MessageId::from_random(rand::random()),
        chat: work.chat.id.clone(),
        turn: turn.id.clone(),
        position: 0,
        role: Role::Assistant,
        author: None,
        status: MessageStatus::Streaming,
        content: Vec::new(),
        stop: None,
        usage: None,
        model: Some(model.map_or_else(|| turn.model.clone(), |model| model.id.clone())),
        raw: None,
        created_at: Timestamp::now(),
    };
    let wire = describe::message(&message, &[], &Default::default());
    let event = NewEvent::new("message.created", Some(&turn.id), json!({"message": wire}));
    let changes = vec![ChatChange::SetTurn(turn), ChatChange::InsertMessage(message.clone())];
    writing.commit(changes, vec![event]).await?;
    writing.begin(wire);
    drop(writing);
    // Its position was assigned by the store.
    Ok(Some(work.app.store.message(&message.id).await?.unwrap_or(message)))
}

/// Calls the model, and passes on what it writes.
async fn ask(
    work: &Work,
    model: &Resolved,
    request: &ModelRequest,
    message: &MessageRow,
    content: &mut Vec<Part>,
) -> Result<Ended, cabana_store::Error> {
    let (send, mut pieces) = mpsc::channel(QUEUE);
    let (notify, mut notices) = mpsc::channel(4);
    let calling = retry::call(&*model.model, request, &send, &notify);
    tokio::pin!(calling);
    let mut joined = Joined::new(&work.room, &work.turn, &message.id);
    let mut flush = Instant::now() + FLUSH;
    let mut flushed = 0;
    let ended = loop {
        tokio::select! {
            biased;
            () = work.cancel.cancelled() => break Ended::Dropped,
            () = work.stopping.cancelled() => break Ended::Dropped,
            Some(piece) = pieces.recv() => {
                let piece = part(piece);
                append(content, &piece);
                joined.add(piece).await?;
            }
            () = sleep_until(joined.due()), if joined.waits() => joined.send().await?,
            () = sleep_until(flush), if size(content) > flushed => {
                flushed = size(content);
                work.app.store.touch_message_content(message.id.clone(), content.clone()).await?;
                flush = Instant::now() + FLUSH;
            }
            Some(notice) = notices.recv() => {
                let event = error_event(&work.turn, &notice.error, true);
                work.room.publish(event).await;
            }
            answer = &mut calling => {
                break match answer {
                    Ok(answer) => Ended::Answer(answer),
                    Err(error) => Ended::Failed(error),
                };
            }
        }
    };
    while let Ok(piece) = pieces.try_recv() {
        let piece = part(piece);
        append(content, &piece);
        joined.add(piece).await?;
    }
    joined.send().await?;
    Ok(ended)
}

fn part(piece: Piece) -> Part {
    match piece {
        Piece::Text(text) => Part::Text { text },
        Piece::Reasoning(text) => Part::Reasoning { text },
    }
}

fn size(content: &[Part]) -> usize {
    let of = |part: &Part| match part {
        Part::Text { text } | Part::Reasoning { text } => text.len(),
        _ => 0,
    };
    content.iter().map(of).sum()
}

/// Pieces that are sent together.
struct Joined<'a> {
    room: &'a Room,
    turn: &'a TurnId,
    message: &'a MessageId,
    parts: Vec<Part>,
    due: Instant,
}

impl<'a> Joined<'a> {
    fn new(room: &'a Room, turn: &'a TurnId, message: &'a MessageId) -> Self {
        Self { room, turn, message, parts: Vec::new(), due: Instant::now() }
    }

    fn waits(&self) -> bool {
        !self.parts.is_empty()
    }

    fn due(&self) -> Instant {
        self.due
    }

    /// Adds a piece. One after a silence is sent at once.
    async fn add(&mut self, piece: Part) -> Result<(), cabana_store::Error> {
        append(&mut self.parts, &piece);
        if self.due <= Instant::now() { self.send().await } else { Ok(()) }
    }

    async fn send(&mut self) -> Result<(), cabana_store::Error> {
        for part in std::mem::take(&mut self.parts) {
            self.room.piece(self.turn, self.message, part).await?;
        }
        self.due = Instant::now() + JOIN;
        Ok(())
    }
}

/// Commits the answer with its calls.
async fn answered(
    work: &Work,
    model: &Resolved,
    mut message: MessageRow,
    answer: Answer,
) -> Result<(), cabana_store::Error> {
    failpoint::hit("chat.answer");
    let usage = usage(model, answer.tokens);
    let mut writing = work.room.write().await;
    let store = &work.app.store;
    let (Some(mut turn), Some(chat)) = (store.turn(&work.turn).await?, store.chat(&work.chat.id).await?) else {
        return Ok(());
    };
    let made = calls::made(work, &chat.always, &message, answer.calls);
    message.status = MessageStatus::Complete;
    message.stop = Some(if made.is_empty() { answer.stop } else { StopReason::Tools });
    message.usage = Some(usage);
    message.raw = answer.raw;
    message.content.clear();
    if !answer.reasoning.is_empty() {
        message.content.push(Part::Reasoning { text: answer.reasoning });
    }
    if !answer.text.is_empty() {
        message.content.push(Part::Text { text: answer.text });
    }
    message.content.extend(made.iter().map(|call| Part::ToolCall {
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    }));
    turn.usage = turn.usage.plus(usage);
    let chat = ChatRow {
        usage: chat.usage.plus(usage),
        context_tokens: answer.tokens.input.saturating_add(answer.tokens.output),
        context_window: model.window,
        ..chat
    };
    let mut events = vec![completed(&message, &made)];
    let counted = counted(&turn.id, model, usage);
    let mut changes =
        vec![ChatChange::SetMessage(message), ChatChange::SetTurn(turn), ChatChange::SetChat(chat), counted];
    for call in made {
        events.extend(calls::announced(&call));
        changes.push(ChatChange::InsertCall(call));
    }
    writing.commit(changes, events).await?;
    drop(writing);
    failpoint::hit("chat.answered");
    Ok(())
}

/// Counts a call with its result.
pub(super) fn counted(turn: &TurnId, model: &Resolved, usage: Usage) -> ChatChange {
    let row = ModelCallRow { turn: turn.clone(), model: model.id.clone(), usage, at: Timestamp::now() };
    ChatChange::CountModelCall(row)
}

pub(super) fn usage(model: &Resolved, tokens: Tokens) -> Usage {
    let cost_micros = if model.demo { Some(0) } else { model.price.as_ref().map(|price| price.cost(tokens)) };
    Usage { input_tokens: tokens.input, cached_tokens: tokens.cached, output_tokens: tokens.output, cost_micros }
}

/// A message that is not written any more.
pub(super) fn completed(message: &MessageRow, calls: &[CallRow]) -> NewEvent {
    let usage = message.usage.unwrap_or_default();
    let wire = describe::message(message, calls, &Default::default());
    let data = json!({
        "message": wire, "stopReason": message.stop, "usage": usage, "costMicros": message.usage.and_then(|usage| usage.cost_micros),
    });
    NewEvent::new("message.complete", Some(&message.turn), data)
}

/// The call was dropped. If the server stops, the message stays as it is: the next one goes on.
async fn dropped(work: &Work, message: MessageRow, content: Vec<Part>) -> Result<(), cabana_store::Error> {
    if !work.cancel.is_cancelled() {
        return work.app.store.touch_message_content(message.id, content).await;
    }
    let message = MessageRow { content, status: MessageStatus::Cancelled, ..message };
    let event = completed(&message, &[]);
    work.room.write().await.commit(vec![ChatChange::SetMessage(message)], vec![event]).await
}

async fn interrupted(work: &Work, message: MessageRow) -> Result<(), cabana_store::Error> {
    let mut writing = work.room.write().await;
    let Some(mut turn) = work.app.store.turn(&work.turn).await? else { return Ok(()) };
    turn.interruptions += 1;
    let message = MessageRow { status: MessageStatus::Interrupted, ..message };
    let event = completed(&message, &[]);
    writing.commit(vec![ChatChange::SetMessage(message), ChatChange::SetTurn(turn)], vec![event]).await
}

/// The model's answer failed, and so does the turn.
async fn failed(work: &Work, message: MessageRow, error: &ModelError) -> Result<(), cabana_store::Error> {
    let mut writing = work.room.write().await;
    let Some(mut turn) = work.app.store.turn(&work.turn).await? else { return Ok(()) };
    turn.reason = Some(error.code.as_str().to_owned());
    let message = MessageRow { status: MessageStatus::Failed, ..message };
    let events = vec![completed(&message, &[]), error_event(&work.turn, error, error.code.is_retryable())];
    writing.commit(vec![ChatChange::SetMessage(message), ChatChange::SetTurn(turn)], events).await
}

fn error_event(turn: &TurnId, error: &ModelError, retryable: bool) -> NewEvent {
    let data = json!({
        "code": error.code.as_str(), "message": error.message, "hint": error.hint, "retryable": retryable,
    });
    NewEvent::new("error", Some(turn), data)
}
