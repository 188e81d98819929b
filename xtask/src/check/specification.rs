//! Every promise of SPECIFICATION.md names tests that exist: the last column of its tables.

use super::Problems;
use super::references::{references, resolve};
use crate::source::File;

const PATH: &str = "SPECIFICATION.md";

pub(super) fn check(text: &str, files: &[File], problems: &mut Problems) {
    let mut promises = 0;
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let heading = lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
        if heading || line.starts_with("|---") {
            continue;
        }
        promises += 1;
        let held_by = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let named = references(held_by);
        if named.is_empty() {
            problems.at(
                PATH,
                at,
                "this promise names no test. Add one in the last column as `file` or `file::function`",
            );
        }
        for problem in named.iter().filter_map(|reference| resolve(reference, files).err()) {
            problems.at(PATH, at, &problem);
        }
    }
    if promises == 0 {
        problems.add(format!("{PATH}: no promises were found. They are rows of tables"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(rows: &str) -> Vec<String> {
        let files = [file("tests/a.rs", "fn it_works() {}")];
        let text = format!("# S\n\n| promise | held by |\n|---|---|\n{rows}");
        found(|problems| check(&text, &files, problems))
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
}
