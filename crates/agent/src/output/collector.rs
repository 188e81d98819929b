//! Output of a command as it arrives: of any length, in bounded memory.

use super::cut::{Gap, cut_parts};
use super::{Cut, cut, fold};

/// Keeps the beginning and the end of a stream of bytes, and counts the rest.
#[derive(Debug, Clone)]
pub struct Tail {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring once it is full: the oldest byte is at `oldest`.
    ring: Vec<u8>,
    ring_limit: usize,
    oldest: usize,
    bytes: u64,
    newlines: u64,
}

impl Tail {
    /// Keeps at most `head` bytes of the beginning and `tail` bytes of the end.
    pub fn new(head: usize, tail: usize) -> Self {
        let (ring_limit, head_limit) = (tail.max(1), head);
        Self { head: Vec::new(), head_limit, ring: Vec::new(), ring_limit, oldest: 0, bytes: 0, newlines: 0 }
    }

    /// Keeps enough for a text of `limit` bytes, also if much of the output is terminal codes and repetitions.
    pub fn for_limit(limit: usize) -> Self {
        Self::new(limit.saturating_mul(2), limit.saturating_mul(8))
    }

    /// Takes the next bytes. They may end within a character or an escape sequence.
    pub fn push(&mut self, data: &[u8]) {
        self.bytes += data.len() as u64;
        self.newlines += newlines(data);
        let (first, data) = data.split_at(data.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(first);
        let data = &data[data.len().saturating_sub(self.ring_limit)..];
        let (grows, mut over) = data.split_at(data.len().min(self.ring_limit - self.ring.len()));
        self.ring.extend_from_slice(grows);
        while !over.is_empty() {
            let (now, later) = over.split_at(over.len().min(self.ring_limit - self.oldest));
            self.ring[self.oldest..self.oldest + now.len()].copy_from_slice(now);
            self.oldest = (self.oldest + now.len()) % self.ring_limit;
            over = later;
        }
    }

    /// All bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The text for a model so far: folded, and cut to `limit` bytes and a line that says what is missing.
    pub fn finish(&self, limit: usize, full_output: Option<&str>) -> Cut {
        let mut rest = self.ring[self.oldest..].to_vec();
        rest.extend_from_slice(&self.ring[..self.oldest]);
        let dropped = self.bytes - (self.head.len() + rest.len()) as u64;
        if dropped == 0 {
            let all = [self.head.as_slice(), &rest].concat();
            return cut(&fold(&String::from_utf8_lossy(&all)), limit, full_output);
        }
        let head = whole_characters(&self.head);
        let (rest, ends_line) = from_line(&rest);
        let gap = Gap {
            newlines: self.newlines - newlines(head) - newlines(rest),
            bytes: self.bytes - (head.len() + rest.len()) as u64,
            ends_line,
        };
        let text = |data: &[u8]| fold(&String::from_utf8_lossy(data));
        cut_parts(&text(head), gap, &text(rest), limit, full_output)
    }
}

fn newlines(data: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', data).count() as u64
}

/// Without a character at the end that is incomplete.
fn whole_characters(data: &[u8]) -> &[u8] {
    let last = data.iter().rposition(|byte| byte & 0xc0 != 0x80).filter(|at| data.len() - at < 4);
    match last.map(|at| (at, str::from_utf8(&data[at..]))) {
        Some((at, Err(error))) if error.error_len().is_none() => &data[..at],
        _ => data,
    }
}

/// From the beginning of a line, or of the next state of a progress bar, or at least of a character; and whether it is a line.
fn from_line(data: &[u8]) -> (&[u8], bool) {
    let half = &data[..data.len() / 2];
    if let Some(end) = memchr::memchr(b'\n', half) {
        return (&data[end + 1..], true);
    }
    let continued = |byte: &&u8| **byte & 0xc0 == 0x80;
    let within_character = || data.iter().take(3).take_while(continued).count();
    let from = memchr::memchr(b'\r', half).map_or_else(within_character, |end| end + 1);
    (&data[from..], false)
}
