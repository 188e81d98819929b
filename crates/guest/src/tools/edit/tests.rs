//! Property tests: an edit that fails at any step leaves the tree as it was, byte by byte.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools::{Action, Change, Expect};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::transaction::STEPS;
use super::*;
use crate::users::Account;

/// Names, modes, owners, link targets and contents.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let content = match () {
            () if found.is_dir() => {
                left.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
                Vec::new()
            }
            () if found.is_symlink() => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            () => std::fs::read(&path).unwrap(),
        };
        all.insert(path, (found.mode(), found.uid(), content));
    }
    all
}

fn place(root: &Path) -> Place {
    let account = Account { name: "root".to_owned(), uid: 0, gid: 0, home: root.join("home") };
    Place::new(account, root.to_str())
}

fn plant(root: &Path) {
    for (name, mode) in [("a", 0o600), ("b", 0o755), ("d/x", 0o644), ("d/y", 0o4711), ("d/e/z", 0o444)] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("content of {name}")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::chown(root.join("b"), Some(1234), Some(1234)).unwrap();
    std::os::unix::fs::symlink("d/x", root.join("link")).unwrap();
    std::os::unix::fs::symlink("nothing", root.join("dangling")).unwrap();
    std::fs::create_dir_all(root.join("home")).unwrap();
    std::fs::create_dir_all(root.join("empty")).unwrap();
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "d/x",
    "d/y",
    "d/e/z",
    "link",
    "dangling",
    "empty",
    "d",
    "d/e",
    "new",
    "new/deep/f",
    "a/f",
    "home",
    "n2",
];

fn action() -> impl Strategy<Value = Action> {
    let data = "[a-z]{0,8}".prop_map(|text| STANDARD.encode(text));
    let executable = prop::option::of(any::<bool>());
    prop_oneof![
        4 => (data.clone(), executable.clone()).prop_map(|(data, executable)| Action::Write { data, executable }),
        2 => any::<bool>().prop_map(|recursive| Action::Delete { recursive }),
        2 => (prop::sample::select(NAMES), prop::option::of(data), executable)
            .prop_map(|(to, data, executable)| Action::Rename { to: to.to_owned(), data, executable }),
    ]
}

fn expect() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![6 => Just(None), 1 => any::<bool>().prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn all_or_nothing(
        changes in prop::collection::vec((prop::sample::select(NAMES), action(), expect()), 1..5), steps in 0usize..14,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        plant(&root);
        let before = snapshot(&root);
        let changes: Vec<Change> = changes.into_iter().map(|(path, action, expected)| {
            let expect = match expected {
                None => Expect::Anything,
                Some(true) => Expect::Content { sha256: format!("{:x}", Sha256::digest(format!("content of {path}"))) },
                Some(false) => Expect::Absent,
            };
            Change { path: path.to_owned(), expect, action }
        }).collect();
        let count = changes.len();
        STEPS.set(steps);
        let done = edit(Edit { user: None, changes }, &place(&root), &Cancel::default());
        let failed_on_purpose = STEPS.replace(usize::MAX) == 0;
        let after = snapshot(&root);
        match done {
            Ok(answer) => {
                prop_assert_eq!(answer.changes.len(), count);
                let leftover = after.keys().find(|path| path.to_string_lossy().contains(".cabana-"));
                prop_assert!(leftover.is_none(), "{:?}", leftover);
            }
            Err(refused) => {
                prop_assert_eq!(before, after, "{:?}", refused);
                prop_assert!(!refused.message.contains("restored"));
                prop_assert!(refused.code != Code::DiskFull || failed_on_purpose);
            }
        }
    }
}

fn run(root: &Path, changes: Vec<Change>) -> Result<EditAnswer, Refused> {
    edit(Edit { user: None, changes }, &place(root), &Cancel::default())
}

fn write(path: &str, text: &str) -> Change {
    let action = Action::Write { data: STANDARD.encode(text), executable: None };
    Change { path: path.to_owned(), expect: Expect::Anything, action }
}

fn delete(path: &str, recursive: bool) -> Change {
    Change { path: path.to_owned(), expect: Expect::Anything, action: Action::Delete { recursive } }
}

#[test]
fn what_an_edit_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    plant(&root);
    let executable = Action::Write { data: STANDARD.encode("#!"), executable: Some(true) };
    let moved = Action::Rename { to: "new/b".to_owned(), data: Some(STANDARD.encode("B")), executable: Some(false) };
    let answer = run(
        &root,
        vec![
            write("link", "through the link"),
            write("new/file", "new"),
            Change { path: "a".to_owned(), expect: Expect::Anything, action: executable },
            Change { path: "b".to_owned(), expect: Expect::Anything, action: moved },
            delete("d/e", true),
            delete("empty", false),
            delete("dangling", false),
        ],
    )
    .unwrap();
    let told: Vec<_> = answer.changes.iter().map(|c| (c.created, c.removed)).collect();
    assert_eq!(told, [(false, 0), (true, 0), (false, 0), (false, 0), (false, 2), (false, 1), (false, 1)]);
    assert_eq!(answer.changes[3].path, root.join("new/b").to_str().unwrap());
    let after = snapshot(&root);
    let of =
        |name: &str| after.get(&root.join(name)).map(|(mode, uid, content)| (mode & 0o7777, *uid, content.as_slice()));
    assert!(std::fs::symlink_metadata(root.join("link")).unwrap().is_symlink());
    assert_eq!(of("d/x"), Some((0o644, 0, &b"through the link"[..])));
    assert_eq!(of("a"), Some((0o700, 0, &b"#!"[..])));
    assert_eq!(of("new/b"), Some((0o644, 1234, &b"B"[..])), "owner and mode stay");
    assert_eq!(of("new/file"), Some((0o644, 0, &b"new"[..])));
    for gone in ["b", "d/e", "empty", "dangling"] {
        assert_eq!(of(gone), None, "{gone}");
    }
}

#[test]
fn what_an_edit_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    plant(&root);
    let before = snapshot(&root);
    let absent = |path: &str| Change { expect: Expect::Absent, ..write(path, "x") };
    let exact = |path: &str, text: &str| {
        let sha256 = format!("{:x}", Sha256::digest(text));
        Change { expect: Expect::Content { sha256 }, ..write(path, "x") }
    };
    let rename = |path: &str, to: &str| {
        let action = Action::Rename { to: to.to_owned(), data: None, executable: None };
        Change { path: path.to_owned(), expect: Expect::Anything, action }
    };
    let bad = Change { action: Action::Write { data: "?".to_owned(), executable: None }, ..write("a", "") };
    for (change, code) in [
        (absent("a"), Code::AlreadyExists),
        (absent("dangling"), Code::FileNotFound),
        (exact("a", "something else"), Code::Interrupted),
        (exact("missing", ""), Code::FileNotFound),
        (write("d", "x"), Code::NotAFile),
        (write("a/b", "x"), Code::NotADirectory),
        (write("/dev/null", "x"), Code::NotAFile),
        (write("/proc/self/comm", "x"), Code::PermissionDenied),
        (write("/proc/sys/kernel/x", "x"), Code::PermissionDenied),
        (rename("a", "b"), Code::AlreadyExists),
        (rename("d", "new"), Code::NotAFile),
        (rename("missing", "new"), Code::FileNotFound),
        (delete("d", false), Code::NotAFile),
        (delete("home", true), Code::PermissionDenied),
        (delete(".", true), Code::PermissionDenied),
        (delete("/", true), Code::PermissionDenied),
        (delete("/proc", true), Code::PermissionDenied),
        (delete("/proc/1", true), Code::PermissionDenied),
        (delete("missing", true), Code::FileNotFound),
        (bad, Code::InvalidArguments),
    ] {
        // The other change must not be made either.
        let text = format!("{change:?}");
        let refused = run(&root, vec![write("n2", "x"), change]).expect_err(&text);
        assert_eq!(refused.code, code, "{text}: {}", refused.message);
    }
    assert!(run(&root, vec![delete("d", false)]).unwrap_err().message.contains("recursive"));
    for pair in [
        [write("a", "1"), write("./a", "2")],
        [write("link", "1"), write("d/x", "2")],
        [delete("d", true), write("d/new", "2")],
    ] {
        assert_eq!(run(&root, pair.to_vec()).unwrap_err().code, Code::InvalidArguments);
    }
    assert_eq!(run(&root, Vec::new()).unwrap_err().code, Code::InvalidArguments);
    assert_eq!(before, snapshot(&root));
}

#[test]
fn an_edit_that_was_cancelled_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path());
    let before = snapshot(dir.path());
    let cancel = Cancel::default();
    cancel.0.store(true, std::sync::atomic::Ordering::Relaxed);
    let request = Edit { user: None, changes: vec![delete("d", true)] };
    assert_eq!(edit(request, &place(dir.path()), &cancel).unwrap_err().code, Code::Cancelled);
    assert_eq!(before, snapshot(dir.path()));
}

/// Of writers that expect the same version, one wins, and its content stays whatever the others take back.
#[test]
fn one_of_many_writers_wins_and_keeps_its_content() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("shared");
    let together = std::sync::Barrier::new(8);
    for _ in 0..300 {
        std::fs::write(&path, "start").unwrap();
        let expect = Expect::Content { sha256: format!("{:x}", Sha256::digest("start")) };
        let won: Vec<String> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|number| {
                    let (place, expect) = (place(root.path()), expect.clone());
                    let content = number.to_string();
                    let action = Action::Write { data: STANDARD.encode(&content), executable: None };
                    let changes = vec![Change { path: "shared".to_owned(), expect, action }];
                    let request = Edit { user: None, changes };
                    let together = &together;
                    scope.spawn(move || {
                        together.wait();
                        edit(request, &place, &Cancel::default()).is_ok().then_some(content)
                    })
                })
                .collect();
            writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
        });
        assert_eq!(won, [std::fs::read_to_string(&path).unwrap()]);
    }
}
