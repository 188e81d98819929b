//! How long a file and a line may be.

use std::collections::BTreeMap;

use super::Problems;
use crate::source::File;

/// Lines of a file, without a reason on record.
const LINES: usize = 400;
/// Characters of a line. Comments too, which the formatter leaves alone; not texts in tests, which are what they are.
const COLUMNS: usize = 140;

pub(super) fn check(files: &[File], reasons: &BTreeMap<String, String>, problems: &mut Problems) {
    for file in files.iter().filter(|file| file.is_written_rust()) {
        let lines = file.text.lines().count();
        match reasons.get(&file.path) {
            None if lines > LINES => problems.add(format!(
                "{}: {lines} lines, more than {LINES}. Split it by what changes together, or give the reason why it is one file in \
                 [long_files] in xtask/architecture.toml",
                file.path
            )),
            Some(_) if lines <= LINES => problems.add(format!(
                "xtask/architecture.toml: {} has no more than {LINES} lines any more. Remove it from [long_files]",
                file.path
            )),
            _ => {}
        }
        for (line, text) in file.text.lines().enumerate() {
            let columns = text.chars().count();
            if columns > COLUMNS && (!file.is_test() || text.trim_start().starts_with("//")) {
                problems.at(&file.path, line, &format!("{columns} columns, more than {COLUMNS}: wrap the line"));
            }
        }
    }
    for (path, reason) in reasons {
        if !files.iter().any(|file| file.path == *path) {
            problems.add(format!("xtask/architecture.toml: {path} does not exist. Remove it from [long_files]"));
        }
        if reason.trim().is_empty() {
            problems.add(format!("xtask/architecture.toml: {path} in [long_files] has no reason"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(text: &str, reason: Option<&str>) -> Vec<String> {
        let reasons = reason.map(|reason| ("a.rs".to_owned(), reason.to_owned())).into_iter().collect();
        found(|problems| check(&[file("a.rs", text)], &reasons, problems))
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        assert_eq!(problems(&"\n".repeat(400), None), [""; 0]);
        assert_eq!(problems(&"\n".repeat(401), Some("a table")), [""; 0]);
        assert!(problems(&"\n".repeat(401), None)[0].contains("401 lines"));
        assert!(problems(&"\n".repeat(401), Some(" "))[0].contains("no reason"));
        assert!(problems("short", Some("a table"))[0].contains("Remove it"));
    }

    #[test]
    fn a_long_line_is_found() {
        assert_eq!(problems(&"ä".repeat(140), None), [""; 0]);
        assert!(problems(&format!("\n{}", "a".repeat(141)), None)[0].starts_with("a.rs:2: 141 columns"));
        let in_tests = |line: &str| found(|problems| check(&[file("tests/a.rs", line)], &BTreeMap::new(), problems));
        assert_eq!(in_tests(&format!("let a = \"{}\";", "a".repeat(140))), [""; 0]);
        assert_eq!(in_tests(&format!("// {}", "a".repeat(140))).len(), 1);
    }
}
