//! What a text must not tell those who read a shared chat: ids, and addresses of sandboxes and services.

use cabana_types::service::is_grant_label;

/// Beginnings of ids that 20 characters follow.
const PREFIXES: [&str; 10] = ["chat_", "turn_", "msg_", "call_", "svc_", "grt_", "att_", "usr_", "ses_", "agent_"];
const ID: &str = "[id]";
const LINK: &str = "[address of a sandbox]";

/// What is known to be private.
#[derive(Debug, Clone, Default)]
pub(super) struct Scrub {
    /// The domain of sandboxes, with its port.
    pub(super) domain: Option<String>,
    /// Ids of the chat's sandboxes.
    pub(super) sandboxes: Vec<String>,
}

impl Scrub {
    /// The text without them.
    pub(super) fn text(&self, text: &str) -> String {
        let mut kept = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let ends = |c: char| c.is_whitespace() || "<>\"'`()[]{}|\\,;".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            self.word(&rest[..end], &mut kept);
            let after = rest[end..].chars().next().map_or(0, char::len_utf8);
            kept.push_str(&rest[end..end + after]);
            rest = &rest[end + after..];
        }
        kept
    }

    fn word(&self, word: &str, kept: &mut String) {
        let lower = word.to_ascii_lowercase();
        let is_below = self.domain.as_ref().is_some_and(|domain| {
            let name = domain.split(':').next().unwrap_or(domain);
            lower.contains(&format!(".{name}")) || lower.contains(&format!("//{name}"))
        });
        let is_address = lower.contains("://") || lower.contains('.');
        let mut scrubbed = String::new();
        let mut found = false;
        // Runs of letters, digits and `_` between everything else.
        let mut rest = word;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let run = &rest[..end];
            if self.is_id(run) {
                found = true;
                scrubbed.push_str(ID);
            } else {
                scrubbed.push_str(run);
            }
            let after = rest[end..].chars().next().map_or(0, char::len_utf8);
            scrubbed.push_str(&rest[end..end + after]);
            rest = &rest[end + after..];
        }
        if is_below || (found && is_address) {
            kept.push_str(LINK);
        } else {
            kept.push_str(&scrubbed);
        }
    }

    fn is_id(&self, run: &str) -> bool {
        let run = run.to_ascii_lowercase();
        let spelled =
            |rest: &str| rest.len() == 20 && rest.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
        // Of 20 random characters, one is a digit, but for one in 700; of a word, none.
        let is_sandbox =
            run.strip_prefix('i').is_some_and(|rest| spelled(rest) && rest.bytes().any(|b| b.is_ascii_digit()));
        is_sandbox
            || is_grant_label(&run)
            || self.sandboxes.contains(&run)
            || PREFIXES.iter().any(|prefix| run.strip_prefix(prefix).is_some_and(spelled))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SANDBOX: &str = "iab12cd34ef56gh78ij90";

    fn scrub() -> Scrub {
        Scrub { domain: Some("localhost:3000".into()), sandboxes: vec!["iabcdefghijklmnopqrst".into()] }
    }

    #[test]
    fn ids_and_addresses_are_left_out() {
        let label = format!("p{}", "a2".repeat(13));
        for (text, expected) in [
            (format!("see http://8080-{SANDBOX}.localhost:3000/a?b=1."), "see [address of a sandbox]".to_owned()),
            (format!("(http://{label}.localhost:3000/)"), "([address of a sandbox])".to_owned()),
            (format!("8080-{SANDBOX}.example.test"), LINK.to_owned()),
            (format!("sandbox {SANDBOX}, and /x/{SANDBOX}/y"), "sandbox [id], and /x/[id]/y".to_owned()),
            ("my-app.localhost:3000".to_owned(), LINK.to_owned()),
            ("iabcdefghijklmnopqrst".to_owned(), ID.to_owned()),
            ("svc_0123456789abcdefghij usr_0123456789abcdefghij".to_owned(), "[id] [id]".to_owned()),
            (
                "internationalizations https://example.test/a".to_owned(),
                "internationalizations https://example.test/a".to_owned(),
            ),
            ("ä\n\t`x`".to_owned(), "ä\n\t`x`".to_owned()),
        ] {
            assert_eq!(scrub().text(&text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_id_gets_through(before in "[^a-zA-Z0-9_]{0,8}", after in "[^a-zA-Z0-9_]{0,8}") {
            let text = format!("{before}{SANDBOX}{after}");
            prop_assert!(!scrub().text(&text).contains(SANDBOX), "{text}");
        }

        #[test]
        fn other_texts_stay(text in "[ -~äöü\n]{0,60}") {
            prop_assume!(!text.contains("localhost"));
            let kept = scrub().text(&text);
            prop_assert_eq!(kept, text);
        }
    }
}
