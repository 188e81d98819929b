//! Texts that look like keys, so that whoever shares a chat is warned. A key of a form that is not known here is not found.

use cabana_types::wire::{ExposedIn, KeyLike};

/// Findings of a report.
const MAX_FOUND: usize = 20;
/// Characters of a finding that are repeated.
const SHOWN: usize = 8;
/// Beginnings of keys, and how many characters follow at least.
const BEGINNINGS: [(&str, usize); 16] = [
    ("sk-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("e2b_", 40),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("hf_", 30),
    ("eyJ", 60),
];
/// How a private key in PEM begins.
const PEM: &str = "PRIVATE KEY-----";
/// Characters from which on a word that mixes cases and digits is taken for a key.
const LONG: usize = 36;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) found: Vec<KeyLike>,
}

impl Keys {
    /// Looks for keys in a text.
    pub(super) fn look(&mut self, text: &str, place: ExposedIn) {
        if text.contains(PEM) {
            self.add("-----BEGIN PRIVATE KEY-----", place);
        }
        let in_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        for word in text.split(|c| !in_key(c)).filter(|word| is_key(word)) {
            self.add(word, place);
        }
    }

    fn add(&mut self, key: &str, place: ExposedIn) {
        let text = format!("{}…", key.chars().take(SHOWN).collect::<String>());
        let found = KeyLike { text, place };
        if self.found.len() < MAX_FOUND && !self.found.contains(&found) {
            self.found.push(found);
        }
    }
}

fn is_key(word: &str) -> bool {
    let known =
        BEGINNINGS.iter().any(|(begin, least)| word.strip_prefix(begin).is_some_and(|rest| rest.len() >= *least));
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    known || (word.len() >= LONG && mixed && !word.contains(['.', '-', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut keys = Keys::default();
        keys.look(text, ExposedIn::Message);
        keys.found.into_iter().map(|key| key.text).collect()
    }

    #[test]
    fn keys_are_found_and_not_repeated() {
        let key = format!("e2b_{}", "0a".repeat(20));
        assert_eq!(found(&format!("export KEY='{key}'; again {key}")), ["e2b_0a0a…"]);
        assert_eq!(found(&format!("Authorization: Bearer sk-{}", "aB3".repeat(10))), ["sk-aB3aB…"]);
        assert_eq!(found("-----BEGIN RSA PRIVATE KEY-----\nMIIE"), ["-----BEG…"]);
        assert_eq!(found(&"aB3d".repeat(10)), ["aB3daB3d…"]);
        let many: String = (0..50).map(|n| format!("AKIA{n:04}ABCDEFGHIJKL ")).collect();
        assert_eq!(found(&many).len(), MAX_FOUND);
    }

    #[test]
    fn ordinary_text_is_not() {
        let hash = "0123456789abcdef".repeat(4);
        for text in [
            "sk-learn",
            "a sentence with words",
            &hash,
            "https://example.test/a-long-Path-2-something-else-entirely-x",
            "e2b_short",
            "",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
