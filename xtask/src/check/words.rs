//! Words that the glossary of ARCHITECTURE.md replaces, in names, comments, texts and documents. A report, not an error yet.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::source::{File, words_at};

/// The words, and what to say instead.
const WORDS: [(&str, &str); 16] = [
    ("dormitory", "memory budget"),
    ("bed", "memory budget"),
    ("make_bed", "reserve"),
    ("lay_down", "pause"),
    ("asleep", "paused"),
    ("whoever", "name who it is"),
    ("whatever", "any"),
    ("shall", "must, will"),
    ("meanwhile", "in between; or name what happened"),
    ("wish", "request"),
    ("so many", "too many, that many"),
    ("told", "reported, given"),
    ("left in peace", "interrupted"),
    ("doomed", "being killed"),
    ("swept", "removed"),
    ("leash", "supervised process"),
];

/// Counts by crate, then by word.
pub(super) fn report(files: &[File]) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let read = files.iter().filter(|file| file.is_written_rust() || file.path.ends_with(".md"));
    for file in read.filter(|file| file.path != "xtask/src/check/words.rs") {
        let text = file.text.to_lowercase();
        for (word, _) in WORDS {
            let count = words_at(&text, word).count();
            if count > 0 {
                *counts.entry((file.member(), word)).or_default() += count;
            }
        }
    }
    let mut report = String::new();
    for ((member, word), count) in &counts {
        let instead = WORDS.iter().find(|(other, _)| other == word).map_or("", |(_, instead)| instead);
        let _ = writeln!(report, "{member:<20} {count:>4} × {word:<14} say: {instead}");
    }
    let _ = writeln!(report, "{} in all", counts.values().sum::<usize>());
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::file;

    #[test]
    fn words_are_counted_by_crate() {
        let files = [
            file("crates/a/src/lib.rs", "// Whoever shall.\nfn marshall() {}"),
            file("README.md", "shall"),
            file("tests/python/a.py", "shall"),
        ];
        let report = report(&files);
        assert!(report.contains("a                       1 × whoever") && report.contains("3 in all"), "{report}");
    }

    #[test]
    fn plain_words_are_not() {
        assert_eq!(report(&[file("crates/a/src/lib.rs", "// A shallow request.")]), "0 in all\n");
    }
}
