//! The last lines of a command's output, safe to display: bounded in number and length, without control characters.

use std::collections::VecDeque;

use cabana_types::guest::{MAX_READY_LINE, MAX_READY_LINES};

use crate::journal::shorten;
use crate::ring::{Channel, Chunk};

/// The last lines, and the incomplete ones.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Tail {
    /// Adds a chunk of output, and calls `on_line` for each line that it completes.
    pub(crate) fn add(&mut self, chunk: &Chunk, mut on_line: impl FnMut(Channel, &str)) {
        for piece in chunk.data.split_inclusive(|byte| *byte == b'\n') {
            let (text, complete) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let partial = self.partial(chunk.channel);
            // One extra byte shows that the line was truncated.
            let room = (MAX_READY_LINE + 1).saturating_sub(partial.len());
            partial.extend(text.iter().take(room));
            if complete {
                self.complete(chunk.channel, &mut on_line);
            }
        }
    }

    /// Ends the output: an incomplete line counts as a line.
    pub(crate) fn finish(&mut self, mut on_line: impl FnMut(Channel, &str)) {
        for channel in [Channel::Stdout, Channel::Stderr] {
            self.complete(channel, &mut on_line);
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let partial = [&self.stdout, &self.stderr].into_iter().filter_map(|bytes| printable(bytes));
        let mut lines: VecDeque<String> = self.lines.iter().cloned().chain(partial).collect();
        lines.drain(..lines.len().saturating_sub(MAX_READY_LINES));
        lines.into()
    }

    fn complete(&mut self, channel: Channel, on_line: &mut impl FnMut(Channel, &str)) {
        let bytes = std::mem::take(self.partial(channel));
        let Some(line) = printable(&bytes) else { return };
        on_line(channel, &line);
        self.lines.push_back(line);
        if self.lines.len() > MAX_READY_LINES {
            self.lines.pop_front();
        }
    }

    fn partial(&mut self, channel: Channel) -> &mut Vec<u8> {
        if channel == Channel::Stderr { &mut self.stderr } else { &mut self.stdout }
    }
}

/// A line as text; `None` if it is blank.
fn printable(bytes: &[u8]) -> Option<String> {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = String::from_utf8_lossy(bytes).trim_end().chars().map(plain).collect();
    shorten(&mut line, MAX_READY_LINE);
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn chunk(channel: Channel, text: &str) -> Chunk {
        Chunk { channel, data: Bytes::copy_from_slice(text.as_bytes()) }
    }

    #[test]
    fn lines_are_assembled_and_reported_once() {
        let mut tail = Tail::default();
        let mut reported = vec![];
        for piece in [
            chunk(Channel::Stdout, "one\r\ntw"),
            chunk(Channel::Stderr, "bad\n"),
            chunk(Channel::Stdout, "o\n\n\u{1b}[31mred\n"),
            chunk(Channel::Stdout, "three"),
        ] {
            tail.add(&piece, |channel, line| reported.push((channel, line.to_owned())));
        }
        let lines = ["one", "bad", "two", " [31mred", "three"];
        assert_eq!(tail.lines(), lines);
        assert_eq!(reported.len(), 4);
        assert_eq!(reported[1], (Channel::Stderr, "bad".to_owned()));
        tail.finish(|channel, line| reported.push((channel, line.to_owned())));
        assert_eq!(reported[4], (Channel::Stdout, "three".to_owned()));
        assert_eq!(tail.lines(), lines);
    }

    proptest! {
        #[test]
        fn any_output_is_bounded(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..3000)), 0..40),
        ) {
            let mut tail = Tail::default();
            for (stderr, data) in pieces {
                let channel = if stderr { Channel::Stderr } else { Channel::Stdout };
                tail.add(&Chunk { channel, data: data.into() }, |_, line| assert!(line.len() <= MAX_READY_LINE));
                prop_assert!(tail.stdout.len() <= MAX_READY_LINE + 1 && tail.stderr.len() <= MAX_READY_LINE + 1);
            }
            tail.finish(|_, _| {});
            let lines = tail.lines();
            prop_assert!(lines.len() <= MAX_READY_LINES);
            prop_assert!(lines.iter().all(|l| l.len() <= MAX_READY_LINE && !l.contains(char::is_control)));
        }
    }
}
