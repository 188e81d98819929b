//! Languages, and the programs that run them.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// What runs a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// ipykernel.
    Python,
    /// IRkernel.
    R,
    /// Our script for Node; with types, or without.
    Node { types: bool },
    /// A shell.
    Bash,
}

/// A language as a client named it, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Language {
    pub(crate) name: &'static str,
    pub(crate) runner: Runner,
}

/// Name, what runs it, and the program that it needs.
const ALL: [(&str, Runner, &str); 5] = [
    ("python", Runner::Python, "python3"),
    ("javascript", Runner::Node { types: false }, "node"),
    ("typescript", Runner::Node { types: true }, "node"),
    ("r", Runner::R, "R"),
    ("bash", Runner::Bash, "bash"),
];

impl Language {
    /// The language of a request; Python if it names none.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let given = text.unwrap_or_default().trim().to_ascii_lowercase();
        let wanted = match given.as_str() {
            "" => "python",
            "js" => "javascript",
            "ts" => "typescript",
            other => other,
        };
        let found = ALL.iter().find(|(name, _, program)| *name == wanted && is_installed(program));
        found.map(|(name, runner, _)| Self { name, runner: *runner }).ok_or_else(|| {
            let there: Vec<&str> =
                ALL.iter().filter(|(_, _, program)| is_installed(program)).map(|(name, ..)| *name).collect();
            Error::Language(given.chars().take(64).collect(), there.join(", "))
        })
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory: PathBuf| directory.join(program)).any(|file| Path::is_file(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, name) in
            [(None, "python"), (Some(" Python "), "python"), (Some(""), "python"), (Some("Bash"), "bash")]
        {
            assert_eq!(Language::parse(text).expect("language").name, name);
        }
        let error = Language::parse(Some("cobol")).expect_err("not there").to_string();
        assert!(error.starts_with("There is no kernel for the language \"cobol\"; there are: python"), "{error}");
    }
}
