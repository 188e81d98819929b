//! The newest events of a chat in memory, with what is being written right now: whoever comes back after a lost connection gets exactly
//! what they missed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cabana_types::chat::Part;
use cabana_types::wire::Message;
use cabana_types::{CallId, MessageId};

use super::event::Published;

/// Bytes of events that are kept for one chat.
const MAX_BYTES: usize = 4 << 20;
/// What an event costs beside its text.
const OVERHEAD: usize = 128;
/// Bytes of a running command's newest output.
pub(super) const MAX_OUTPUT: usize = 64 << 10;

/// The newest events, and what is not yet in the store.
#[derive(Debug, Default)]
pub(super) struct Ring {
    events: VecDeque<Arc<Published>>,
    bytes: usize,
    /// Every event with a higher number is here; `None` if there was none yet.
    start: Option<u64>,
    /// The number of the newest event.
    last: u64,
    /// The message that the model writes.
    streaming: Option<Message>,
    /// The newest output of calls that run.
    outputs: HashMap<CallId, String>,
}

impl Ring {
    /// Nothing came after this number before the first event that is pushed.
    pub(super) fn begin_after(&mut self, id: u64) {
        self.start.get_or_insert(id);
    }

    pub(super) fn push(&mut self, event: Arc<Published>) {
        self.start.get_or_insert_with(|| event.id.saturating_sub(1));
        self.last = event.id;
        self.bytes += event.json.len() + OVERHEAD;
        self.events.push_back(event);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.json.len() + OVERHEAD;
            self.start = Some(oldest.id);
        }
    }

    /// The number of the newest event; 0 if there was none since the chat was opened.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The events after a number; `None` if some of them are not here any more.
    pub(super) fn after(&self, id: u64) -> Option<Vec<Arc<Published>>> {
        (id >= self.start?).then(|| {
            let from = self.events.partition_point(|event| event.id <= id);
            self.events.range(from..).cloned().collect()
        })
    }

    /// A message begins.
    pub(super) fn begin(&mut self, message: Message) {
        self.streaming = Some(message);
    }

    /// The model wrote more of it.
    pub(super) fn grow(&mut self, id: &MessageId, piece: &Part) {
        let Some(message) = self.streaming.as_mut().filter(|message| message.id == *id) else { return };
        append(&mut message.content, piece);
    }

    /// The message is in the store as it is.
    pub(super) fn end(&mut self) {
        self.streaming = None;
    }

    pub(super) fn streaming(&self) -> Option<&Message> {
        self.streaming.as_ref()
    }

    /// A call printed something.
    pub(super) fn printed(&mut self, call: &CallId, text: &str) {
        let output = self.outputs.entry(call.clone()).or_default();
        output.push_str(text);
        if output.len() > MAX_OUTPUT {
            let mut from = output.len() - MAX_OUTPUT;
            while !output.is_char_boundary(from) {
                from += 1;
            }
            output.drain(..from);
        }
    }

    /// The result of a call is in the store.
    pub(super) fn printed_all(&mut self, call: &CallId) {
        self.outputs.remove(call);
    }

    /// The newest output of calls that run.
    pub(super) fn outputs(&self) -> &HashMap<CallId, String> {
        &self.outputs
    }
}

/// Adds a piece to a message: to its last part, if that is of the same kind.
pub(super) fn append(content: &mut Vec<Part>, piece: &Part) {
    match (content.last_mut(), piece) {
        (Some(Part::Text { text }), Part::Text { text: more })
        | (Some(Part::Reasoning { text }), Part::Reasoning { text: more }) => text.push_str(more),
        _ => content.push(piece.clone()),
    }
}

#[cfg(test)]
mod tests {
    use cabana_store::EventRow;
    use cabana_types::ChatId;
    use jiff::Timestamp;

    use super::*;

    fn event(id: u64, size: usize) -> Arc<Published> {
        let data = format!("{{\"x\":\"{}\"}}", "y".repeat(size));
        let row = EventRow { id, turn: None, kind: "x".into(), data, at: Timestamp::UNIX_EPOCH };
        Arc::new(Published::new(&ChatId::from_random([0; 20]), row))
    }

    #[test]
    fn what_was_missed_is_exact_or_unknown() {
        let mut ring = Ring::default();
        assert!(ring.after(0).is_none());
        for id in [10, 12, 15] {
            ring.push(event(id, 10));
        }
        let ids = |ring: &Ring, after| ring.after(after).map(|events| events.iter().map(|e| e.id).collect::<Vec<_>>());
        assert_eq!(ids(&ring, 9), Some(vec![10, 12, 15]));
        assert_eq!(ids(&ring, 12), Some(vec![15]));
        assert_eq!(ids(&ring, 99), Some(vec![]));
        assert_eq!(ids(&ring, 8), None, "others may have come before it was opened");
        for id in 20..30 {
            ring.push(event(id, 1 << 20));
        }
        assert_eq!(ids(&ring, 15), None);
        assert_eq!(ids(&ring, 28), Some(vec![29]));
        assert!(ring.bytes <= MAX_BYTES);
    }

    #[test]
    fn output_keeps_its_end() {
        let mut ring = Ring::default();
        let call = CallId::from_random([3; 20]);
        ring.printed(&call, &"ä".repeat(MAX_OUTPUT));
        ring.printed(&call, "end");
        let kept = &ring.outputs()[&call];
        assert!(kept.len() <= MAX_OUTPUT && kept.ends_with("end"));
        ring.printed_all(&call);
        assert!(ring.outputs().is_empty());
    }
}
