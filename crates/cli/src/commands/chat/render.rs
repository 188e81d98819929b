//! What a chat prints: events in, text out. Answers go to standard output, everything else to standard error.

use std::collections::HashMap;

use cabana_client::ChatEvent;
use cabana_types::chat::{ASK_USER, CallStatus, Part};
use cabana_types::wire::{Message, ToolCall};
use serde_json::Value;

use super::safe::Cleaner;
use crate::amount;
use crate::output::clean;

/// Characters of a title or a reason on one line.
const MAX_LINE: usize = 200;
/// End of a command's output that is remembered, to go on after it.
const TAIL: usize = 200;

/// How it is printed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Style {
    /// Whether output of commands is shown while they run.
    pub(super) live: bool,
    pub(super) colours: bool,
    /// Answers only.
    pub(super) quiet: bool,
}

/// Something to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Answer(String),
    Aside(String),
}

/// What stands at the end of the last line.
#[derive(Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    Answer,
    /// The title of this call, whose result may follow.
    Call(String),
    /// Output of a command.
    Output,
}

#[derive(Debug, Default)]
struct Running {
    title: String,
    cleaner: Cleaner,
    shown: bool,
    tail: String,
}

#[derive(Debug, Default)]
pub(super) struct Renderer {
    style: Style,
    line: Line,
    /// The message that is being written, and its text so far.
    message: Option<(String, String)>,
    calls: HashMap<String, Running>,
    services: HashMap<String, String>,
    pieces: Vec<Piece>,
}

impl Renderer {
    pub(super) fn new(style: Style) -> Self {
        Self { style, ..Self::default() }
    }

    /// What is to be printed for an event.
    pub(super) fn event(&mut self, event: &ChatEvent) -> Vec<Piece> {
        match event.kind.as_str() {
            "message.delta" => {
                if let Some(text) = event.data.pointer("/delta/text").and_then(Value::as_str) {
                    self.delta(event.text("messageId"), text);
                }
            }
            "message.snapshot" | "message.complete" => {
                if let Some(message) = read::<Message>(&event.data, "message") {
                    self.message(&message, event.kind == "message.complete");
                }
            }
            "tool.call" => {
                if let Some(call) = event.data.get("toolCall") {
                    self.call(call);
                }
            }
            "tool.output" => self.output(event),
            "tool.message" => self.result(event),
            "service.updated" => self.service(event),
            "artifact.created" => {
                let name = event.data.pointer("/attachment/name").and_then(Value::as_str).unwrap_or_default();
                self.aside(&format!("+ {}", one_line(name)));
            }
            "context.compacted" => self.aside("(older messages were summarised for the model)"),
            "turn.queued" => self.aside("(another turn runs; this one comes after it)"),
            "error" => {
                let again = event.data.get("retryable").and_then(Value::as_bool).unwrap_or_default();
                let again = if again { "; trying again" } else { "" };
                self.aside(&format!("{} {}{again}", self.paint("!", "33"), one_line(event.text("message"))));
                if !event.text("hint").is_empty() {
                    self.aside(&format!("  {}", one_line(event.text("hint"))));
                }
            }
            "turn.complete" => self.close(),
            _ => {}
        }
        std::mem::take(&mut self.pieces)
    }

    /// A message of an earlier moment, which may go on.
    pub(super) fn earlier(&mut self, message: &Message) -> Vec<Piece> {
        self.message(message, false);
        std::mem::take(&mut self.pieces)
    }

    fn delta(&mut self, id: &str, text: &str) {
        let so_far = match &mut self.message {
            Some((current, so_far)) if current == id => so_far,
            message => &mut message.insert((id.to_owned(), String::new())).1,
        };
        so_far.push_str(text);
        self.answer(text);
    }

    /// The whole text of a message up to now: what was not printed yet is.
    fn message(&mut self, message: &Message, whole: bool) {
        if message.role == cabana_types::chat::Role::User {
            return;
        }
        let text = text_of(message);
        let printed = match self.message.take() {
            Some((id, printed)) if id == message.id.as_str() => printed,
            _ => String::new(),
        };
        match text.strip_prefix(printed.as_str()) {
            Some(rest) => self.answer(rest),
            None => {
                self.close();
                self.answer(&text);
            }
        }
        if whole {
            self.close();
            if message.status == cabana_types::chat::MessageStatus::Interrupted {
                self.aside("(the answer broke off)");
            }
        } else {
            self.message = Some((message.id.to_string(), text));
        }
    }

    fn answer(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.line != Line::Answer {
            self.close();
        }
        self.line = if text.ends_with('\n') { Line::Empty } else { Line::Answer };
        self.pieces.push(Piece::Answer(clean(text).into_owned()));
    }

    fn call(&mut self, call: &Value) {
        let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
        // Others are asked about.
        if text("status") != CallStatus::Running.as_str() || self.style.quiet {
            return;
        }
        let title = one_line(if text("title").is_empty() { text("name") } else { text("title") });
        self.close();
        self.pieces.push(Piece::Aside(format!("{} {title} …", self.paint("▸", "36"))));
        let id = text("id").to_owned();
        self.line = Line::Call(id.clone());
        let running = Running { title, cleaner: Cleaner::new(self.style.colours), ..Running::default() };
        self.calls.insert(id, running);
    }

    fn output(&mut self, event: &ChatEvent) {
        let Some(mut call) = self.calls.remove(event.text("toolCallId")) else { return };
        if self.style.live {
            let snapshot = event.data.get("snapshot").and_then(Value::as_bool).unwrap_or_default();
            let text = event.text("text");
            let fresh = if snapshot { after_tail(text, &call.tail) } else { text };
            let dropped = event.data.get("dropped").and_then(Value::as_u64).unwrap_or_default();
            if dropped > 0 && !snapshot {
                self.close();
                let note = format!("    {}\n", self.paint(&format!("… {dropped} bytes are left out"), "2"));
                self.pieces.push(Piece::Aside(note));
            }
            call.tail.push_str(fresh);
            let mut cut = call.tail.len().saturating_sub(TAIL);
            while !call.tail.is_char_boundary(cut) {
                cut += 1;
            }
            call.tail.drain(..cut);
            let fresh = call.cleaner.push(fresh);
            call.shown |= !fresh.is_empty();
            self.lines(&fresh);
        }
        self.calls.insert(event.text("toolCallId").to_owned(), call);
    }

    /// Output of a command, indented.
    fn lines(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.line != Line::Output {
            self.close();
        }
        let (dim, end) = if self.style.colours { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
        let mut shown = String::new();
        for piece in text.split_inclusive('\n') {
            let begins = if self.line == Line::Output { "" } else { "    " };
            let line = piece.strip_suffix('\n');
            shown.push_str(&format!("{begins}{dim}{}{end}", line.unwrap_or(piece)));
            self.line = if line.is_some() { Line::Empty } else { Line::Output };
            if line.is_some() {
                shown.push('\n');
            }
        }
        self.pieces.push(Piece::Aside(shown));
    }

    fn result(&mut self, event: &ChatEvent) {
        let id = event.text("toolCallId");
        let call = self.calls.remove(id).unwrap_or_default();
        if self.style.quiet || event.text("name") == ASK_USER {
            return;
        }
        let ended = self.ended(&event.data);
        if self.line == Line::Call(id.to_owned()) {
            self.pieces.push(Piece::Aside(format!(" {ended}\n")));
            self.line = Line::Empty;
            return;
        }
        self.close();
        let title = if call.title.is_empty() { one_line(event.text("name")) } else { call.title };
        // Right below its own output the title would say nothing new.
        let text = if call.shown { format!("  {ended}\n") } else { format!("  {ended} · {title}\n") };
        self.pieces.push(Piece::Aside(text));
    }

    /// How a call ended, in a few words.
    fn ended(&self, data: &Value) -> String {
        if data.get("status").and_then(Value::as_str) == Some("success") {
            let time = data.get("durationMs").and_then(Value::as_u64).map(amount::milliseconds).unwrap_or_default();
            return format!("{} {time}", self.paint("✓", "32")).trim_end().to_owned();
        }
        let code = data.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
        let why = match data.pointer("/data/exitCode").and_then(Value::as_i64) {
            Some(exit) if code == "command_failed" => format!("exit {exit}"),
            _ => one_line(data.pointer("/error/message").and_then(Value::as_str).unwrap_or("failed")),
        };
        format!("{} {why}", self.paint("✗", "31"))
    }

    fn service(&mut self, event: &ChatEvent) {
        let text = |name: &str| event.data.pointer(&format!("/service/{name}")).and_then(Value::as_str);
        if let (Some("running"), Some(id), Some(url)) = (text("state"), text("id"), text("url"))
            && self.services.insert(id.to_owned(), url.to_owned()).as_deref() != Some(url)
        {
            let name = one_line(text("name").unwrap_or_default());
            self.aside(&format!("{} service {name}: {}", self.paint("●", "32"), one_line(url)));
        }
    }

    /// One call of a message that is whole.
    pub(super) fn whole_call(&self, call: &ToolCall) -> String {
        let title = one_line(if call.title.is_empty() { &call.name } else { &call.title });
        let ended = match call.status {
            CallStatus::Success | CallStatus::Error => {
                let data = serde_json::to_value(call).unwrap_or_default();
                self.ended(&data)
            }
            CallStatus::Approval => "waits for approval".to_owned(),
            CallStatus::Client => "waits for an answer".to_owned(),
            CallStatus::Pending | CallStatus::Running => "…".to_owned(),
        };
        format!("{} {title} {ended}", self.paint("▸", "36"))
    }

    /// A line beside the answer.
    fn aside(&mut self, text: &str) {
        if !self.style.quiet {
            self.close();
            self.pieces.push(Piece::Aside(format!("{text}\n")));
        }
    }

    /// Ends the last line.
    fn close(&mut self) {
        match std::mem::take(&mut self.line) {
            Line::Empty => {}
            Line::Answer => self.pieces.push(Piece::Answer("\n".to_owned())),
            Line::Call(_) | Line::Output => self.pieces.push(Piece::Aside("\n".to_owned())),
        }
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.style.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn read<T: serde::de::DeserializeOwned>(data: &Value, name: &str) -> Option<T> {
    serde_json::from_value(data.get(name)?.clone()).ok()
}

/// The text of a message, without what the model thought.
pub(super) fn text_of(message: &Message) -> String {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(text).collect()
}

/// What of a command's whole output comes after its end that was shown.
fn after_tail<'a>(text: &'a str, tail: &str) -> &'a str {
    if tail.is_empty() {
        return text;
    }
    text.rfind(tail).and_then(|at| text.get(at + tail.len()..)).unwrap_or(text)
}

/// A text without control characters on one line, and not too long.
pub(super) fn one_line(text: &str) -> String {
    let line: String =
        clean(text).chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).take(MAX_LINE).collect();
    if text.chars().nth(MAX_LINE).is_some() { format!("{line}…") } else { line }
}
