//! Makes a conversation fit into what the model can read. What people see is never cut.

use cabana_agent::context::{self, Fit};
use cabana_agent::model::{ModelError, ModelErrorCode, ModelRequest};
use cabana_store::{ChatChange, ChatRow, MessageRow, Summary};
use cabana_types::chat::Part;
use cabana_types::{AttachmentId, MessageId};
use serde_json::json;
use tokio::sync::mpsc;

use super::engine::Work;
use super::event::NewEvent;
use super::models::Resolved;
use super::{conversation, model_call};

/// Summaries that one call of the model may need.
const ATTEMPTS: u32 = 3;
/// Bytes of a summary.
const MAX_SUMMARY: usize = 64 << 10;

/// Whether the conversation fits.
pub(super) enum Fitted {
    Ready,
    Failed(ModelError),
    /// A person stopped the turn, or the server stops.
    Stopped,
}

/// Writes the conversation into the request, shortened if it must be.
pub(super) async fn fit(
    work: &Work,
    model: &Resolved,
    request: &mut ModelRequest,
    repeats: u32,
) -> Result<Fitted, cabana_store::Error> {
    let fixed = context::fixed_tokens(&request.system, &request.tools);
    for _ in 0..ATTEMPTS {
        let Some(chat) = work.app.store.chat(&work.chat.id).await? else { return Ok(Fitted::Stopped) };
        let after = chat.summary.as_ref().map_or(0, |summary| summary.until);
        let rows = load(work, after).await?;
        let (mut messages, mut positions) = conversation::write(&rows, repeats);
        if let Some(summary) = &chat.summary {
            messages = context::with_summary(&summary.text, messages);
            // It may have become a part of the first message.
            if messages.len() > positions.len() {
                positions.insert(0, summary.until);
            }
        }
        match context::fit(messages, fixed, model.window) {
            // A provider may count in another way: it decides.
            Fit::Fits(messages) | Fit::TooLong(messages) => {
                request.messages = messages;
                return Ok(Fitted::Ready);
            }
            Fit::Summarise { messages: range, conversation } => {
                let asked = conversation.get(range.clone()).unwrap_or_default();
                let summary = context::summary_request(&model.name, asked, model.window);
                match summarise(work, model, &summary).await {
                    Some(Ok((text, tokens))) => {
                        let until = range.end.checked_sub(1).and_then(|last| positions.get(last).copied());
                        let until = until.filter(|_| range.start == 0);
                        keep(work, model, until, &text, tokens).await?;
                        if until.is_none() {
                            // The present turn alone is too long. What is left out is another part each time.
                            request.messages = context::summarised(conversation, range, &text);
                            return Ok(Fitted::Ready);
                        }
                    }
                    Some(Err(error)) => return Ok(Fitted::Failed(error)),
                    None => return Ok(Fitted::Stopped),
                }
            }
        }
    }
    Ok(Fitted::Failed(ModelError {
        code: ModelErrorCode::ContextTooLong,
        message: "The conversation is longer than the model can read".into(),
        hint: "Begin a new chat, or choose a model with a larger context".into(),
        retry_after: None,
    }))
}

async fn summarise(
    work: &Work,
    model: &Resolved,
    request: &ModelRequest,
) -> Option<Result<(String, cabana_agent::model::Tokens), ModelError>> {
    // Nobody watches a summary being written.
    let (pieces, mut nobody) = mpsc::channel(64);
    let asking = model.model.call(request, &pieces);
    tokio::pin!(asking);
    loop {
        tokio::select! {
            biased;
            () = work.cancel.cancelled() => return None,
            () = work.stopping.cancelled() => return None,
            Some(_) = nobody.recv() => {}
            answer = &mut asking => {
                return Some(answer.map(|answer| (answer.text.chars().take(MAX_SUMMARY / 4).collect(), answer.tokens)));
            }
        }
    }
}

async fn keep(
    work: &Work,
    model: &Resolved,
    until: Option<i64>,
    text: &str,
    tokens: cabana_agent::model::Tokens,
) -> Result<(), cabana_store::Error> {
    let mut writing = work.room.write().await;
    let store = &work.app.store;
    let (Some(mut turn), Some(chat)) = (store.turn(&work.turn).await?, store.chat(&work.chat.id).await?) else {
        return Ok(());
    };
    let spent = model_call::usage(model, tokens);
    turn.usage = turn.usage.plus(spent);
    let data = json!({"beforeTokens": tokens.input, "afterTokens": context::text_tokens(text)});
    let event = NewEvent::new("context.compacted", Some(&work.turn), data);
    let summary = until.map(|until| Summary { until, text: text.to_owned() }).or(chat.summary);
    let chat = ChatRow { summary, usage: chat.usage.plus(spent), ..chat };
    let counted = model_call::counted(&work.turn, model, spent);
    writing.commit(vec![ChatChange::SetChat(chat), ChatChange::SetTurn(turn), counted], vec![event]).await
}

/// The rows of the conversation after a position.
async fn load(work: &Work, after: i64) -> Result<conversation::Rows, cabana_store::Error> {
    let store = &work.app.store;
    let messages = store.conversation(&work.chat.id, after).await?;
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id.clone()).collect();
    let calls = store.calls_of(&ids).await?;
    let files: Vec<AttachmentId> = messages.iter().flat_map(attached).collect();
    let attachments = store.attachments_by_id(&files).await?;
    let mut rows = conversation::Rows { messages, calls, ..Default::default() };
    for row in attachments {
        if row.size <= conversation::MAX_IMAGE && conversation::IMAGES.contains(&row.media_type.as_str()) {
            // One that cannot be read is left out.
            if let Ok(bytes) = work.app.blobs.content(&row.team, &row.sha256, conversation::MAX_IMAGE).await {
                rows.images.insert(row.id.clone(), bytes);
            }
        }
        rows.attachments.insert(row.id.clone(), row);
    }
    Ok(rows)
}

fn attached(message: &MessageRow) -> impl Iterator<Item = AttachmentId> + '_ {
    message.content.iter().filter_map(|part| match part {
        Part::Image { attachment_id } | Part::File { attachment_id, .. } | Part::Screenshot { attachment_id, .. } => {
            Some(attachment_id.clone())
        }
        _ => None,
    })
}
