//! A chat that somebody uses: its events get their numbers here, are written, and reach whoever watches. Nothing of it stays in memory when
//! nobody does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_store::{ChatChange, ChatCommit, ChatCommitted, ChatRequest, Store};
use cabana_types::chat::Part;
use cabana_types::wire::Message;
use cabana_types::{CallId, ChatId, MessageId, TeamId, TurnId};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::event::{NewEvent, Published};
use super::ring::Ring;

/// Numbers of events that are reserved at once: a restart never gives one twice.
const BLOCK: u64 = 10_000;
/// Events that are read from the store at once.
const PAGE: u32 = 500;

/// A chat that is open.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) chat: ChatId,
    pub(crate) team: TeamId,
    store: Store,
    numbers: tokio::sync::Mutex<Numbers>,
    ring: Mutex<Ring>,
    /// The number of the newest event.
    told: watch::Sender<u64>,
    /// Held while a sandbox of the chat is looked for or made.
    pub(crate) computers: tokio::sync::Mutex<()>,
    /// Held while files are brought into a sandbox.
    pub(crate) files: tokio::sync::Mutex<()>,
    /// Notified when a turn ends or waits.
    pub(super) settled: Notify,
}

/// The numbers that are reserved.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    end: u64,
}

/// The right to change a chat. Rows that are read while it is held do not change.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    room: &'a Room,
    numbers: tokio::sync::MutexGuard<'a, Numbers>,
}

/// What a call printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printed<'a> {
    pub(super) stream: &'a str,
    pub(super) text: &'a str,
    /// Bytes that were left out before it.
    pub(super) dropped: u64,
    /// Whether it replaces all that was sent before.
    pub(super) again: bool,
}

/// What is known of a chat beside its rows.
#[derive(Debug, Default, Clone)]
pub(crate) struct Present {
    pub(crate) last: u64,
    pub(crate) streaming: Option<Message>,
    pub(crate) outputs: HashMap<CallId, String>,
}

impl Room {
    pub(super) fn new(chat: ChatId, team: TeamId, store: Store) -> Self {
        Self {
            chat,
            team,
            store,
            numbers: tokio::sync::Mutex::default(),
            ring: Mutex::default(),
            told: watch::Sender::new(0),
            computers: tokio::sync::Mutex::default(),
            files: tokio::sync::Mutex::default(),
            settled: Notify::new(),
        }
    }

    /// Waits for the right to change the chat.
    pub(crate) async fn write(&self) -> Writing<'_> {
        Writing { room: self, numbers: self.numbers.lock().await }
    }

    /// Sends an event that is not stored. If numbers cannot be reserved it is left out: what it says is told again later.
    pub(crate) async fn publish(&self, event: NewEvent) {
        if let Err(error) = self.write().await.publish(event).await {
            tracing::warn!(chat = %self.chat, error = cabana_types::error::chain(&error), "an event of a chat was not sent");
        }
    }

    /// Sends a piece of the message that the model writes.
    pub(super) async fn piece(&self, turn: &TurnId, id: &MessageId, piece: Part) -> Result<(), cabana_store::Error> {
        let delta = match &piece {
            Part::Reasoning { text } => json!({"reasoning": text}),
            Part::Text { text } => json!({"text": text}),
            _ => return Ok(()),
        };
        let event = NewEvent::new("message.delta", Some(turn), json!({"messageId": id, "delta": delta}));
        let mut writing = self.write().await;
        writing.send(event, |ring| ring.grow(id, &piece)).await
    }

    /// Sends what a call printed.
    pub(super) async fn printed(
        &self,
        turn: &TurnId,
        call: &CallId,
        printed: Printed<'_>,
    ) -> Result<(), cabana_store::Error> {
        let Printed { stream, text, dropped, again } = printed;
        let mut data = json!({"toolCallId": call, "stream": stream, "text": text, "dropped": dropped});
        if again {
            data["snapshot"] = true.into();
        }
        let event = NewEvent::new("tool.output", Some(turn), data);
        let mut writing = self.write().await;
        writing
            .send(event, |ring| {
                if again {
                    ring.printed_all(call);
                }
                ring.printed(call, text);
            })
            .await
    }

    /// What is known beside the rows. To be consistent with them, they are read while nobody writes.
    pub(crate) fn present(&self, _writing: &Writing<'_>) -> Present {
        let ring = self.ring();
        Present { last: ring.last(), streaming: ring.streaming().cloned(), outputs: ring.outputs().clone() }
    }

    /// Watches the events after a number, or those from now on.
    pub(crate) async fn watch(self: &Arc<Self>, after: Option<u64>) -> Result<Watcher, cabana_store::Error> {
        let told = self.told.subscribe();
        let mut watcher = Watcher { room: Arc::clone(self), told, cursor: 0, backlog: Vec::new(), behind: false };
        let kept = after.and_then(|after| Some((after, self.ring().after(after)?)));
        match (kept, after) {
            (Some((after, events)), _) => {
                watcher.cursor = events.last().map_or(after, |event| event.id.max(after));
                watcher.backlog = events;
            }
            (None, Some(after)) => watcher.catch_up(after).await?,
            (None, None) => {
                let _writing = self.write().await;
                let last = self.ring().last();
                watcher.cursor = if last > 0 { last } else { self.store.last_chat_event(&self.chat).await? };
                self.ring().begin_after(watcher.cursor);
            }
        }
        Ok(watcher)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing<'_> {
    /// Commits changes with their events, and sends these.
    pub(crate) async fn commit(
        &mut self,
        changes: Vec<ChatChange>,
        events: Vec<NewEvent>,
    ) -> Result<(), cabana_store::Error> {
        self.commit_request(changes, events, None).await.map(drop)
    }

    /// The same for a request with an idempotency key. A new chat has no events yet, because its row has their counter.
    pub(crate) async fn commit_request(
        &mut self,
        changes: Vec<ChatChange>,
        events: Vec<NewEvent>,
        request: Option<ChatRequest>,
    ) -> Result<ChatCommitted, cabana_store::Error> {
        let mut rows = Vec::with_capacity(events.len());
        for event in events {
            rows.push(event.row(self.number().await?, Timestamp::now()));
        }
        let room = self.room;
        let commit =
            ChatCommit { team: room.team.clone(), chat: room.chat.clone(), changes, events: rows.clone(), request };
        let committed = room.store.commit_chat(commit).await?;
        if matches!(committed, ChatCommitted::Done) {
            let mut last = 0;
            {
                let mut ring = room.ring();
                for row in rows {
                    let call = (row.kind == "tool.message").then(|| call_of(&row.data)).flatten();
                    if let Some(call) = call {
                        ring.printed_all(&call);
                    }
                    if row.kind == "message.complete" {
                        ring.end();
                    }
                    last = row.id;
                    ring.push(Arc::new(Published::new(&room.chat, row)));
                }
            }
            if last > 0 {
                room.told.send_replace(last);
            }
        }
        Ok(committed)
    }

    /// The message that the model begins to write, which was committed.
    pub(super) fn begin(&self, message: Message) {
        self.room.ring().begin(message);
    }

    /// Sends an event that is not stored.
    pub(crate) async fn publish(&mut self, event: NewEvent) -> Result<(), cabana_store::Error> {
        self.send(event, |_| {}).await
    }

    async fn send(&mut self, event: NewEvent, also: impl FnOnce(&mut Ring)) -> Result<(), cabana_store::Error> {
        let id = self.number().await?;
        let published = Arc::new(Published::new(&self.room.chat, event.row(id, Timestamp::now())));
        {
            let mut ring = self.room.ring();
            also(&mut ring);
            ring.push(published);
        }
        self.room.told.send_replace(id);
        Ok(())
    }

    async fn number(&mut self) -> Result<u64, cabana_store::Error> {
        if self.numbers.next == self.numbers.end {
            let first = self.room.store.reserve_chat_events(&self.room.chat, BLOCK).await?;
            *self.numbers = Numbers { next: first, end: first + BLOCK };
        }
        let id = self.numbers.next;
        self.numbers.next += 1;
        Ok(id)
    }
}

fn call_of(data: &str) -> Option<CallId> {
    let data: serde_json::Value = serde_json::from_str(data).ok()?;
    data.get("toolCallId")?.as_str()?.parse().ok()
}

/// Somebody who watches a chat.
#[derive(Debug)]
pub(crate) struct Watcher {
    room: Arc<Room>,
    told: watch::Receiver<u64>,
    /// The number of the last event that was taken.
    cursor: u64,
    backlog: Vec<Arc<Published>>,
    /// Whether more is to be read from the store.
    behind: bool,
}

impl Watcher {
    /// The chat.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// The number of the last event that was taken.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The next events. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Vec<Arc<Published>>, cabana_store::Error> {
        loop {
            if !self.backlog.is_empty() {
                return Ok(std::mem::take(&mut self.backlog));
            }
            if self.behind {
                self.catch_up(self.cursor).await?;
                continue;
            }
            // Cannot fail: the sender is in the room.
            let _ = self.told.wait_for(|last| *last > self.cursor).await;
            let kept = self.room.ring().after(self.cursor);
            match kept {
                Some(events) => {
                    self.cursor = events.last().map_or(self.cursor, |event| event.id);
                    self.backlog = events;
                }
                // It was too slow.
                None => self.catch_up(self.cursor).await?,
            }
        }
    }

    /// Reads what is stored, and adds what is being written.
    async fn catch_up(&mut self, after: u64) -> Result<(), cabana_store::Error> {
        let room = Arc::clone(&self.room);
        let page = room.store.chat_events(&room.chat, after, PAGE).await?;
        if page.len() == PAGE as usize {
            // The rest comes when this has been taken, and nobody waits for it.
            self.cursor = page.last().map_or(after, |row| row.id);
            self.backlog = page.into_iter().map(|row| Arc::new(Published::new(&room.chat, row))).collect();
            self.behind = true;
            return Ok(());
        }
        let mut writing = room.write().await;
        let page = room.store.chat_events(&room.chat, after, 2 * PAGE).await?;
        let mut cursor = page.last().map_or(after, |row| row.id);
        let mut events: Vec<_> = page.into_iter().map(|row| Arc::new(Published::new(&room.chat, row))).collect();
        let present = room.present(&writing);
        cursor = cursor.max(present.last);
        let mut now = Vec::new();
        if let Some(message) = present.streaming {
            let turn = message.turn_id.clone();
            now.push(NewEvent::new("message.snapshot", Some(&turn), json!({"message": message})));
        }
        for (call, text) in present.outputs {
            let data = json!({"toolCallId": call, "stream": "stdout", "text": text, "dropped": 0, "snapshot": true});
            now.push(NewEvent::new("tool.output", None, data));
        }
        for event in now {
            // With numbers of their own, or a client would take them for events that it has.
            cursor = writing.number().await?;
            events.push(Arc::new(Published::new(&room.chat, event.row(cursor, Timestamp::now()))));
        }
        room.ring().begin_after(cursor);
        self.cursor = cursor;
        self.backlog = events;
        self.behind = false;
        Ok(())
    }
}
