//! Which docs are needed: every file says what it is for, and every public function, type and trait has a doc comment. Fields and
//! variants need none, because a comment that repeats a name helps nobody. The lint `unreachable_pub` sees to it that what is `pub`
//! is public. By lines: the formatter puts every item on one of its own.

use super::Problems;
use crate::source::{File, views};

/// What public items begin with.
const ITEMS: [&str; 12] = [
    "pub fn ",
    "pub async fn ",
    "pub const fn ",
    "pub unsafe fn ",
    "pub const unsafe fn ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
    "pub union ",
    "pub static ",
    "pub const ",
];
/// What functions of a public trait begin with.
const IN_TRAITS: [&str; 3] = ["    fn ", "    async fn ", "    unsafe fn "];

pub(super) fn check(files: &[File], problems: &mut Problems) {
    for file in files.iter().filter(|file| file.is_written_rust()) {
        if !file.text.starts_with("//! ") && !file.path.starts_with("fuzz/") {
            problems.at(&file.path, 0, "begin the file with a `//!` line that says what it is for");
        }
        if !file.is_test() {
            items(file, problems);
        }
    }
}

fn items(file: &File, problems: &mut Problems) {
    let code = views(&file.text).code;
    let lines: Vec<&str> = file.text.lines().collect();
    let mut in_public_trait = false;
    for (at, code) in code.lines().enumerate() {
        if code.starts_with("#[cfg(test)]") && lines.get(at + 1).is_some_and(|next| next.starts_with("mod ")) {
            return;
        }
        if code.starts_with("pub trait ") {
            in_public_trait = !code.ends_with("{}");
        } else if code.starts_with('}') {
            in_public_trait = false;
        }
        let item = code.trim_start();
        let public = ITEMS.iter().any(|begin| item.starts_with(begin))
            || in_public_trait && IN_TRAITS.iter().any(|begin| code.starts_with(begin));
        if public && !is_documented(&lines[..at]) {
            let name = item.split(['{', '(', ';', '=', '<']).next().unwrap_or(item).trim_end();
            problems.at(
                &file.path,
                at,
                &format!("`{name}` has no doc comment: say what it is for, not its name again"),
            );
        }
    }
}

/// Whether the lines above an item, past its attributes, end with a doc comment.
fn is_documented(above: &[&str]) -> bool {
    let mut attribute = false;
    for line in above.iter().rev().map(|line| line.trim()) {
        if line.starts_with("///") || line.starts_with("#[doc") || line.starts_with("$(#[") || line.starts_with("$(") {
            return true;
        }
        if attribute || line.ends_with(']') && !line.starts_with("#[") {
            // Within an attribute of several lines, upwards.
            attribute = !line.starts_with("#[");
        } else if !line.starts_with("#[") && !line.starts_with("// ") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(path: &str, text: &str) -> Vec<String> {
        found(|problems| check(&[file(path, text)], problems))
    }

    #[test]
    fn documented_items_and_plain_fields_pass() {
        let source = "//! What.\n\n/// A.\n#[derive(Debug)]\n#[error(\n    \"a\"\n)]\npub struct A {\n    pub a: u8,\n}\n\n\
                      impl A {\n    /// B.\n    pub fn b() {}\n    fn c() {}\n}\n\n/// D.\npub trait D {\n    /// E.\n    fn e();\n}\n\n\
                      #[cfg(test)]\nmod tests {\n    pub fn f() {}\n}\n";
        assert_eq!(problems("crates/a/src/lib.rs", source), [""; 0]);
    }

    #[test]
    fn missing_docs_are_found() {
        let source = "//! What.\n\n#[derive(Debug)]\npub struct A;\n\nimpl A {\n    pub async fn b() {}\n}\n\n\
                      /// D.\npub trait D {\n    fn e();\n}\n";
        let found = problems("crates/a/src/lib.rs", source);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:4: `pub struct A`"), "{found:?}");
        assert_eq!(problems("crates/a/tests/it/main.rs", source), [""; 0]);
    }

    #[test]
    fn every_file_says_what_it_is_for() {
        assert!(problems("crates/a/tests/it/main.rs", "fn main() {}\n")[0].contains("`//!`"));
    }
}
