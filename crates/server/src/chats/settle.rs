//! What changes in a turn beside calls of the model and of tools: it waits, goes on, is stopped, ends.

use std::time::{Duration, Instant};

use cabana_agent::computer::Signal;
use cabana_store::{ChatChange, TurnRow};
use cabana_types::MessageId;
use cabana_types::chat::{CallStatus, MAIN_SANDBOX, MessageStatus};
use cabana_types::error::chain;
use cabana_types::tool::ToolErrorCode;
use cabana_types::turn::{self, Step, TurnState};
use jiff::Timestamp;
use serde_json::json;

use super::engine::{Settled, Work};
use super::event::NewEvent;
use super::{calls, describe, model_call};
use crate::failpoint;

/// How long commands of a stopped turn may take to be ended.
const KILL_WAIT: Duration = Duration::from_secs(8);

impl Work {
    /// The model was writing when the last server ended.
    pub(super) async fn mark_interrupted(&self, message: Option<MessageId>) -> Result<(), cabana_store::Error> {
        let mut writing = self.room.write().await;
        let (Some(id), Some(mut turn)) = (message, self.app.store.turn(&self.turn).await?) else { return Ok(()) };
        let Some(mut message) = self.app.store.message(&id).await? else { return Ok(()) };
        turn.interruptions += 1;
        message.status = MessageStatus::Interrupted;
        let event = model_call::completed(&message, &[]);
        writing.commit(vec![ChatChange::SetMessage(message), ChatChange::SetTurn(turn)], vec![event]).await
    }

    /// Something has to be done by somebody else.
    pub(super) async fn wait(
        &self,
        turn: &TurnRow,
        message: Option<MessageId>,
        index: usize,
        busy: Instant,
    ) -> Result<(), cabana_store::Error> {
        if turn.state == TurnState::Waiting {
            return Ok(());
        }
        let Some(message) = message else { return Ok(()) };
        let mut writing = self.room.write().await;
        let calls = self.app.store.calls_of(&[message]).await?;
        let reason = match calls.get(index) {
            Some(call) if call.status == CallStatus::Approval => "approval",
            Some(call) if call.name == cabana_types::chat::ASK_USER => "question",
            Some(call) if !call.status.is_done() => "client",
            // It was answered meanwhile.
            _ => return Ok(()),
        };
        let Some(mut turn) = self.app.store.turn(&self.turn).await? else { return Ok(()) };
        turn.state = TurnState::Waiting;
        turn.reason = Some(reason.to_owned());
        turn.busy_ms += elapsed(busy);
        let event = turn_complete(&turn);
        writing.commit(vec![ChatChange::SetTurn(turn)], vec![event]).await?;
        drop(writing);
        self.room.settled.notify_waiters();
        self.changed().await;
        Ok(())
    }

    pub(super) async fn goes_on(&self, turn: &TurnRow) -> Result<(), cabana_store::Error> {
        let mut writing = self.room.write().await;
        let Some(now) = self.app.store.turn(&turn.id).await? else { return Ok(()) };
        let turn = TurnRow { state: TurnState::Running, reason: None, ..now };
        let event = NewEvent::new("turn.started", Some(&turn.id), json!({"turn": describe::turn(&turn)}));
        writing.commit(vec![ChatChange::SetTurn(turn)], vec![event]).await?;
        drop(writing);
        self.changed().await;
        Ok(())
    }

    /// Writes how long the turn has been worked on, now and then.
    pub(super) async fn spend(&self, busy: &mut Instant) -> Result<(), cabana_store::Error> {
        if busy.elapsed() < Duration::from_secs(5) {
            return Ok(());
        }
        let mut writing = self.room.write().await;
        if let Some(mut turn) = self.app.store.turn(&self.turn).await? {
            turn.busy_ms += elapsed(*busy);
            writing.commit(vec![ChatChange::SetTurn(turn)], Vec::new()).await?;
        }
        *busy = Instant::now();
        Ok(())
    }

    /// Ends commands that the last server left running.
    pub(super) async fn end_commands(&self) {
        let calls = self.app.store.calls_of_turn(&self.turn).await.unwrap_or_default();
        let computers = self.app.chat_computers(self);
        let sandboxes = self.app.store.chat_sandboxes(&self.chat.id).await.unwrap_or_default();
        let main = sandboxes.into_iter().find(|row| row.name == MAIN_SANDBOX).map(|row| row.sandbox);
        for call in calls.into_iter().filter(|call| call.status == CallStatus::Running) {
            // The first call of a chat was written before there was a sandbox. In one that is paused nothing runs.
            let Some(sandbox) =
                call.sandbox.or_else(|| main.clone()).filter(|sandbox| self.app.directory.get(sandbox).is_some())
            else {
                continue;
            };
            let ending = async {
                let computer = computers.open(Some(sandbox.as_str())).await?;
                computer.signal(&format!("call:{}", call.id), Signal::Kill).await
            };
            match tokio::time::timeout(KILL_WAIT, ending).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(call = %call.id, error = chain(&error), "a command was not ended"),
                Err(_) => tracing::warn!(call = %call.id, "a command was not ended in time"),
            }
        }
    }

    /// Everything that has not ended was stopped.
    pub(super) async fn close_open(&self, message: Option<MessageId>) -> Result<(), cabana_store::Error> {
        failpoint::hit("chat.cancelling");
        let Some(id) = message else { return Ok(()) };
        let mut writing = self.room.write().await;
        let Some(mut message) = self.app.store.message(&id).await? else { return Ok(()) };
        let (mut changes, mut events) = (Vec::new(), Vec::new());
        let calls = self.app.store.calls_of(std::slice::from_ref(&id)).await?;
        if message.status == MessageStatus::Streaming {
            message.status = MessageStatus::Cancelled;
            events.push(model_call::completed(&message, &calls));
            changes.push(ChatChange::SetMessage(message));
        }
        for call in calls.into_iter().filter(|call| !call.status.is_done()) {
            let failed = calls::refused(call, ToolErrorCode::Cancelled, "the person stopped the turn");
            events.push(calls::tool_message(&failed, &[]));
            changes.push(ChatChange::SetCall(failed));
        }
        writing.commit(changes, events).await
    }

    pub(super) async fn finish(
        &self,
        state: TurnState,
        reason: Option<String>,
        busy: Instant,
    ) -> Result<Settled, cabana_store::Error> {
        if state != TurnState::Cancelled {
            self.app.keep_artifacts(self).await;
        }
        let mut writing = self.room.write().await;
        let Some(mut turn) = self.app.store.turn(&self.turn).await? else { return Ok(Settled::Ended) };
        if state == TurnState::Complete && !turn.cancel {
            // A message that came in the last moment is answered too.
            let (facts, _) = self.facts(&turn).await?;
            if turn::next(&facts) != Step::Complete {
                drop(writing);
                return Box::pin(self.drive()).await;
            }
        }
        turn.state = state;
        turn.reason = reason;
        turn.busy_ms += elapsed(busy);
        turn.ended_at = Some(Timestamp::now());
        let event = turn_complete(&turn);
        writing.commit(vec![ChatChange::SetTurn(turn)], vec![event]).await?;
        drop(writing);
        failpoint::hit("chat.ended");
        self.room.settled.notify_waiters();
        self.changed().await;
        Ok(Settled::Ended)
    }
}

fn elapsed(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A turn ended, or waits.
fn turn_complete(turn: &TurnRow) -> NewEvent {
    let usage = turn.usage;
    let data = json!({
        "turnId": turn.id, "status": turn.state, "reason": turn.reason, "usage": usage, "costMicros": usage.cost_micros,
    });
    NewEvent::new("turn.complete", Some(&turn.id), data)
}
