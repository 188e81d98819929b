//! Diffs that are shown to models can be sent back as patches.

use cabana_agent::diff::diff;
use cabana_agent::patch::{Patch, apply};
use proptest::collection::vec;
use proptest::prelude::*;

fn content() -> impl Strategy<Value = String> {
    (vec("[ab}é]{0,3}", 0..40), any::<bool>()).prop_map(|(lines, newline)| {
        let content = lines.join("\n");
        if newline && !content.is_empty() { content + "\n" } else { content }
    })
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn a_diff_applied_gives_the_new_content(old in content(), new in content()) {
        let shown = diff(old.as_bytes(), new.as_bytes(), "x");
        if old == new {
            prop_assert_eq!(shown.text, "");
            return Ok(());
        }
        prop_assert!(!shown.truncated);
        let patch = Patch::parse(&shown.text).map_err(|error| TestCaseError::fail(format!("{error}\n{}", shown.text)))?;
        prop_assert_eq!(apply(&patch.changes[0], Some(old.as_bytes())), Ok(new.into_bytes()), "{}", shown.text);
        prop_assert_eq!((patch.changes[0].added(), patch.changes[0].removed()), (shown.added, shown.removed));
    }
}
