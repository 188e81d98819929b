//! Recent output of a command: a bounded queue of chunks that readers walk with cursors, and one memory budget for all
//! queues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Capacity of one command.
const CAPACITY: usize = 1 << 20;
/// Capacity of one command when memory is short.
const CAPACITY_SHORT: usize = 64 << 10;
/// Total over all commands above which memory is short.
const BUDGET: usize = 24 << 20;
/// Overhead per chunk, so that a flood of single bytes is bounded too.
const OVERHEAD: usize = 128;
/// Size up to which chunks are joined.
const JOINED: usize = 2 << 10;

/// Source of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Stdout,
    Stderr,
    Pty,
}

#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) channel: Channel,
    pub(crate) data: Bytes,
}

/// Memory used by all rings.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    /// Whether rings should shrink.
    pub(crate) fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) > BUDGET
    }
}

/// The queue. A cursor is the number of bytes before the next one to read, over the whole life of the command.
#[derive(Debug)]
pub(crate) struct Ring {
    chunks: VecDeque<Kept>,
    /// Bytes that were ever pushed, and dropped.
    written: u64,
    dropped: u64,
    /// What the chunks in the queue cost.
    kept: usize,
    /// What all chunks ever cost.
    spent: u64,
    budget: Arc<Budget>,
}

/// A chunk in the queue.
#[derive(Debug)]
struct Kept {
    chunk: Chunk,
    /// Cursor of its first byte.
    begin: u64,
    /// What all chunks before it cost.
    spent: u64,
}

impl Ring {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { chunks: VecDeque::new(), written: 0, dropped: 0, kept: 0, spent: 0, budget }
    }

    /// Appends output and drops the oldest chunks that no longer fit, except those with bytes at or after `needed`.
    pub(crate) fn push(&mut self, chunk: Chunk, needed: Option<u64>) {
        let length = chunk.data.len();
        if length == 0 {
            return;
        }
        let cost = if self.join(&chunk) {
            length
        } else {
            self.chunks.push_back(Kept { chunk, begin: self.written, spent: self.spent });
            length + OVERHEAD
        };
        self.written += length as u64;
        self.spent += cost as u64;
        self.kept += cost;
        self.budget.0.fetch_add(cost, Ordering::Relaxed);
        while self.kept > self.capacity() && self.chunks.len() > 1 && needed.is_none_or(|n| self.first_end() <= n) {
            self.drop_oldest();
        }
    }

    /// Adds little output to the last chunk, if that is little too: programs that print lines or single characters would
    /// otherwise fill the queue with overhead.
    fn join(&mut self, chunk: &Chunk) -> bool {
        match self.chunks.back_mut() {
            Some(Kept { chunk: last, .. })
                if last.channel == chunk.channel && last.data.len() + chunk.data.len() <= JOINED =>
            {
                last.data = [&last.data[..], &chunk.data[..]].concat().into();
                true
            }
            _ => false,
        }
    }

    /// Cursor of a new reader, and how many bytes it has missed.
    pub(crate) fn begin(&self) -> (u64, u64) {
        (self.dropped, self.dropped)
    }

    /// The output at the cursor, or the oldest if that was dropped; and the next cursor.
    pub(crate) fn read(&self, cursor: u64) -> Option<(Chunk, u64)> {
        let cursor = cursor.max(self.dropped);
        let Kept { chunk, begin, .. } = self.at(cursor)?;
        let skipped = usize::try_from(cursor - begin).ok()?;
        let data = chunk.data.slice(skipped.min(chunk.data.len())..);
        let next = cursor + data.len() as u64;
        Some((Chunk { channel: chunk.channel, data }, next))
    }

    /// At most `max` bytes from a cursor on, or the newest without one, and the cursor of the first of them.
    pub(crate) fn copy(&self, after: Option<u64>, max: usize) -> (u64, Vec<u8>) {
        let newest = || self.written.saturating_sub(max as u64);
        let begin = after.unwrap_or_else(newest).clamp(self.dropped, self.written);
        let (mut data, mut cursor) = (Vec::new(), begin);
        while data.len() < max
            && let Some((chunk, next)) = self.read(cursor)
        {
            data.extend_from_slice(&chunk.data[..chunk.data.len().min(max - data.len())]);
            cursor = next;
        }
        (begin, data)
    }

    /// What the unread output of a reader at this cursor costs.
    pub(crate) fn unread(&self, cursor: u64) -> usize {
        let cost = |kept: &Kept| usize::try_from(self.spent - kept.spent).unwrap_or(usize::MAX);
        self.at(cursor.max(self.dropped)).map_or(0, cost)
    }

    /// How many bytes may be unread before the pump stops reading.
    pub(crate) fn window(&self) -> usize {
        self.capacity() / 4
    }

    /// The chunk with the byte at the cursor.
    fn at(&self, cursor: u64) -> Option<&Kept> {
        if cursor >= self.written {
            return None;
        }
        let after = self.chunks.partition_point(|kept| kept.begin <= cursor);
        self.chunks.get(after.checked_sub(1)?)
    }

    /// Cursor after the first chunk.
    fn first_end(&self) -> u64 {
        self.chunks.get(1).map_or(self.written, |second| second.begin)
    }

    fn capacity(&self) -> usize {
        if self.budget.is_short() { CAPACITY_SHORT } else { CAPACITY }
    }

    fn drop_oldest(&mut self) {
        if let Some(Kept { chunk, .. }) = self.chunks.pop_front() {
            let cost = cost(&chunk);
            self.kept -= cost;
            self.dropped += chunk.data.len() as u64;
            self.budget.0.fetch_sub(cost, Ordering::Relaxed);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.kept, Ordering::Relaxed);
    }
}

fn cost(chunk: &Chunk) -> usize {
    chunk.data.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn copies() {
        let mut ring = Ring::new(Arc::default());
        assert_eq!(ring.copy(None, 9), (0, vec![]));
        for (channel, text) in [(Channel::Stdout, "abc"), (Channel::Stderr, "def"), (Channel::Stdout, "ghi")] {
            ring.push(Chunk { channel, data: Bytes::from_static(text.as_bytes()) }, None);
        }
        let copy = |after, max| {
            let (begin, data) = ring.copy(after, max);
            (begin, String::from_utf8(data).unwrap())
        };
        assert_eq!(copy(None, 100), (0, "abcdefghi".to_owned()));
        assert_eq!(copy(None, 4), (5, "fghi".to_owned()));
        assert_eq!(copy(Some(2), 5), (2, "cdefg".to_owned()));
        assert_eq!(copy(Some(9), 5), (9, String::new()));
        assert_eq!(copy(Some(u64::MAX), 5), (9, String::new()));
        assert_eq!(copy(Some(2), 0), (2, String::new()));
        for _ in 0..20 {
            ring.push(chunk(100_000), None);
        }
        let (begin, data) = ring.copy(Some(0), usize::MAX);
        assert!(begin > 900_000 && begin + data.len() as u64 == 2_000_009, "{begin}");
    }

    fn chunk(len: usize) -> Chunk {
        Chunk { channel: Channel::Stdout, data: Bytes::from(vec![b'x'; len]) }
    }

    proptest! {
        /// Readers that begin at any time and read now and then see the output from there on, byte by byte.
        #[test]
        fn bounded_ordered_and_accounted(
            pushes in prop::collection::vec((prop_oneof![1usize..40, 1usize..3000, 1usize..200_000], any::<bool>(), 0usize..4), 1..80),
            joins in 0usize..40,
        ) {
            let budget = Arc::new(Budget::default());
            let mut ring = Ring::new(Arc::clone(&budget));
            let pattern: Bytes = (0..=250u8).cycle().take(201_000).collect();
            let bytes = |position: u64, size: usize| pattern.slice(usize::try_from(position % 251).unwrap()..).slice(..size);
            let (mut position, mut cursor) = (0u64, None);
            let check = |cursor: &mut Option<u64>, ring: &Ring, most: usize| {
                let Some(at) = cursor else { return Ok(()) };
                for _ in 0..most {
                    let unread = ring.unread(*at);
                    let Some((chunk, next)) = ring.read(*at) else {
                        prop_assert_eq!(unread, 0);
                        break;
                    };
                    let begin = next - chunk.data.len() as u64;
                    prop_assert!(begin == (*at).max(ring.dropped) && unread >= chunk.data.len());
                    prop_assert!(chunk.data == bytes(begin, chunk.data.len()));
                    *at = next;
                }
                Ok(())
            };
            for (number, (size, stderr, reads)) in pushes.into_iter().enumerate() {
                if number == joins {
                    cursor = Some(ring.begin().0);
                }
                let channel = if stderr { Channel::Stderr } else { Channel::Stdout };
                let data = bytes(position, size);
                position += size as u64;
                ring.push(Chunk { channel, data }, None);
                prop_assert!(ring.kept <= CAPACITY || ring.chunks.len() == 1);
                prop_assert_eq!(ring.kept, budget.0.load(Ordering::Relaxed));
                prop_assert_eq!(ring.kept, ring.chunks.iter().map(|kept| cost(&kept.chunk)).sum::<usize>());
                check(&mut cursor, &ring, reads)?;
            }
            check(&mut cursor, &ring, usize::MAX)?;
            if let Some(cursor) = cursor {
                prop_assert_eq!((cursor, ring.unread(cursor)), (position, 0));
            }
            drop(ring);
            prop_assert_eq!(budget.0.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn unread_chunks_are_kept() {
        let mut ring = Ring::new(Arc::default());
        for _ in 0..100 {
            ring.push(chunk(32 << 10), Some(1));
        }
        assert_eq!(ring.begin(), (0, 0), "one byte of the first is read");
        ring.push(chunk(1), None);
        assert!(ring.kept <= CAPACITY);
    }

    #[test]
    fn little_output_is_joined() {
        let mut ring = Ring::new(Arc::default());
        for _ in 0..CAPACITY / 2 {
            ring.push(chunk(1), None);
        }
        assert_eq!(ring.begin(), (0, 0), "single bytes do not cost more than they hold");
        let (mut cursor, mut seen) = (0, 0);
        while let Some((chunk, next)) = ring.read(cursor) {
            (cursor, seen) = (next, seen + chunk.data.len());
        }
        assert_eq!(seen, CAPACITY / 2);
        // A reader that has read a part of the last chunk gets the rest.
        let mut ring = Ring::new(Arc::default());
        ring.push(chunk(3), None);
        let (_, cursor) = ring.read(0).unwrap();
        ring.push(chunk(4), None);
        assert_eq!(ring.read(cursor).map(|(chunk, next)| (chunk.data.len(), next)), Some((4, 7)));
    }

    #[test]
    fn dropped_bytes_are_counted() {
        let mut ring = Ring::new(Arc::default());
        assert_eq!(ring.begin(), (0, 0));
        for _ in 0..100 {
            ring.push(chunk(32 << 10), None);
        }
        let (first, missed) = ring.begin();
        assert!(first > 0);
        assert_eq!(missed, first);
        let mut cursor = first;
        let mut seen = 0;
        while let Some((chunk, next)) = ring.read(cursor) {
            seen += chunk.data.len() as u64;
            cursor = next;
        }
        assert_eq!(missed + seen, 100 * (32 << 10));
    }
}
