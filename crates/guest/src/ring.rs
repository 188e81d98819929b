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

/// The queue. Chunks are numbered from 0; a cursor is the number of the next chunk to read.
#[derive(Debug)]
pub(crate) struct Ring {
    chunks: VecDeque<(Chunk, u64)>,
    first: u64,
    written: u64,
    kept: usize,
    /// Dropped bytes.
    dropped: u64,
    budget: Arc<Budget>,
}

impl Ring {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { chunks: VecDeque::new(), first: 0, written: 0, kept: 0, dropped: 0, budget }
    }

    /// Appends a chunk and drops the oldest ones that no longer fit, except those at or after `needed`.
    pub(crate) fn push(&mut self, chunk: Chunk, needed: Option<u64>) {
        let cost = cost(&chunk);
        self.chunks.push_back((chunk, self.written));
        self.written += cost as u64;
        self.kept += cost;
        self.budget.0.fetch_add(cost, Ordering::Relaxed);
        while self.kept > self.capacity() && needed.is_none_or(|n| self.first < n) && self.chunks.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Cursor of a new reader, and how many bytes it has missed.
    pub(crate) fn begin(&self) -> (u64, u64) {
        (self.first, self.dropped)
    }

    /// The chunk at the cursor, or the oldest one if that was dropped; and the next cursor.
    pub(crate) fn read(&self, cursor: u64) -> Option<(Chunk, u64)> {
        let cursor = cursor.max(self.first);
        let index = usize::try_from(cursor - self.first).ok()?;
        self.chunks.get(index).map(|(chunk, _)| (chunk.clone(), cursor + 1))
    }

    /// Unread bytes for a reader at this cursor.
    pub(crate) fn unread(&self, cursor: u64) -> usize {
        let index = usize::try_from(cursor.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.chunks.get(index).map_or(0, |(_, at)| usize::try_from(self.written - at).unwrap_or(usize::MAX))
    }

    /// How many bytes may be unread before the pump stops reading.
    pub(crate) fn window(&self) -> usize {
        self.capacity() / 4
    }

    fn capacity(&self) -> usize {
        if self.budget.is_short() { CAPACITY_SHORT } else { CAPACITY }
    }

    fn drop_oldest(&mut self) {
        if let Some((chunk, _)) = self.chunks.pop_front() {
            let cost = cost(&chunk);
            self.first += 1;
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

    fn chunk(len: usize) -> Chunk {
        Chunk { channel: Channel::Stdout, data: Bytes::from(vec![b'x'; len]) }
    }

    proptest! {
        #[test]
        fn bounded_ordered_and_accounted(sizes in prop::collection::vec(0usize..200_000, 1..60), reader in 0u64..60) {
            let budget = Arc::new(Budget::default());
            let mut ring = Ring::new(Arc::clone(&budget));
            for (number, size) in sizes.iter().enumerate() {
                ring.push(chunk(*size), None);
                prop_assert!(ring.kept <= CAPACITY || ring.chunks.len() == 1);
                prop_assert_eq!(ring.kept, budget.0.load(Ordering::Relaxed));
                prop_assert_eq!(ring.unread(number as u64 + 1), 0);
            }
            let mut cursor = reader;
            let mut unread = ring.unread(cursor);
            while let Some((chunk, next)) = ring.read(cursor) {
                prop_assert_eq!(chunk.data.len(), sizes[usize::try_from(next - 1).unwrap()]);
                prop_assert_eq!(ring.unread(next), unread - cost(&chunk));
                unread = ring.unread(next);
                cursor = next;
            }
            prop_assert_eq!(cursor.max(reader), (sizes.len() as u64).max(reader));
            drop(ring);
            prop_assert_eq!(budget.0.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn unread_chunks_are_kept() {
        let mut ring = Ring::new(Arc::default());
        for _ in 0..100 {
            ring.push(chunk(32 << 10), Some(0));
        }
        assert_eq!(ring.first, 0);
        ring.push(chunk(1), None);
        assert!(ring.kept <= CAPACITY);
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
        assert_eq!(missed, first * (32 << 10));
        let mut cursor = first;
        let mut seen = 0;
        while let Some((chunk, next)) = ring.read(cursor) {
            seen += chunk.data.len() as u64;
            cursor = next;
        }
        assert_eq!(missed + seen, 100 * (32 << 10));
    }
}
