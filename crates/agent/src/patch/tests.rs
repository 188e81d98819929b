//! Tables of patches.

use super::*;

fn parse(text: &str) -> Result<Vec<(String, Kind, Option<bool>)>, PatchError> {
    let patch = Patch::parse(text)?;
    Ok(patch.changes.into_iter().map(|change| (change.path, change.kind, change.executable)).collect())
}

/// What a patch of one file makes of it.
fn one(patch: &str, old: &str) -> Result<String, PatchError> {
    let patch = Patch::parse(patch)?;
    assert_eq!(patch.changes.len(), 1);
    apply(&patch.changes[0], Some(old.as_bytes())).map(|new| String::from_utf8(new).unwrap())
}

/// A diff of the file `x`.
fn diff(hunks: &str) -> String {
    format!("--- a/x\n+++ b/x\n{hunks}")
}

/// A patch of the file `x` in the other form.
fn update(hunks: &str) -> String {
    format!("*** Begin Patch\n*** Update File: x\n{hunks}*** End Patch\n")
}

#[test]
fn headers_say_what_becomes_of_files() {
    let modify = || Kind::Modify;
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    let cases: [(String, &str, Kind, Option<bool>); 20] = [
        (format!("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n{hunk}"), "x", modify(), None),
        (format!("Subject: hello\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n{hunk}-- \n2.47\n"), "x", modify(), None),
        (format!("```diff\n--- a/d/x\n+++ b/d/x\n{hunk}```\n"), "d/x", modify(), None),
        (format!("--- src/x\n+++ src/x\n{hunk}"), "src/x", modify(), None),
        (
            format!("--- x.orig\t2020-01-01 00:00:00 +0000\n+++ x\t2020-01-01 00:00:00 +0000\n{hunk}"),
            "x",
            modify(),
            None,
        ),
        (format!("--- x\n+++ x.new\n{hunk}"), "x", modify(), None),
        (format!("diff --git i/x w/x\n--- i/x\n+++ w/x\n{hunk}"), "x", modify(), None),
        (format!("diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n{hunk}"), "a b", modify(), None),
        (format!("diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n{}", hunk.replace('\n', "\r\n")), "x", modify(), None),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n".into(), "x", modify(), Some(true)),
        (
            "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nold mode 100755\nnew mode 100644".into(),
            "ä",
            modify(),
            Some(false),
        ),
        ("diff --git a/x b/x\nnew file mode 100644\nindex 0..e\n".into(), "x", Kind::Create, Some(false)),
        ("diff --git a/x y b/x y\nnew file mode 100755\n".into(), "x y", Kind::Create, Some(true)),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a".into(), "x", Kind::Create, None),
        (
            "--- x\t1970-01-01 01:00:00.000000000 +0100\n+++ x\t2020-01-01 01:00:00 +0100\n@@ -0,0 +1 @@\n+a".into(),
            "x",
            Kind::Create,
            None,
        ),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n".into(), "x", Kind::Delete, None),
        ("diff --git a/x b/x\ndeleted file mode 100644\nindex e..0\n".into(), "x", Kind::Delete, None),
        (
            "diff --git a/x b/d/y\nsimilarity index 100%\nrename from x\nrename to d/y\n".into(),
            "x",
            Kind::Rename { to: "d/y".into() },
            None,
        ),
        (
            "diff --git \"a/\\\"x\" b/y\nrename from \"\\\"x\"\nrename to y\n".into(),
            "\"x",
            Kind::Rename { to: "y".into() },
            None,
        ),
        ("*** Begin Patch\n*** Delete File: ./d//x\n*** End Patch".into(), "d/x", Kind::Delete, None),
    ];
    for (text, path, kind, executable) in cases {
        assert_eq!(parse(&text), Ok(vec![(path.to_owned(), kind, executable)]), "{text}");
    }
}

#[test]
fn what_cannot_be_applied_is_refused_with_its_line() {
    let cases: [(&str, &str); 25] = [
        ("hello", "not a patch"),
        ("", "not a patch"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk without the lines"),
        ("*** Update File: x\n", "`*** Begin Patch` is missing"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "line 2 of the patch: a binary file"),
        ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 0\n", "a binary file"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "a copy of a file"),
        ("diff --git a/x b/x\nnew file mode 120000\n", "a symbolic link"),
        ("diff --git a/x b/x\nindex 1..2 160000\n", "a submodule"),
        ("diff --git a/x b/x\nnew file mode 1q\n", "a bad mode"),
        ("diff --git a/x b/y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n*** x", "line 1"),
        ("diff --git a/x b/x\nindex 1..2\n", "without any change"),
        ("diff --git a/x b/x\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "the names of the file differ"),
        ("diff --git \"a/\\377\" \"b/\\377\"\nold mode 100644\nnew mode 100755\n", "not UTF-8"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "contains `..`"),
        ("--- /dev/null\n+++ b/x\n@@ -1 +1,2 @@\n a\n+b\n", "a new file must"),
        ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n", "combined diff"),
        (
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-b\n+c\n+d\n",
            "may only follow the last",
        ),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "x more than once"),
        ("*** Begin Patch\n*** Add File: x\n+a\n", "the patch was cut off"),
        ("*** Begin Patch\n*** Add File: x\na\n*** End Patch", "must begin with `+`"),
        ("*** Begin Patch\n*** Update File: x\n*** End Patch", "without any change of \"x\""),
        ("*** Begin Patch\n*** Update File: x\n@@\nfoo\n*** End Patch", "must begin with a blank"),
        ("*** Begin Patch\n*** End Patch\n", "not a patch"),
        ("*** Begin Patch\n*** Delete File: x\n*** End Patch\nmore", "text follows"),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}\n{error}");
        assert!(!error.hint().is_empty());
    }
    assert_eq!(parse(&" ".repeat(MAX_BYTES + 1)), Err(PatchError::TooLarge { bytes: MAX_BYTES + 1 }));
    let many = |count: usize| (0..count).fold(String::new(), |all, n| all + &format!("*** Delete File: {n}\n"));
    assert_eq!(parse(&format!("*** Begin Patch\n{}*** End Patch", many(501))), Err(PatchError::TooManyFiles));
    assert_eq!(parse(&format!("*** Begin Patch\n{}*** End Patch", many(500))).unwrap().len(), 500);
}

#[test]
fn hunks_of_diffs_are_found() {
    let change = " a\n-b\n+B\n c\n";
    let cases: [(&str, String, &str, &str); 17] = [
        ("at its line", diff(&format!("@@ -1,3 +1,3 @@\n{change}")), "a\nb\nc\n", "a\nB\nc\n"),
        ("elsewhere", diff(&format!("@@ -2,3 +2,3 @@\n{change}")), "1\n2\n3\na\nb\nc\n", "1\n2\n3\na\nB\nc\n"),
        ("nearest", diff(&format!("@@ -5,3 +5,3 @@\n{change}")), "a\nb\nc\na\nb\nc\nx\n", "a\nb\nc\na\nB\nc\nx\n"),
        ("wrong counts", diff(&format!("@@ -1,9 +1,2 @@\n{change}")), "a\nb\nc\n", "a\nB\nc\n"),
        ("too small counts", diff(&format!("@@ -1,1 +1,1 @@\n{change}")), "a\nb\nc\n", "a\nB\nc\n"),
        ("no counts", diff(&format!("@@ ... @@\n{change}\n")), "0\na\nb\nc\n", "0\na\nB\nc\n"),
        ("lost blank", diff("@@ -1,3 +1,3 @@\n a\n\n-b\n+B"), "a\n\nb\n", "a\n\nB\n"),
        ("blanks", diff(&format!("@@ -1,3 +1,3 @@\n{change}")), "a \nb\t\nc\n", "a \nB\nc\n"),
        ("CRLF", diff(&format!("@@ -1,3 +1,3 @@\n{change}")), "a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
        ("CRLF in both", diff("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n"), "a\r\nb\r\n", "a\r\nB\r\n"),
        ("CRLF to LF", diff("@@ -1 +1 @@\n-b\r\n+B\n"), "b\r\n", "B\n"),
        ("no newline", diff("@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+B\n"), "b", "B\n"),
        ("newline", diff("@@ -1 +1 @@\n-b\n+B\n\\ No newline at end of file"), "b\n", "B"),
        ("unmentioned", diff("@@ -1,2 +1,2 @@\n a\n-b\n+B\n"), "a\nb", "a\nB"),
        ("no context after", diff("@@ -2 +2,2 @@\n b\n+B\n"), "a\nb\nc\n", "a\nb\nB\nc\n"),
        ("two", diff("@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-a\n+A\n"), "a\nb\na\n", "A\nb\nA\n"),
        ("headers in lines", diff("@@ -1,2 +1,2 @@\n--- a\n+++ b\n @@\n"), "-- a\n@@\n", "++ b\n@@\n"),
    ];
    for (name, patch, old, new) in cases {
        assert_eq!(one(&patch, old).as_deref(), Ok(new), "{name}: {patch}");
    }
}

#[test]
fn hunks_without_line_numbers_are_found() {
    let cases: [(&str, String, &str, &str); 14] = [
        ("plain", update("@@\n a\n-b\n+B\n"), "0\na\nb\nc\n", "0\na\nB\nc\n"),
        ("without @@", update("-b\n+B\n"), "a\nb\n", "a\nB\n"),
        ("in order", update("@@\n-a\n+A\n x\n@@\n-b\n+B\n"), "b\na\nx\nb\n", "b\nA\nx\nB\n"),
        ("anchor", update("@@ two\n-b\n+B\n"), "one\nb\ntwo\nb\n", "one\nb\ntwo\nB\n"),
        ("first after", update("@@ one\n-b\n+B\n"), "one\nb\ntwo\nb\n", "one\nB\ntwo\nb\n"),
        ("trimmed", update("@@ two\n-b\n+B\n"), "one\nb\n  two \nb\n", "one\nb\n  two \nB\n"),
        ("nested", update("@@ B\n@@ f\n-b\n+x\n"), "A\nf\nb\nB\nf\nb\nC\nf\nb\n", "A\nf\nb\nB\nf\nx\nC\nf\nb\n"),
        ("anchor repeated", update("@@ two\n two\n+B\n"), "one\ntwo\nc\n", "one\ntwo\nB\nc\n"),
        ("only anchor", update("@@ one\n+B\n"), "one\ntwo\n", "one\nB\ntwo\n"),
        ("unknown anchor", update("@@ three\n-b\n+B\n"), "a\nb\n", "a\nB\n"),
        ("end", update("@@\n-b\n+B\n*** End of File\n"), "b\nb\n", "b\nB\n"),
        ("append", update("@@\n+B\n*** End of File\n\n"), "a", "a\nB"),
        ("CRLF", update("@@\n a\n-b\n+1\n+2\n"), "a\r\nb\r\n", "a\r\n1\r\n2\r\n"),
        ("line number", update("@@ -3,1 +3,1 @@\n-b\n+B\n"), "b\nx\nb\n", "b\nx\nB\n"),
    ];
    for (name, patch, old, new) in cases {
        assert_eq!(one(&patch, old).as_deref(), Ok(new), "{name}: {patch}");
        let fenced = format!("Here it is:\n{}", patch.replace('\n', "\r\n"));
        assert_eq!(one(&fenced, old).as_deref(), Ok(new), "{name}, CRLF: {patch}");
    }
}

#[test]
fn what_fits_nowhere_or_twice_is_refused() {
    let cases: [(String, &str, &str); 16] = [
        (diff("@@ -4,2 +4,2 @@\n-b\n+B\n c\n"), "b\nc\n\n\n\n\nb\nc\nx\n", "fits in 2 places, at lines 1, 7"),
        (diff("@@ ... @@\n-b\n+B\n"), "b\nb\n", "fits in 2 places, at lines 1, 2"),
        (update("-b\n+B\n"), "b\nb\n", "fits in 2 places, at lines 1, 2"),
        (update("@@ f\n-b\n+B\n"), "f\nb\nf\nb\n", "fits in 2 places, at lines 2, 4"),
        (update("-b\n+B\n@@\n-a\n+A\n"), "a\nb\n", "hunk 2 fits only at line 1, before"),
        (
            diff("@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n"),
            "x\na\nbb\nc\n",
            "line 3 should be \"b\" after one line that fits; it has:\n1\tx\n2\ta\n3\tbb\n4\tc",
        ),
        (
            update("@@\n-hello world\n+B\n"),
            "a\nhello, world\n",
            "line 2 should be \"hello world\"; it has:\n1\ta\n2\thello, world",
        ),
        (update("@@\n+B\n"), "a\n", "has no line of context"),
        (diff("@@ -1,0 +2 @@\n+B\n"), "a\nb\nc\n", "has no line of context"),
        (diff("@@ -0,0 +1 @@\n+B\n"), "a\n", "has no line of context"),
        (
            update("@@ def fob():\n-b\n+B\n"),
            "def foo():\nb\nb\n",
            "is not in the file; the most similar line:\n1\tdef foo():",
        ),
        (update("-b\n+B\n*** End of File\n"), "b\nc\n", "line 2 should be \"b\"; it has:\n1\tb\n2\tc"),
        (diff("@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -2,2 +2,2 @@\n b\n-c\n+C\n"), "a\nb\nc\n", "hunk 2"),
        (
            diff("@@ -9 +9 @@\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n"),
            "b\nc\n",
            "line 2 should be",
        ),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n".into(), "a\nb\n", "does not remove\n1\tb"),
        ("diff --git a/x b/x\ndeleted file mode 100644\n".into(), "a\n", "lines that the patch does not remove\n1\ta"),
    ];
    for (patch, old, expected) in cases {
        let error = one(&patch, old).unwrap_err();
        assert!(error.to_string().contains(expected), "{patch}\n{error}");
        assert_eq!(error.path(), Some("x"));
    }
}

#[test]
fn all_files_are_changed_or_none() {
    let patch = "*** Begin Patch\n*** Add File: new\n+1\n+2\n\n*** Update File: x\n-a\n+A\n*** Delete File: old\n\
                 *** Update File: x\n A\n+B\n*** Update File: from\n*** Move to: to\n@@\n-f\n+g\n*** End Patch";
    let patch = Patch::parse(patch).unwrap();
    assert_eq!(patch.paths(), ["new", "x", "old", "from", "to"]);
    let read = |path: &str| {
        let content = match path {
            "x" => Some("a\n"),
            "old" => Some("1\n2\n3"),
            "from" => Some("f\n"),
            _ => None,
        };
        Ok::<_, PatchError>(content.map(|content| content.as_bytes().to_vec()))
    };
    let applied = patch.apply(read).unwrap();
    let summary: Vec<_> = applied
        .files
        .iter()
        .map(|file| (file.path.as_str(), &file.kind, str::from_utf8(&file.new).unwrap(), file.added, file.removed))
        .collect();
    let to = Kind::Rename { to: "to".into() };
    assert_eq!(
        summary,
        [
            ("new", &Kind::Create, "1\n2\n", 2, 0),
            ("x", &Kind::Modify, "A\nB\n", 2, 1),
            ("old", &Kind::Delete, "", 0, 3),
            ("from", &to, "g\n", 1, 1),
        ]
    );
    let taken = patch.apply(|path| if path == "to" { Ok(Some(Vec::new())) } else { read(path) });
    assert_eq!(taken, Err(PatchError::Exists { path: "to".into() }));
    let exists = patch.apply(|_| Ok::<_, PatchError>(Some(Vec::new())));
    assert_eq!(exists, Err(PatchError::Exists { path: "new".into() }));
    let missing = patch.apply(|_| Ok::<_, PatchError>(None));
    assert_eq!(missing, Err(PatchError::Missing { path: "x".into() }));
}

#[test]
fn bytes_that_are_not_text_stay() {
    let patch = Patch::parse(&diff("@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n")).unwrap();
    let new = apply(&patch.changes[0], Some(b"\xff\x00\r\na\nb\nc\n\xfe")).unwrap();
    assert_eq!(new, b"\xff\x00\r\na\nB\nc\n\xfe");
}

#[test]
fn hostile_patches_end_soon() {
    let begin = std::time::Instant::now();
    let file = "\n".repeat(1 << 20);
    let many = update(&"@@\n \n+\n".repeat(100_000));
    assert!(matches!(one(&many, &file), Err(PatchError::Ambiguous { .. })));
    let long = update(&format!("@@\n{}-x\n+y\n", " \n".repeat(200_000)));
    assert!(matches!(one(&long, &file), Err(PatchError::TooComplex { .. })));
    let blanks = " ".repeat(5 << 20);
    let anchors = update(&"@@ x\n-b\n+B\n".repeat(1000));
    assert!(matches!(one(&anchors, &blanks), Err(PatchError::NoAnchor { .. })));
    assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{:?}", begin.elapsed());
}
