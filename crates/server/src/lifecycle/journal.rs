//! What the guests of running sandboxes noted. It comes from a sandbox: its size, its form and its times are doubted.

use cabana_types::SandboxId;
use cabana_types::guest::{JournalEntry, MAX_JOURNAL_ENTRIES, MAX_JOURNAL_MESSAGE};
use jiff::Timestamp;

use super::Lifecycle;

/// The whole journal: every byte of a message may be escaped.
const MAX_BYTES: usize = MAX_JOURNAL_ENTRIES * (6 * MAX_JOURNAL_MESSAGE + 128);
/// Of lines, from the least to the most important.
pub const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// Something that a guest noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// When, as the guest says; never before its sandbox was made nor after now.
    pub at: Timestamp,
    /// One of [`LEVELS`].
    pub level: &'static str,
    /// What, without control characters.
    pub message: String,
    /// The process inside that it is about.
    pub pid: Option<u32>,
}

impl Lifecycle {
    /// What the guest of a sandbox noted of late, oldest first. Nothing where the sandbox is not up, or its guest does not answer.
    pub async fn noted(&self, id: &SandboxId, since: Timestamp) -> Vec<Noted> {
        let Some(route) = self.directory.get(id) else { return vec![] };
        match route.link.journal(MAX_BYTES).await {
            Ok(bytes) => read(&bytes, since, Timestamp::now()),
            Err(error) => {
                tracing::debug!(sandbox = %id, %error, "a guest's journal could not be read");
                vec![]
            }
        }
    }
}

/// What is sound in a guest's answer.
fn read(bytes: &[u8], since: Timestamp, now: Timestamp) -> Vec<Noted> {
    let entries: Vec<JournalEntry> = serde_json::from_slice(bytes).unwrap_or_default();
    let mut noted: Vec<Noted> = entries
        .into_iter()
        .take(MAX_JOURNAL_ENTRIES)
        .filter_map(|entry| {
            let level = LEVELS.into_iter().find(|level| *level == entry.level)?;
            let at = Timestamp::from_microsecond(entry.at).ok()?.min(now).max(since);
            let plain = entry.message.chars().filter(|c| !c.is_control());
            Some(Noted { at, level, message: plain.take(MAX_JOURNAL_MESSAGE).collect(), pid: entry.pid })
        })
        .collect();
    noted.sort_by_key(|entry| entry.at);
    noted
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
    fn a_lying_guest_is_cut_to_size() {
        let text = json!([
            {"at": i64::MAX, "level": "info", "message": "never"},
            {"at": 300_000_000, "level": "info", "message": "later\u{1b}[31m than now\n"},
            {"at": -5, "level": "warn", "message": "x".repeat(10_000), "pid": 7, "more": [1]},
            {"at": 150_000_000, "level": "shout", "message": "no such level"},
        ])
        .to_string();
        let noted = read(text.as_bytes(), second(100), second(200));
        let whole = Noted { at: second(200), level: "info", message: "later[31m than now".into(), pid: None };
        let cut = Noted { at: second(100), level: "warn", message: "x".repeat(MAX_JOURNAL_MESSAGE), pid: Some(7) };
        assert_eq!(noted, [cut, whole]);
        let many: Vec<_> = (0..2000).map(|n| json!({"at": n, "level": "info", "message": ""})).collect();
        let many = serde_json::to_vec(&many).expect("JSON");
        assert_eq!(read(&many, second(0), second(9)).len(), MAX_JOURNAL_ENTRIES);
        for nonsense in ["", "null", "{}", "[1]", "[[[[", r#"[{"at": 1}]"#] {
            assert_eq!(read(nonsense.as_bytes(), second(0), second(9)), []);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..300), at: i64, text in "\\PC{0,40}") {
            let _ = read(&bytes, second(5), second(9));
            let entry = json!([{"at": at, "level": "debug", "message": text}]).to_string();
            for entry in read(entry.as_bytes(), second(5), second(9)) {
                prop_assert!(entry.at >= second(5) && entry.at <= second(9));
            }
        }
    }
}
