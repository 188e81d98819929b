//! Journals of the guests of running sandboxes. They come from inside a sandbox, so their size, form and times are not trusted.

use std::sync::Arc;
use std::time::Duration;

use cabana_guest_link::GuestLink;
use cabana_types::guest::{JournalEntry, MAX_JOURNAL_ENTRIES, MAX_JOURNAL_MESSAGE};
use jiff::Timestamp;

use cabana_edge::Route;

/// Limit of a whole journal: every byte of a message may be escaped.
const MAX_BYTES: usize = MAX_JOURNAL_ENTRIES * (6 * MAX_JOURNAL_MESSAGE + 128);
/// Last lines that are kept of a sandbox that is gone.
pub(super) const MAX_LAST: usize = 20;
/// How long a guest may take to send them.
const LAST_TIME: Duration = Duration::from_millis(300);
/// Levels of lines, from the least to the most important.
pub const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// One line of a guest's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLine {
    /// Time according to the guest, limited to the time from its sandbox's creation to now.
    pub at: Timestamp,
    /// One of [`LEVELS`].
    pub level: &'static str,
    /// Message without control characters.
    pub message: String,
    /// The process inside the sandbox that it is about.
    pub pid: Option<u32>,
}

/// The journal of a running sandbox's guest, oldest first. Empty if the sandbox does not run or its guest does not answer.
pub(super) async fn read(route: Option<Arc<Route>>, since: Timestamp) -> Vec<JournalLine> {
    let Some(route) = route else { return vec![] };
    match route.link.journal(MAX_BYTES).await {
        Ok(bytes) => parse(&bytes, since, Timestamp::now()),
        Err(error) => {
            tracing::debug!(sandbox = %route.id, %error, "could not read the journal of the guest");
            vec![]
        }
    }
}

/// The last lines of a guest's journal as text, for those who ask why the sandbox is gone. `None` if the guest does not answer soon.
pub(super) async fn last_lines(link: &GuestLink, since: Timestamp) -> Option<Vec<String>> {
    let bytes = link.last_of_journal(MAX_LAST, LAST_TIME, MAX_BYTES).await.ok()?;
    let mut lines = parse(&bytes, since, Timestamp::now());
    let first = lines.len().saturating_sub(MAX_LAST);
    Some(lines.drain(first..).map(|line| line_at(line.at, &line.message)).collect())
}

/// A line with its time, to the second.
pub(super) fn line_at(at: Timestamp, message: &str) -> String {
    let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
    format!("{at} {message}")
}

/// The valid lines of a guest's answer.
fn parse(bytes: &[u8], since: Timestamp, now: Timestamp) -> Vec<JournalLine> {
    let entries: Vec<JournalEntry> = serde_json::from_slice(bytes).unwrap_or_default();
    let mut lines: Vec<JournalLine> = entries
        .into_iter()
        .take(MAX_JOURNAL_ENTRIES)
        .filter_map(|entry| {
            let level = LEVELS.into_iter().find(|level| *level == entry.level)?;
            let at = Timestamp::from_microsecond(entry.at).ok()?.min(now).max(since);
            let plain = entry.message.chars().filter(|c| !c.is_control());
            Some(JournalLine { at, level, message: plain.take(MAX_JOURNAL_MESSAGE).collect(), pid: entry.pid })
        })
        .collect();
    lines.sort_by_key(|entry| entry.at);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("time")
    }

    #[test]
    fn a_hostile_journal_is_limited() {
        let text = json!([
            {"at": i64::MAX, "level": "info", "message": "never"},
            {"at": 300_000_000, "level": "info", "message": "later\u{1b}[31m than now\n"},
            {"at": -5, "level": "warn", "message": "x".repeat(10_000), "pid": 7, "more": [1]},
            {"at": 150_000_000, "level": "shout", "message": "no such level"},
        ])
        .to_string();
        let lines = parse(text.as_bytes(), second(100), second(200));
        let whole = JournalLine { at: second(200), level: "info", message: "later[31m than now".into(), pid: None };
        let cut =
            JournalLine { at: second(100), level: "warn", message: "x".repeat(MAX_JOURNAL_MESSAGE), pid: Some(7) };
        assert_eq!(lines, [cut, whole]);
        let many: Vec<_> = (0..2000).map(|n| json!({"at": n, "level": "info", "message": ""})).collect();
        let many = serde_json::to_vec(&many).expect("JSON");
        assert_eq!(parse(&many, second(0), second(9)).len(), MAX_JOURNAL_ENTRIES);
        for nonsense in ["", "null", "{}", "[1]", "[[[[", r#"[{"at": 1}]"#] {
            assert_eq!(parse(nonsense.as_bytes(), second(0), second(9)), []);
        }
    }

    proptest! {
        #[test]
        fn every_answer_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..300), at: i64, text in "\\PC{0,40}") {
            let _ = parse(&bytes, second(5), second(9));
            let entry = json!([{"at": at, "level": "debug", "message": text}]).to_string();
            for entry in parse(entry.as_bytes(), second(5), second(9)) {
                prop_assert!(entry.at >= second(5) && entry.at <= second(9));
            }
        }
    }
}
