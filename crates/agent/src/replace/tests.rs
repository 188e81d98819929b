//! Tables of replacements.

use super::*;

fn request<'a>(find: &'a str, replace: &'a str) -> Request<'a> {
    Request { path: "x", find, replace, all: false, regex: false, expected_count: None }
}

#[test]
fn text_is_replaced_as_often_as_asked_for() {
    let one = request("b", "B");
    let all = Request { all: true, ..one };
    let two = Request { expected_count: Some(2), ..one };
    let cases: [(&str, Request<'_>, Result<&str, ReplaceError>); 9] = [
        ("a b c\n", one, Ok("a B c\n")),
        ("a b b\n", all, Ok("a B B\n")),
        ("b\nb\n", two, Ok("B\nB\n")),
        ("b\n", two, Err(ReplaceError::WrongCount { path: "x".into(), expected: 2, count: 1, lines: vec![1] })),
        ("b\nx\nb\n", one, Err(ReplaceError::NotUnique { path: "x".into(), count: 2, lines: vec![1, 3] })),
        ("xyz", one, Err(ReplaceError::NoMatch { path: "x".into(), nearest: None })),
        ("aaa", request("aa", "b"), Err(ReplaceError::NotUnique { path: "x".into(), count: 2, lines: vec![1, 1] })),
        ("aaa", Request { all: true, ..request("aa", "b") }, Ok("ba")),
        ("$1", request("$1", "$2"), Ok("$2")),
    ];
    for (old, request, expected) in cases {
        let found = find_replace(old.as_bytes(), &request).map(|replaced| String::from_utf8(replaced.content).unwrap());
        assert_eq!(found, expected.map(str::to_owned), "{old:?} {request:?}");
    }
    assert_eq!(find_replace(b"", &request("", "x")), Err(ReplaceError::Empty));
}

#[test]
fn what_is_not_there_is_answered_with_the_nearest_line() {
    let old = b"fn main() {\n    println!(\"hello\");\n}\n";
    let error = find_replace(old, &request("println!(\"hallo\");\n", "x")).unwrap_err();
    let nearest = Some((2, "    println!(\"hello\");".to_owned()));
    assert_eq!(error, ReplaceError::NoMatch { path: "x".into(), nearest });
    assert!(error.to_string().contains("the most similar line is 2"), "{error}");
    let many = "b\n".repeat(30);
    let ReplaceError::NotUnique { count, lines, .. } = find_replace(many.as_bytes(), &request("b", "")).unwrap_err()
    else {
        panic!("it is not unique");
    };
    assert_eq!((count, lines), (30, (1..=20).collect()));
}

#[test]
fn line_ends_are_those_of_the_file() {
    let cases: [(&str, Request<'_>, &str); 7] = [
        ("a\r\nb\r\nc\r\n", request("a\nb", "1\n2\n3"), "1\r\n2\r\n3\r\nc\r\n"),
        ("a\r\nb\r\n", request("a", "1\n2"), "1\r\n2\r\nb\r\n"),
        ("a\nb\n", request("a\r\nb", "1\r\n2"), "1\n2\n"),
        ("a\r\nb\r\nc\n", request("a\nb", "1\n2"), "1\r\n2\r\nc\n"),
        ("a\r\nb\r\n", Request { regex: true, ..request("a$\\nb", "1\n2") }, "1\r\n2\r\n"),
        ("a\r\nb\r\n", Request { regex: true, all: true, ..request("^(.)$", "<$1>") }, "<a>\r\n<b>\r\n"),
        ("a\r\nb\r\n", Request { regex: true, ..request("a\\r\\nb", "x") }, "x\r\n"),
    ];
    for (old, request, new) in cases {
        let replaced = find_replace(old.as_bytes(), &request).unwrap();
        assert_eq!(String::from_utf8(replaced.content).unwrap(), new, "{old:?} {request:?}");
    }
}

#[test]
fn regular_expressions_have_groups_and_bounds() {
    let (large, long) = ("x".repeat(200_000), "a".repeat(5000));
    let regex = |find, replace| Request { regex: true, all: true, ..request(find, replace) };
    let found = find_replace(b"a=1\nb=2\n", &regex(r"^(\w)=(?<value>\d)$", "${value}=$1$$")).unwrap();
    assert_eq!((found.content.as_slice(), found.count), (&b"1=a$\n2=b$\n"[..], 2));
    assert_eq!((found.diff.added, found.diff.removed), (2, 2));
    let invalid = find_replace(b"\xff1\xfe", &regex("1", "2")).unwrap();
    assert_eq!(invalid.content, b"\xff2\xfe");
    assert_eq!(find_replace(b"a", &regex("(a)", "$1b")), Err(ReplaceError::NoGroup { group: "1b".into() }));
    assert_eq!(find_replace(b"a", &regex("a", "$1")), Err(ReplaceError::NoGroup { group: "1".into() }));
    assert!(matches!(find_replace(b"a", &regex("(", "")), Err(ReplaceError::Regex { .. })));
    assert!(matches!(find_replace(b"a", &regex(r"\w{1000}{1000}", "")), Err(ReplaceError::Regex { .. })));
    assert!(matches!(find_replace(b"a", &regex(&long, "")), Err(ReplaceError::Regex { .. })));
    let grows = find_replace(&vec![b'a'; 100_000], &Request { all: true, ..request("a", &large) });
    assert_eq!(grows, Err(ReplaceError::TooLarge { path: "x".into() }));
    let empty = find_replace(&vec![b'a'; 100_000], &regex("", &large));
    assert_eq!(empty, Err(ReplaceError::Empty));
    let empty = find_replace(&vec![b'a'; 100_000], &regex("b*", &large));
    assert_eq!(empty, Err(ReplaceError::TooLarge { path: "x".into() }));
}
