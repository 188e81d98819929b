//! Every promise of SPECIFICATION.md and SECURITY.md names tests that exist: the last column of its tables.

use super::Problems;
use super::references::{references, resolve};
use crate::source::File;

/// Where promises are: rows of the tables of a document, or of one of its sections.
pub(super) struct Promises {
    pub(super) path: &'static str,
    /// Heading of the section; none: the whole document.
    pub(super) section: Option<&'static str>,
}

pub(super) const DOCUMENTS: [Promises; 2] = [
    Promises { path: "SPECIFICATION.md", section: None },
    Promises { path: "SECURITY.md", section: Some("## Promises") },
];

pub(super) fn check(document: &Promises, text: &str, files: &[File], problems: &mut Problems) {
    let path = document.path;
    let mut promises = 0;
    let mut inside = document.section.is_none();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(section) = document.section.filter(|_| line.starts_with("## ")) {
            inside = *line == section;
        }
        let heading = lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
        if !inside || !line.starts_with('|') || heading || line.starts_with("|---") {
            continue;
        }
        promises += 1;
        let held_by = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let named = references(held_by);
        if named.is_empty() {
            problems.at(
                path,
                at,
                "this promise names no test. Add one in the last column as `file` or `file::function`",
            );
        }
        for problem in named.iter().filter_map(|reference| resolve(reference, files).err()) {
            problems.at(path, at, &problem);
        }
    }
    if promises == 0 {
        let place = document.section.map(|section| format!(" below \"{section}\"")).unwrap_or_default();
        problems.add(format!("{path}: no promises were found{place}. They are rows of tables"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(rows: &str) -> Vec<String> {
        let files = [file("tests/a.rs", "fn it_works() {}")];
        let text = format!("# S\n\n| promise | held by |\n|---|---|\n{rows}");
        found(|problems| check(&DOCUMENTS[0], &text, &files, problems))
    }

    #[test]
    fn promises_with_tests_pass() {
        assert_eq!(problems("| it works | `tests/a.rs::it_works` |\n| so does `x/y` | `tests/a.rs` |\n"), [""; 0]);
    }

    #[test]
    fn promises_without_tests_are_found() {
        assert!(problems("| it works | measured |\n")[0].starts_with("SPECIFICATION.md:5: this promise names no test"));
        assert!(problems("| it works | `tests/b.rs` |\n")[0].contains("does not exist"));
        assert!(problems("| it works | `tests/a.rs::it_fails` |\n")[0].contains("no function it_fails"));
        assert!(problems("| it works | `tests` and `tests/a.rs`, `tests/` |\n")[0].contains("whole folder"));
        assert!(problems("")[0].contains("no promises"));
    }
    #[test]
    fn of_a_section_only_its_own_tables_count() {
        let table = |row: &str| format!("| a | b |\n|---|---|\n| {row} |\n");
        let text = |row: &str| format!("{}## Promises\n{}## More\n{}", table("x | y"), table(row), table("x | y"));
        let problems = |row: &str| {
            let files = [file("tests/a.rs", "fn it_works() {}")];
            found(|problems| check(&DOCUMENTS[1], &text(row), &files, problems))
        };
        assert_eq!(problems("it works | `tests/a.rs::it_works`"), [""; 0]);
        let found_problems = problems("it works | trust us");
        assert_eq!(found_problems.len(), 1, "{found_problems:?}");
        assert!(found_problems[0].starts_with("SECURITY.md:7: this promise names no test"), "{found_problems:?}");
        assert!(found(|problems| check(&DOCUMENTS[1], "# S\n", &[], problems))[0].contains("below \"## Promises\""));
    }
}
