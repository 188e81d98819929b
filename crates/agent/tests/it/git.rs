//! Diffs that git makes, applied by us and by git.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cabana_agent::patch::{Kind, Patch, PatchError, apply};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// A tree: content and execute bit by path.
type Tree = BTreeMap<String, (Vec<u8>, bool)>;

/// Runs git without the settings of the user, and without a repository above.
fn git(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .env("LC_ALL", "C")
        .output();
    output.expect("git must be installed")
}

/// Lines of few different texts, so that context is often not unique.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0_u8..8).prop_map(|n| format!("line {n}")),
        3 => Just("}".to_owned()),
        2 => Just(String::new()),
        1 => Just("-- ä\u{1f600}".to_owned()),
        1 => Just("++ @@ -1 +1 @@".to_owned()),
        1 => Just("trailing \t".to_owned()),
        1 => Just("\\ No newline at end of file".to_owned()),
    ]
}

/// Removes some lines and inserts others: where, how many, and which.
type Edit = (prop::sample::Index, usize, Vec<String>);

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    vec((any::<prop::sample::Index>(), 0_usize..3, vec(line(), 0..3)), 0..most)
}

fn edited(lines: &[String], edits: &[Edit]) -> Vec<String> {
    let mut lines = lines.to_vec();
    for (at, remove, insert) in edits {
        let at = at.index(lines.len() + 1);
        let end = (at + remove).min(lines.len());
        lines.splice(at..end, insert.iter().cloned());
    }
    lines
}

/// How lines end.
#[derive(Debug, Clone, Copy)]
struct Ends {
    /// CRLF after lines whose number has this remainder: 0 means none, 1 means all, others mix.
    crlf: usize,
    last: bool,
}

fn ends() -> impl Strategy<Value = Ends> {
    (prop_oneof![4 => Just(0_usize), 2 => Just(1), 1 => Just(2)], prop::bool::weighted(0.8))
        .prop_map(|(crlf, last)| Ends { crlf, last })
}

fn content(lines: &[String], ends: Ends) -> Vec<u8> {
    let mut content = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        content.extend_from_slice(line.as_bytes());
        if ends.last || index + 1 < lines.len() {
            let returns = ends.crlf > 0 && (ends.crlf == 1 || line.len() % ends.crlf == 1);
            content.extend_from_slice(if returns { b"\r\n" } else { b"\n" });
        }
    }
    content
}

/// What happens to one file of a tree.
#[derive(Debug, Clone)]
struct Case {
    name: &'static str,
    lines: Vec<String>,
    edits: Vec<Edit>,
    ends: (Ends, Ends),
    executable: (bool, bool),
    /// Bytes that are not UTF-8, far from every edit.
    binary: bool,
    /// 0: modified; 1: created; 2: deleted; 3: renamed.
    kind: u8,
}

fn case() -> impl Strategy<Value = Case> {
    let name = prop::sample::select(vec![
        "plain",
        "with blank",
        "ä/ö \u{1f600}",
        "q\"uote",
        "back\\slash",
        "d/e/f",
        "tab\there",
    ]);
    (name, vec(line(), 0..30), edits(4), (ends(), ends()), any::<(bool, bool)>(), any::<bool>(), 0_u8..6).prop_map(
        |(name, lines, edits, ends, executable, binary, kind)| Case {
            name,
            lines,
            edits,
            ends,
            executable,
            binary,
            kind,
        },
    )
}

fn trees(cases: &[Case]) -> (Tree, Tree) {
    let (mut old, mut new) = (Tree::new(), Tree::new());
    for (index, case) in cases.iter().enumerate() {
        let kind = case.kind;
        // Renames are found by what is unique in a file.
        let unique: Vec<u8> = (0..10).flat_map(|n| format!("unique {index} {n}\n").into_bytes()).collect();
        let first: &[u8] = if case.binary { b"\xff\xfe\n" } else { b"" };
        let whole = |lines: &[String], ends| match (kind, lines) {
            (1 | 2, []) => Vec::new(),
            (1 | 2, lines) => content(lines, ends),
            _ => [first, &unique, &content(lines, ends)].concat(),
        };
        let path = format!("{}{index}", case.name);
        if kind != 1 {
            old.insert(path.clone(), (whole(&case.lines, case.ends.0), case.executable.0));
        }
        let to = if kind == 3 { format!("to/{path}") } else { path };
        if kind != 2 {
            new.insert(to, (whole(&edited(&case.lines, &case.edits), case.ends.1), case.executable.1));
        }
    }
    (old, new)
}

/// Writes a tree and returns git's name of it.
fn write_tree(folder: &Path, tree: &Tree) -> String {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.file_name() != ".git") {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    for (path, (content, executable)) in tree {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 })).unwrap();
    }
    assert!(git(folder, &["add", "--all"]).status.success());
    String::from_utf8(git(folder, &["write-tree"]).stdout).unwrap().trim().to_owned()
}

/// The tree that a patch makes, by us.
fn applied(patch: &Patch, old: &Tree) -> Result<Tree, PatchError> {
    let result = patch.apply(|path| Ok::<_, PatchError>(old.get(path).map(|(content, _)| content.clone())))?;
    let mut tree = old.clone();
    for file in result.files {
        let executable = tree.remove(&file.path).is_some_and(|(_, executable)| executable);
        let executable = file.executable.unwrap_or(executable);
        match file.kind {
            Kind::Delete => continue,
            Kind::Rename { to } => tree.insert(to, (file.new, executable)),
            Kind::Create | Kind::Modify => tree.insert(file.path, (file.new, executable)),
        };
    }
    Ok(tree)
}

#[test]
fn diffs_of_trees_give_the_new_tree() {
    let folder = tempfile::tempdir().unwrap();
    assert!(git(folder.path(), &["init", "--quiet"]).status.success());
    let config = crate::config(12);
    proptest!(config, |(cases in vec(case(), 1..40), quoted: bool, context in 1_u8..6, prefix: bool)| {
        let (old, new) = trees(&cases);
        let names = [write_tree(folder.path(), &old), write_tree(folder.path(), &new)];
        let (quoted, context) = (format!("core.quotePath={quoted}"), format!("-U{context}"));
        let prefix = if prefix { "diff.mnemonicPrefix=true" } else { "diff.noPrefix=false" };
        let diff = git(folder.path(), &["-c", &quoted, "-c", prefix, "diff", "-M", &context, &names[0], &names[1]]);
        prop_assert!(diff.status.success(), "{diff:?}");
        // Lines next to a change may hold bytes that are not UTF-8 only by chance of a large context: there are ten lines between.
        let text = String::from_utf8(diff.stdout).unwrap();
        if old == new {
            return Ok(());
        }
        let patch = Patch::parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        let tree = applied(&patch, &old).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&tree, &new, "{}", text);
    });
}

/// Applies a patch by git to the file `x`.
fn git_apply(folder: &Path, patch: &str, old: &[u8], options: &[&str]) -> Option<Vec<u8>> {
    let file = folder.join("x");
    fs::write(&file, old).unwrap();
    fs::write(folder.join("patch"), patch).unwrap();
    let output = git(folder, &[&["apply", "--whitespace=nowarn"], options, &["patch"]].concat());
    output.status.success().then(|| fs::read(&file).unwrap())
}

/// A file or a patch without blanks at the ends of lines, and with a newline at its end.
fn without_blanks(text: &[u8]) -> Vec<u8> {
    if text.is_empty() {
        return Vec::new();
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|byte| *byte == b'\n').flat_map(|line| [line.trim_ascii_end(), b"\n"].concat()).collect()
}

/// The same for a patch.
fn patch_without_blanks(patch: &str) -> String {
    let lines = patch.lines().filter(|line| !line.starts_with('\\'));
    lines.fold(String::new(), |all, line| {
        let (sign, text) = line.split_at(line.len().min(1));
        all + sign + text.trim_end() + "\n"
    })
}

/// How often each outcome was seen.
#[derive(Debug, Default)]
struct Seen {
    same: u32,
    both_refuse: u32,
    only_git: u32,
    only_ours: u32,
}

fn compare(folder: &Path, patch: &str, changed: &[u8], seen: &mut Seen) -> TestCaseResult {
    let parsed = Patch::parse(patch).map_err(|error| TestCaseError::fail(format!("{error}\n{patch}")))?;
    let ours = apply(&parsed.changes[0], Some(changed));
    let theirs = git_apply(folder, patch, changed, &[]);
    let about = || format!("{patch}\n{}\n{ours:?}", changed.escape_ascii());
    match (&ours, theirs) {
        (Ok(ours), Some(theirs)) => {
            seen.same += 1;
            prop_assert_eq!(ours, &theirs, "{}", about());
        }
        (Err(_), None) => seen.both_refuse += 1,
        // Refused because git guesses: never because the lines are not there.
        (Err(PatchError::Ambiguous { .. } | PatchError::OutOfOrder { .. }), Some(_)) => seen.only_git += 1,
        // Git takes a last line without a newline for any line that begins so, and removes its newline.
        (Err(PatchError::NotFound { .. }), Some(_)) if patch.contains("\n\\ ") => seen.only_git += 1,
        (Err(error), Some(_)) => prop_assert!(false, "{error}\n{}", about()),
        (Ok(ours), None) => {
            seen.only_ours += 1;
            // Without the rule for hunks at the beginning and the end, and without blanks at line ends, git does the same.
            let loose = git_apply(folder, patch, changed, &["--unidiff-zero"]);
            if loose.as_ref() != Some(ours) {
                let patch = patch_without_blanks(patch);
                let theirs = git_apply(folder, &patch, &without_blanks(changed), &["--unidiff-zero"]);
                prop_assert_eq!(theirs, Some(without_blanks(ours)), "{}", about());
            }
        }
    }
    Ok(())
}

#[test]
fn changed_files_give_what_git_gives_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    for name in ["a", "b", "apply"] {
        fs::create_dir(path(name)).unwrap();
    }
    let seen = std::cell::RefCell::new(Seen::default());
    let config = crate::config(250);
    proptest!(config, |(
        lines in vec(line(), 1..40), edits in edits(4), later in edits(3), ends in ends(), changed_ends in ends(),
        keeps in prop::bool::weighted(0.7)
    )| {
        let old = content(&lines, ends);
        let new = content(&edited(&lines, &edits), ends);
        let changed = content(&edited(&lines, &later), if keeps { ends } else { changed_ends });
        if old == new || new.is_empty() {
            return Ok(());
        }
        fs::write(path("a/x"), &old).unwrap();
        fs::write(path("b/x"), &new).unwrap();
        let diff = git(folder.path(), &["diff", "--no-index", "--no-prefix", "a/x", "b/x"]);
        let patch = String::from_utf8(diff.stdout).unwrap();
        let parsed = Patch::parse(&patch).map_err(|error| TestCaseError::fail(format!("{error}\n{patch}")))?;
        prop_assert_eq!(apply(&parsed.changes[0], Some(&old)), Ok(new), "{}", patch);
        compare(&path("apply"), &patch, &changed, &mut seen.borrow_mut())?;
    });
    let seen = seen.into_inner();
    eprintln!("{seen:?}");
    assert!(seen.same > 10 && seen.both_refuse > 10, "the cases say nothing: {seen:?}");
}
