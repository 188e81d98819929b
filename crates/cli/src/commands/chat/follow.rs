//! Follows a turn to its end: over lost connections, questions to the person, and Ctrl-C.

use std::time::{Duration, Instant};

use cabana_client::{ChatEvent, Client};
use cabana_types::TurnId;
use cabana_types::chat::CallStatus;
use cabana_types::turn::TurnState;
use cabana_types::wire::{CancelRequest, Chat, ToolCall};

use super::ask::{self, Answered};
use super::render::{Piece, Renderer, Style};
use crate::failure::{Failure, SYSTEM_ERROR};
use crate::output::{Output, is_control};
use crate::signals::Signals;

/// The server sends something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a lost connection is tried again.
const GIVE_UP: Duration = Duration::from_secs(120);
/// Between two tries, at most.
const PAUSE: Duration = Duration::from_secs(3);
/// Number of SIGINT.
const INTERRUPT: u8 = 2;

/// How a turn is shown and answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    /// Prints events as JSON.
    pub(super) json: bool,
    pub(super) quiet: bool,
    /// Allows every call.
    pub(super) allow: bool,
}

/// How a turn ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: TurnState,
    pub(super) reason: Option<String>,
}

pub(super) struct Follower<'a> {
    pub(super) client: &'a Client,
    pub(super) out: &'a Output,
    pub(super) signals: &'a mut Signals,
    pub(super) mode: Mode,
    renderer: Renderer,
    /// Whether the turn was asked to stop.
    stopping: bool,
}

impl<'a> Follower<'a> {
    pub(super) fn new(client: &'a Client, out: &'a Output, signals: &'a mut Signals, mode: Mode) -> Self {
        let live = out.is_stderr_terminal() && !mode.quiet;
        let style = Style { live, colours: out.has_colours() && out.is_stderr_terminal(), quiet: mode.quiet };
        Self { client, out, signals, mode, renderer: Renderer::new(style), stopping: false }
    }

    /// Follows a turn that runs or waits already.
    pub(super) async fn attach(&mut self, chat: &Chat, turn: &TurnId) -> Result<Ended, Failure> {
        let page = self.client.chat_messages(&chat.id, None).await?;
        let waiting = page.messages.iter().filter(|message| message.turn_id == *turn);
        let waiting = waiting.flat_map(|message| &message.tool_calls).any(waits);
        if let Some(last) = page.messages.last().filter(|message| message.turn_id == *turn) {
            let pieces = self.renderer.earlier(last);
            self.print(pieces)?;
        }
        if waiting {
            self.answer(chat, turn).await?;
        }
        self.follow(chat, turn, page.last_event_id).await
    }

    /// Follows a turn from an event on.
    pub(super) async fn follow(&mut self, chat: &Chat, turn: &TurnId, after: u64) -> Result<Ended, Failure> {
        let mut after = after;
        let mut lost: Option<Instant> = None;
        loop {
            match self.read(chat, turn, &mut after, &mut lost).await? {
                Some(ended) if ended.status == TurnState::Waiting && !self.stopping => self.answer(chat, turn).await?,
                Some(ended) if ended.status == TurnState::Waiting => {}
                Some(ended) => return Ok(ended),
                None => self.pause(chat, *lost.get_or_insert_with(Instant::now)).await?,
            }
        }
    }

    /// Reads events until the turn ends or waits; `None` if the connection did.
    async fn read(
        &mut self,
        chat: &Chat,
        turn: &TurnId,
        after: &mut u64,
        lost: &mut Option<Instant>,
    ) -> Result<Option<Ended>, Failure> {
        let mut stream = match self.client.chat_events(&chat.id, *after).await {
            Ok(stream) => stream,
            Err(error) if error.is_callers_fault() => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        loop {
            let event = tokio::select! {
                event = tokio::time::timeout(SILENCE, stream.next()) => event,
                number = self.signals.recv() => {
                    self.interrupted(chat, turn, number)?;
                    continue;
                }
            };
            let Ok(Ok(Some(event))) = event else { return Ok(None) };
            *lost = None;
            if event.kind == "stream.end" {
                return Ok(None);
            }
            // Whatever came before the connection was lost is not printed again.
            if event.id.is_some_and(|id| id <= *after) {
                continue;
            }
            *after = event.id.unwrap_or(*after);
            if !concerns(&event, turn) {
                continue;
            }
            self.show(&event)?;
            if let Some(ended) = ended(&event) {
                return Ok(Some(ended));
            }
        }
    }

    fn show(&mut self, event: &ChatEvent) -> Result<(), Failure> {
        if !self.mode.json {
            let pieces = self.renderer.event(event);
            return self.print(pieces);
        }
        match json(event) {
            Some(line) => self.out.raw(line.as_bytes()),
            None => Ok(()),
        }
    }

    fn print(&self, pieces: Vec<Piece>) -> Result<(), Failure> {
        for piece in pieces {
            match piece {
                Piece::Answer(text) => self.out.raw(text.as_bytes())?,
                Piece::Aside(text) => self.out.raw_stderr(&text),
            }
        }
        Ok(())
    }

    /// Asks the person about everything that the turn waits for.
    async fn answer(&mut self, chat: &Chat, turn: &TurnId) -> Result<(), Failure> {
        let page = self.client.chat_messages(&chat.id, None).await?;
        let calls: Vec<ToolCall> =
            page.messages.into_iter().filter(|message| message.turn_id == *turn).flat_map(|m| m.tool_calls).collect();
        for call in calls.iter().filter(|call| waits(call)) {
            let answered = if self.mode.allow && call.status == CallStatus::Approval {
                ask::allow(self.client, chat, call).await?
            } else if self.out.can_ask() {
                ask::answer(self.client, chat, call, self.out, self.signals).await?
            } else {
                return Err(ask::needed(self.client, chat, Some(call)));
            };
            if answered == Answered::Stop {
                self.stop(chat, turn);
                break;
            }
        }
        Ok(())
    }

    /// The first Ctrl-C stops the turn, the second one leaves; other signals leave at once and stop nothing.
    fn interrupted(&mut self, chat: &Chat, turn: &TurnId, number: u8) -> Result<(), Failure> {
        if number == INTERRUPT && !self.stopping {
            self.stop(chat, turn);
            self.out.note("stopping; Ctrl-C again leaves at once");
            return Ok(());
        }
        Err(Failure::user_error("left before the turn had ended").code(128 + number))
    }

    /// Asks the server to stop the turn. Its end is an event like any other.
    fn stop(&mut self, chat: &Chat, turn: &TurnId) {
        self.stopping = true;
        let (client, id) = (self.client.clone(), chat.id.clone());
        let cancel = CancelRequest { turn_id: Some(turn.clone()) };
        let out = *self.out;
        tokio::spawn(async move {
            match client.cancel_turn(&id, &cancel).await {
                // It has ended meanwhile.
                Err(cabana_client::Error::Api { status: 409, .. }) | Ok(_) => {}
                Err(error) => out.failure(&error.into()),
            }
        });
    }

    async fn pause(&mut self, chat: &Chat, since: Instant) -> Result<(), Failure> {
        if since.elapsed() > GIVE_UP {
            let hint = format!("the turn goes on; see it with `cabana chat show {}`", chat.id);
            return Err(Failure::user_error("the connection to the server is lost").hint(hint).code(SYSTEM_ERROR));
        }
        let pause = (since.elapsed() / 2).clamp(Duration::from_millis(100), PAUSE);
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            number = self.signals.recv() => {
                Err(Failure::user_error("left before the turn had ended").code(128 + number))
            }
        }
    }
}

fn waits(call: &ToolCall) -> bool {
    matches!(call.status, CallStatus::Approval | CallStatus::Client)
}

/// Whether an event is of this turn, or of the chat as a whole.
fn concerns(event: &ChatEvent, turn: &TurnId) -> bool {
    let of = event.text("turnId");
    event.kind != "ping" && (of.is_empty() || of == turn.as_str())
}

fn ended(event: &ChatEvent) -> Option<Ended> {
    if event.kind != "turn.complete" {
        return None;
    }
    let status = TurnState::parse(event.text("status")).unwrap_or(TurnState::Complete);
    let reason = Some(event.text("reason").to_owned()).filter(|reason| !reason.is_empty());
    Some(Ended { status, reason })
}

/// An event on one line. What a terminal would obey is escaped.
fn json(event: &ChatEvent) -> Option<String> {
    let mut data = event.data.clone();
    if let (Some(object), Some(id)) = (data.as_object_mut(), event.id) {
        object.insert("id".to_owned(), id.into());
    }
    let text = serde_json::to_string(&data).ok()?;
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if is_control(c) {
            line.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    fn event(kind: &str, data: serde_json::Value) -> ChatEvent {
        ChatEvent { id: Some(7), kind: kind.to_owned(), data }
    }

    #[test]
    fn events_of_other_turns_are_left_out() {
        let turn = TurnId::from_random([1; 20]);
        assert!(concerns(&event("x", value!({"turnId": turn})), &turn));
        assert!(concerns(&event("x", value!({"turnId": null})), &turn));
        assert!(!concerns(&event("x", value!({"turnId": TurnId::from_random([2; 20])})), &turn));
        assert!(!concerns(&event("ping", value!({})), &turn));
    }

    #[test]
    fn ends() {
        assert!(ended(&event("turn.started", value!({}))).is_none());
        let failed = ended(&event("turn.complete", value!({"status": "failed", "reason": "stuck"}))).expect("end");
        assert_eq!((failed.status, failed.reason.as_deref()), (TurnState::Failed, Some("stuck")));
    }

    #[test]
    fn json_is_one_line_that_a_terminal_does_not_obey() {
        let line = json(&event("x", value!({"text": "a\u{1b}[2J\u{9b}\u{202e}\n"}))).expect("line");
        assert_eq!(line, "{\"id\":7,\"text\":\"a\\u001b[2J\\u009b\\u202e\\n\"}\n");
        let back: serde_json::Value = serde_json::from_str(&line).expect("json");
        assert_eq!(back["text"], "a\u{1b}[2J\u{9b}\u{202e}\n");
    }
}
