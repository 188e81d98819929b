//! Recent log entries of the daemon, for the sandbox's log. Read by the host; bounded and in memory only.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use cabana_types::guest::{JournalEntry, MAX_JOURNAL_ENTRIES, MAX_JOURNAL_MESSAGE};

use crate::guest::lock;

/// The newest entries, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<VecDeque<JournalEntry>>);

impl Journal {
    /// Logs a routine event.
    pub(crate) fn info(&self, pid: Option<u32>, message: String) {
        self.note("info", pid, message);
    }

    /// Logs a problem.
    pub(crate) fn warn(&self, pid: Option<u32>, message: String) {
        self.note("warn", pid, message);
    }

    /// The last entries, at most so many.
    pub(crate) fn last(&self, most: usize) -> Vec<JournalEntry> {
        let entries = lock(&self.0);
        entries.iter().skip(entries.len().saturating_sub(most)).cloned().collect()
    }

    fn note(&self, level: &str, pid: Option<u32>, mut message: String) {
        shorten(&mut message, MAX_JOURNAL_MESSAGE);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let mut entries = lock(&self.0);
        if entries.len() >= MAX_JOURNAL_ENTRIES {
            entries.pop_front();
        }
        entries.push_back(JournalEntry { at, level: level.to_owned(), message, pid });
    }
}

/// Truncates a text to `most` bytes at a character boundary, with an ellipsis.
pub(crate) fn shorten(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let mut end = most.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push('…');
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded() {
        let journal = Journal::default();
        for number in 0..2000u32 {
            journal.info(Some(number), "ž".repeat(300));
        }
        let entries = journal.last(usize::MAX);
        assert_eq!(entries.len(), MAX_JOURNAL_ENTRIES);
        assert_eq!(entries.last().unwrap().pid, Some(1999));
        assert!(entries.iter().all(|e| e.message.len() <= MAX_JOURNAL_MESSAGE && e.message.ends_with('…')));
        assert!(entries.is_sorted_by_key(|e| e.at));
        assert_eq!(journal.last(2).iter().map(|e| e.pid).collect::<Vec<_>>(), [Some(1998), Some(1999)]);
    }
}
