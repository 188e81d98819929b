//! `cargo xtask check`: the rules of ARCHITECTURE.md and CONTRIBUTING.md that a program can see. Each module is one rule; exceptions
//! are in `xtask/architecture.toml` and `deny.toml`, with reasons.

mod crates;
mod dependencies;
mod docs;
mod invariants;
mod licences;
mod metadata;
mod places;
mod references;
mod size;
mod specification;
mod unused;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::source::{File, files};

/// `xtask/architecture.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    uses: BTreeMap<String, Vec<String>>,
    status_codes: BTreeMap<String, String>,
    unsafe_code: BTreeMap<String, String>,
    long_files: BTreeMap<String, String>,
    unused: BTreeMap<String, String>,
}

/// What is wrong, each with its place and what to do about it.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    /// A problem at a line, counted from zero.
    fn at(&mut self, path: &str, line: usize, problem: &str) {
        self.add(format!("{path}:{}: {problem}", line + 1));
    }
}

/// Checks everything and prints all that is wrong. Whether nothing is.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let rules = parse::<Rules>(root, "xtask/architecture.toml")?;
    let deny = parse::<dependencies::Deny>(root, "deny.toml")?;
    let metadata = metadata::read(root)?;
    let files = files(root)?;
    let mut problems = Problems::default();
    crates::check(&metadata, &rules.uses, &mut problems);
    dependencies::check(&metadata, &deny, &mut problems);
    unused::check(&metadata, &files, &rules.unused, &fs::read_to_string(root.join("Cargo.toml"))?, &mut problems);
    places::check(&files, &rules.status_codes, &rules.unsafe_code, &mut problems);
    size::check(&files, &rules.long_files, &mut problems);
    docs::check(&files, &mut problems);
    for document in &specification::DOCUMENTS {
        specification::check(document, text(&files, document.path)?, &files, &mut problems);
    }
    invariants::check(text(&files, "ARCHITECTURE.md")?, &files, &mut problems);
    let Problems(problems) = problems;
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        eprintln!("{} problems", problems.len());
    }
    Ok(problems.is_empty())
}

/// Reports words that the glossary replaces, by crate. Not an error yet.
pub(crate) fn words(root: &Path) -> Result<()> {
    let report = words::report(&files(root)?);
    std::io::Write::write_all(&mut std::io::stdout().lock(), report.as_bytes())?;
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(root: &Path, path: &str) -> Result<T> {
    let text = fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))?;
    toml::from_str(&text).with_context(|| format!("understand {path}"))
}

fn text<'a>(files: &'a [File], path: &str) -> Result<&'a str> {
    let file = files.iter().find(|file| file.path == path).with_context(|| format!("{path} is missing"))?;
    Ok(&file.text)
}

#[cfg(test)]
mod samples {
    //! What the tests of the rules need.

    use super::{File, Problems};

    pub(super) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// What `check` finds.
    pub(super) fn found(check: impl FnOnce(&mut Problems)) -> Vec<String> {
        let mut problems = Problems::default();
        check(&mut problems);
        problems.0
    }
}
