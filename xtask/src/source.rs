//! The files of the repository, and Rust source split into code and strings.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that are not part of the source.
const SKIPPED: [&str; 6] = [".git", "target", "node_modules", ".venv", ".cache", "__pycache__"];

/// One text file of the repository.
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Rust that people write and read.
    pub(crate) fn is_written_rust(&self) -> bool {
        self.is_rust() && !self.path.contains("/generated/")
    }

    /// Tests, which may do what the product may not.
    pub(crate) fn is_test(&self) -> bool {
        let path = &self.path;
        path.contains("/tests/")
            || path.starts_with("tests/")
            || path.ends_with("/tests.rs")
            || path.contains("/benches/")
    }

    /// The folder of the crate that this file belongs to: `types` for `crates/types/src/id.rs`.
    pub(crate) fn member(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            Some(first) => first,
            None => "",
        }
    }
}

/// All text files below `root`, ordered by path. Files that git does not know yet count too.
pub(crate) fn files(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(root: &Path, below: &str, found: &mut Vec<File>) -> Result<()> {
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) && !root.join(&path).join(".git").exists() {
            walk(root, &path, found)?;
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push(File { path, text });
        }
    }
    Ok(())
}

/// Rust source in two views of the same shape: what belongs to another view is blank, and lines stay where they are.
pub(crate) struct Views {
    pub(crate) code: String,
    pub(crate) strings: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    String,
}

/// Splits Rust source. Knows line and nested block comments, (raw) strings, and characters as opposed to lifetimes.
pub(crate) fn views(source: &str) -> Views {
    let bytes = source.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (kind, length) = if rest.starts_with(b"//") {
            (Kind::Comment, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()))
        } else if rest.starts_with(b"/*") {
            (Kind::Comment, block_comment(rest))
        } else if let Some(length) = raw_string(rest, at.checked_sub(1).map(|before| bytes[before])) {
            (Kind::String, length)
        } else if rest[0] == b'"' {
            (Kind::String, quoted(rest, b'"'))
        } else if rest[0] == b'\'' && is_character(rest) {
            (Kind::String, quoted(rest, b'\''))
        } else {
            (Kind::Code, 1)
        };
        kinds[at..at + length].fill(kind);
        at += length;
    }
    let view = |wanted: Kind| {
        let kept =
            bytes.iter().zip(&kinds).map(|(byte, kind)| if *kind == wanted || *byte == b'\n' { *byte } else { b' ' });
        String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
    };
    Views { code: view(Kind::Code), strings: view(Kind::String) }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a raw string that begins here. `before` tells an `r` that ends a name from one that begins a string.
fn raw_string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    if before.is_some_and(is_name) {
        return None;
    }
    let mut at = usize::from(matches!(rest[0], b'b' | b'c'));
    if rest.get(at) != Some(&b'r') {
        return None;
    }
    at += 1;
    let hashes = rest[at..].iter().take_while(|byte| **byte == b'#').count();
    at += hashes;
    if rest.get(at) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let body = &rest[at + 1..];
    let length = body.windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| at + 1 + length + end.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Whether a quote begins a character and not a lifetime.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(byte) if byte.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => true,
        None => false,
    }
}

fn is_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Whether `text` has `word` as a whole word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    words_at(text, word).next().is_some()
}

/// Where `word` stands in `text` as a whole word.
pub(crate) fn words_at<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_views_tell_code_from_comments_and_strings() {
        let source =
            "let a = \"one\"; // two \"x\"\n/* three /* four */ */ let b = r#\"fi\"ve\"#; 'c' fn f<'a>(x: &'a str) {}";
        let found = views(source);
        assert!(has_word(&found.strings, "one") && found.strings.contains("fi\"ve") && found.strings.contains("'c'"));
        assert!(!["two", "three", "four"].iter().any(|word| has_word(&found.strings, word)));
        assert!(found.code.contains("fn f<'a>(x: &'a str) {}") && found.code.contains("let b ="));
        assert!(!["one", "two", "three", "four", "five"].iter().any(|word| found.code.contains(word)));
        assert_eq!(found.code.lines().count(), 2);
    }

    #[test]
    fn names_that_end_like_raw_strings_are_code() {
        let found = views("for x in iter\"a\" { b'\\'' } 'ä' \"\\\"\" after");
        assert!(found.code.contains("iter") && found.code.contains("after"));
        assert!(!found.code.contains('ä'));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("a shall b", "shall"));
        assert!(!has_word("shallow marshall", "shall"));
    }
}
