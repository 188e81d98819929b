//! Every invariant of ARCHITECTURE.md names what checks it: `*(…)*` at its end, with files or tests that exist.

use super::Problems;
use super::references::{references, resolve};
use crate::source::File;

const PATH: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Invariants";

pub(super) fn check(text: &str, files: &[File], problems: &mut Problems) {
    let invariants = invariants(text);
    if invariants.is_empty() {
        problems.add(format!("{PATH}: no numbered invariants were found below \"{SECTION}\""));
    }
    for (at, number, invariant) in invariants {
        let check =
            invariant.trim_end().strip_suffix(")*").and_then(|rest| rest.rsplit_once("*(")).map(|(_, check)| check);
        let named = check.map(references).unwrap_or_default();
        if named.is_empty() {
            let problem = format!("invariant {number} names no check. End it with *(`file` or `file::function`)*");
            problems.at(PATH, at, &problem);
        }
        for problem in named.iter().filter_map(|reference| resolve(reference, files).err()) {
            problems.at(PATH, at, &problem);
        }
    }
}

/// Each with the line that it begins at, its number, and its text in one line.
fn invariants(text: &str) -> Vec<(usize, usize, String)> {
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    let section = text.lines().enumerate().skip_while(|(_, line)| *line != SECTION).skip(1);
    for (at, line) in section.take_while(|(_, line)| !line.starts_with("## ")) {
        let number = line.split_once(". ").and_then(|(number, _)| number.parse().ok());
        match (number, found.last_mut()) {
            (Some(number), _) => found.push((at, number, line.to_owned())),
            (None, Some((_, _, text))) if !line.is_empty() => {
                text.push(' ');
                text.push_str(line.trim());
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(section: &str) -> Vec<String> {
        let text = format!("# A\n\n1. not this\n\n## Invariants\n\n{section}\n\n## More\n\n1. nor this\n");
        found(|problems| check(&text, &[file("Cargo.toml", ""), file("a/b.rs", "fn c() {}")], problems))
    }

    #[test]
    fn invariants_with_checks_pass() {
        assert_eq!(
            problems("1. `types` is pure. *(`a/b.rs::c`)*\n2. Two\n   lines. *(lints in `Cargo.toml`)*"),
            [""; 0]
        );
    }

    #[test]
    fn invariants_without_checks_are_found() {
        let found = problems("1. One. *(`a/b.rs`)*\n2. See `a/b.rs`.\n3. Three. *(`a/c.rs`)*");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("ARCHITECTURE.md:8: invariant 2 names no check"), "{found:?}");
        assert!(found[1].contains("`a/c.rs` does not exist"), "{found:?}");
        assert!(problems("Nothing.")[0].contains("no numbered invariants"));
    }
}
