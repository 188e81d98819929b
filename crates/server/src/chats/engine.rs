//! Works on turns. What is done next is decided by [`turn::next`] from rows alone, so the same code goes on after a crash: whatever was
//! begun is in a row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_store::{ChatChange, ChatRow, TurnRow};
use cabana_types::chat::{MAX_RUNNING, Role};
use cabana_types::error::chain;
use cabana_types::turn::{self, CallFacts, Facts, Last, Step, TurnState};
use cabana_types::{ActorId, ChatId, MessageId, Permissions, QuotaKind, TeamId, TurnId};
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::event::NewEvent;
use super::places::Place;
use super::room::Room;
use super::toolset::ToolSet;
use super::{Chats, calls, conversation, describe, model_call};
use crate::api::App;
use crate::auth::Caller;
use crate::failpoint;

/// How long work rests after the store failed: longer each time, up to the most.
const REST: Duration = Duration::from_secs(1);
const MAX_REST: Duration = Duration::from_secs(60);

/// Positions of messages of one turn.
pub(crate) const TURN_POSITIONS: i64 = 1_000_000;

/// One turn that is worked on.
pub(crate) struct Work {
    pub(crate) app: Arc<App>,
    pub(crate) room: Arc<Room>,
    pub(crate) chat: ChatRow,
    pub(crate) turn: TurnId,
    pub(crate) caller: Caller,
    pub(crate) tools: ToolSet,
    /// Cancelled when a person stops the turn.
    pub(crate) cancel: CancellationToken,
    /// Cancelled when the server stops: the next one goes on.
    pub(crate) stopping: CancellationToken,
}

/// How work on a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Ended,
    Waits,
    /// The server stops.
    Left,
}

impl Chats {
    /// Works on the turns of a chat, if there are any.
    pub(crate) fn wake(app: &Arc<App>, chat: &ChatId) {
        let chats = &app.chats;
        if chats.tasks.is_stopping() || !chats.hub.begin(chat) {
            return;
        }
        let (worker, chat) = (Arc::clone(app), chat.clone());
        chats.tasks.spawn("turns of a chat", async move {
            let mut lost = Lost { app: Arc::clone(&worker), chat: chat.clone(), ended: false };
            lost.ended = work(&worker, &chat).await;
        });
    }

    /// Goes on with everything that the last server left.
    pub(crate) async fn adopt(app: &Arc<App>) -> Result<(), cabana_store::Error> {
        for turn in app.store.open_turns().await? {
            Self::wake(app, &turn.chat);
        }
        Ok(())
    }

    /// A place among the turns of a team that run at the same time.
    async fn place(&self, team: &TeamId) -> Result<Option<Place>, cabana_store::Error> {
        loop {
            // Before the look, so that no change is missed.
            let mut changed = std::pin::pin!(self.places.changed());
            changed.as_mut().enable();
            let limit = self.store.limits(team).await?.get(QuotaKind::Turns).unwrap_or(MAX_RUNNING);
            if let Some(place) = self.places.try_take(team, limit) {
                return Ok(Some(place));
            }
            if self.tasks.stop_token().run_until_cancelled(changed).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// The limit of turns of a team may have changed.
    pub(crate) fn limits_changed(&self) {
        self.places.limits_changed();
    }
}

/// A worker that panicked must not keep others from beginning.
struct Lost {
    app: Arc<App>,
    chat: ChatId,
    /// Whether it ended as it should: another one may have begun since.
    ended: bool,
}

impl Drop for Lost {
    fn drop(&mut self) {
        if !self.ended {
            self.app.chats.hub.lost(&self.chat);
        }
    }
}

/// Works until there is nothing to do: `true`. `false` if the server stops.
async fn work(app: &Arc<App>, chat: &ChatId) -> bool {
    let mut failures = 0;
    let stopping = app.chats.tasks.stop_token().clone();
    while !stopping.is_cancelled() {
        match next_turn(app, chat, &stopping).await {
            Ok(true) => failures = 0,
            Ok(false) if app.chats.hub.end(chat) => return true,
            Ok(false) => {}
            Err(error) => {
                failures += 1;
                tracing::error!(%chat, error = chain(&error), failures, "could not work on a chat");
                let rest = REST.saturating_mul(failures).min(MAX_REST);
                let _ = stopping.run_until_cancelled(tokio::time::sleep(rest)).await;
            }
        }
    }
    false
}

/// Works on the next turn; `false` if there is nothing to do.
async fn next_turn(app: &Arc<App>, id: &ChatId, stopping: &CancellationToken) -> Result<bool, cabana_store::Error> {
    let Some(chat) = app.store.chat(id).await? else { return Ok(false) };
    let turns = app.store.open_turns_of(id).await?;
    let begun = turns.iter().find(|turn| turn.state != TurnState::Queued);
    let Some(turn) = begun.or_else(|| turns.first()).cloned() else { return Ok(false) };
    // Stopping a turn takes no place.
    let _place = match turn.cancel {
        true => None,
        false => match app.chats.place(&chat.team).await? {
            Some(place) => Some(place),
            None => return Ok(false),
        },
    };
    // Waiting for a place may have taken long.
    let (Some(chat), Some(turn)) = (app.store.chat(id).await?, app.store.turn(&turn.id).await?) else {
        return Ok(true);
    };
    let cancel = app.chats.hub.works_on(id, &turn.id);
    let room = app.chats.hub.room(id, &chat.team);
    let tools = app.chats.tools_of(&chat, &turn).await?;
    let caller = caller(&chat);
    let turn_id = turn.id.clone();
    let work = Work {
        app: Arc::clone(app),
        room,
        chat,
        turn: turn_id,
        caller,
        tools: ToolSet::new(&tools),
        cancel,
        stopping: stopping.clone(),
    };
    if turn.state == TurnState::Queued {
        work.begin(turn).await?;
    }
    let settled = work.drive().await?;
    Ok(settled == Settled::Ended)
}

/// Who a chat's sandboxes and services are made by.
pub(crate) fn caller(chat: &ChatRow) -> Caller {
    let actor = chat.created_by.clone();
    let actor = actor.unwrap_or_else(|| ActorId::User(cabana_types::UserId::from_random([0; 20])));
    // What turns do is a matter of the permission for chats.
    Caller {
        team: chat.team.clone(),
        actor,
        permissions: Permissions::PLAIN_KEY,
        project: Some(chat.project.clone()),
        secret: None,
        session: None,
    }
}

impl Work {
    /// A queued turn begins.
    async fn begin(&self, turn: TurnRow) -> Result<(), cabana_store::Error> {
        let mut writing = self.room.write().await;
        let Some(turn) = self.app.store.turn(&turn.id).await? else { return Ok(()) };
        let Some(message) = self.app.store.message(&turn.message).await? else { return Ok(()) };
        let turn = TurnRow { state: TurnState::Running, started_at: Some(Timestamp::now()), ..turn };
        let wire = describe::turn(&turn);
        let message = describe::message(&message, &[], &Default::default());
        let events = vec![
            NewEvent::new("turn.started", Some(&turn.id), json!({"turn": wire})),
            NewEvent::new("message.created", Some(&turn.id), json!({"message": message})),
        ];
        writing.commit(vec![ChatChange::SetTurn(turn)], events).await?;
        drop(writing);
        failpoint::hit("chat.started");
        self.changed().await;
        Ok(())
    }

    pub(super) async fn drive(&self) -> Result<Settled, cabana_store::Error> {
        let mut busy = Instant::now();
        loop {
            if self.stopping.is_cancelled() {
                return Ok(Settled::Left);
            }
            let Some(turn) = self.app.store.turn(&self.turn).await? else { return Ok(Settled::Ended) };
            if turn.state.is_ended() {
                return Ok(Settled::Ended);
            }
            let (facts, last) = self.facts(&turn).await?;
            let step = turn::next(&facts);
            if turn.state == TurnState::Waiting && !matches!(step, Step::Wait(_)) {
                self.goes_on(&turn).await?;
                busy = Instant::now();
            }
            match step {
                Step::MarkInterrupted => self.mark_interrupted(last).await?,
                Step::CallModel => model_call::call(self, facts.repeats).await?,
                Step::RunCalls(indices) => calls::run(self, last, indices).await?,
                Step::Wait(index) => {
                    self.wait(&turn, last, index, busy).await?;
                    return Ok(Settled::Waits);
                }
                Step::Complete => return self.finish(TurnState::Complete, None, busy).await,
                Step::Fail(failure) => {
                    let reason = turn.reason.clone().unwrap_or_else(|| failure.as_str().to_owned());
                    return self.finish(TurnState::Failed, Some(reason), busy).await;
                }
                Step::Interrupt => return self.finish(TurnState::Interrupted, Some("interrupted".into()), busy).await,
                Step::Cancel => {
                    self.end_commands().await;
                    self.close_open(last).await?;
                    return self.finish(TurnState::Cancelled, Some("cancelled".into()), busy).await;
                }
            }
            self.spend(&mut busy).await?;
        }
    }

    /// What is known of the turn, and its last message of the model.
    pub(super) async fn facts(&self, turn: &TurnRow) -> Result<(Facts, Option<MessageId>), cabana_store::Error> {
        let store = &self.app.store;
        let messages = store.conversation(&self.chat.id, turn.seq * TURN_POSITIONS - 1).await?;
        let own: Vec<_> = messages.into_iter().filter(|message| message.turn == turn.id).collect();
        let steered = own.last().is_some_and(|message| message.role == Role::User);
        let all_calls = store.calls_of_turn(&turn.id).await?;
        let assistant = own.into_iter().rfind(|message| message.role == Role::Assistant);
        let id = assistant.as_ref().map(|message| message.id.clone());
        let last = assistant.map_or(Last::User, |message| Last::Assistant {
            status: message.status,
            calls: all_calls
                .iter()
                .filter(|call| call.message == message.id)
                .map(|call| CallFacts { status: call.status, read_only: self.tools.is_read_only(&call.name) })
                .collect(),
        });
        let limits = turn.limits;
        let facts = Facts {
            cancel: turn.cancel,
            steered,
            last,
            steps: turn.steps,
            max_steps: limits.max_steps,
            interruptions: turn.interruptions,
            out_of_time: turn.busy_ms >= u64::from(limits.max_minutes) * 60_000,
            out_of_money: limits.max_cost_micros.zip(turn.usage.cost_micros).is_some_and(|(most, cost)| cost >= most),
            repeats: conversation::repeats(&all_calls),
        };
        Ok((facts, id))
    }

    /// Tells everyone how the chat is now.
    pub(super) async fn changed(&self) {
        self.app.chats.changed(&self.chat.id).await;
    }
}
