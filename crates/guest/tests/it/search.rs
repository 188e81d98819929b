//! Agent tools that search: content by patterns, paths by fuzzy matching.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::tools::{code, grep_request, guest, ok, put};

#[test]
fn searching() {
    let guest = guest();
    put(&guest, "a.rs", "fn main() {\n    needle();\n}\nNEEDLE\nneedle\n");
    put(&guest, "sub/b.txt", "one needle\r\ntwo\r\n");
    put(&guest, "bin", b"needle\n\0needle\n");
    put(&guest, "target/out.rs", "needle");
    put(&guest, ".gitignore", "target/\n");
    put(&guest, ".env", "needle");
    let with = |changes: Value| {
        let mut body = grep_request("needle");
        changes.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        ok(&guest, "/grep", &body)
    };
    let paths = |answer: &Value| {
        answer["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all = with(json!({}));
    assert_eq!(paths(&all), "a.rs sub/b.txt");
    assert_eq!((&all["total_matches"], &all["total_files"], &all["truncated"]), (&json!(4), &json!(2), &json!(false)));
    assert_eq!(all["files"][1]["lines"], json!([{"number": 1, "text": "one needle", "matched": true}]));
    assert_eq!(with(json!({"case": "sensitive"}))["total_matches"], 3);
    assert_eq!(with(json!({"pattern": "NEEDLE"}))["total_matches"], 1);
    assert_eq!(with(json!({"pattern": "NEEDLE", "case": "insensitive"}))["total_matches"], 4);
    assert_eq!(with(json!({"pattern": "needle()", "literal": true}))["total_matches"], 1);
    assert_eq!(paths(&with(json!({"ignored": true}))), ".env a.rs sub/b.txt target/out.rs");
    assert_eq!(paths(&with(json!({"include": ["*.rs"]}))), "a.rs");
    assert_eq!(paths(&with(json!({"exclude": ["sub/**"]}))), "a.rs");
    let context = with(json!({"context": 1, "include": ["*.rs"], "per_file": 1}));
    let numbers: Vec<_> =
        context["files"][0]["lines"].as_array().unwrap().iter().map(|l| l["number"].as_u64().unwrap()).collect();
    assert_eq!(
        (numbers, &context["files"][0]["count"], &context["truncated"]),
        (vec![1, 2, 3], &json!(3), &json!(true))
    );
    let limited = with(json!({"limit": 2}));
    assert_eq!(
        (limited["files"].as_array().unwrap().len(), &limited["total_matches"], &limited["truncated"]),
        (1, &json!(4), &json!(true))
    );
    let files = with(json!({"output": "files"}));
    assert_eq!((paths(&files), files["files"][0].get("lines")), ("a.rs sub/b.txt".to_owned(), None));
    assert_eq!(paths(&with(json!({"path": "sub/b.txt"}))), "b.txt");
    assert_eq!(paths(&with(json!({"path": "target"}))), "out.rs", "a directory that is named is searched");
    for (changes, expected) in [
        (json!({"pattern": "("}), "invalid_arguments"),
        (json!({"pattern": "(a{1000}){1000}"}), "invalid_arguments"),
        (json!({"include": ["[a"]}), "invalid_arguments"),
        (json!({"path": "missing"}), "file_not_found"),
        (json!({"path": "bin"}), "binary_file"),
        (json!({"path": "/dev/zero"}), "not_a_file"),
        (json!({"path": "/proc"}), "invalid_arguments"),
    ] {
        let mut body = grep_request("needle");
        changes.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        assert_eq!(code(&guest, "/grep", &body), expected, "{changes}");
    }
}

#[test]
fn a_search_is_not_held_up_by_hostile_files() {
    let guest = guest();
    put(&guest, "ok", "needle");
    put(&guest, "sub/ok", "needle");
    for fifo in ["fifo", ".gitignore", "sub/.ignore"] {
        assert!(Command::new("mkfifo").arg(guest.dir().join("w").join(fifo)).status().unwrap().success());
    }
    symlink("/dev/zero", guest.dir().join("w/zero")).unwrap();
    symlink("/dev/zero", guest.dir().join("w/sub/.gitignore")).unwrap();
    symlink("..", guest.dir().join("w/sub/up")).unwrap();
    assert_eq!(ok(&guest, "/grep", &grep_request("needle"))["total_files"], 2);
    let find = json!({"query": "ok", "path": ".", "kind": "any", "limit": 10, "ignored": false});
    assert_eq!(ok(&guest, "/find", &find)["paths"], json!(["ok", "sub/ok"]));
}

#[test]
fn agrees_with_grep_on_random_trees() {
    let guest = guest();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..6 {
        for number in 0..150 {
            let depth = random(4);
            let mut name = format!("r{round}");
            (0..depth).for_each(|_| name.push_str(&format!("/d{}", random(3))));
            let text: String = (0..random(40))
                .map(|_| ["ab", "a", "b c", "\n", "\n", "é", "xyz"][usize::try_from(random(7)).unwrap()])
                .collect();
            put(&guest, &format!("{name}/f{number}"), text);
        }
        for pattern in ["ab", "^a", "c$", "a.*z", "(ab){2,}", "é", "[^abc ]"] {
            let root = guest.dir().join(format!("w/r{round}"));
            let model = Command::new("grep")
                .args(["-rcE", pattern, "."])
                .env("LC_ALL", "C.UTF-8")
                .current_dir(&root)
                .output()
                .unwrap();
            let mut expected: Vec<(String, u64)> = String::from_utf8(model.stdout)
                .unwrap()
                .lines()
                .filter_map(|line| line.trim_start_matches("./").rsplit_once(':'))
                .map(|(path, count)| (path.to_owned(), count.parse().unwrap()))
                .filter(|(_, count)| *count > 0)
                .collect();
            expected.sort_by(|a, b| Path::new(&a.0).cmp(Path::new(&b.0)));
            let mut body = grep_request(pattern);
            body["path"] = json!(format!("r{round}"));
            body["output"] = json!("count");
            let answer = ok(&guest, "/grep", &body);
            let found: Vec<(String, u64)> = answer["files"]
                .as_array()
                .unwrap()
                .iter()
                .map(|f| (f["path"].as_str().unwrap().to_owned(), f["count"].as_u64().unwrap()))
                .collect();
            assert_eq!(found, expected, "{pattern}");
            assert_eq!(answer["total_matches"], expected.iter().map(|(_, c)| c).sum::<u64>());
        }
    }
}

#[test]
fn finding() {
    let guest = guest();
    for name in ["src/main.rs", "src/domain.rs", "tests/it/main.rs", "node_modules/main.rs", "docs/maintain.md"] {
        put(&guest, name, "");
    }
    put(&guest, ".gitignore", "node_modules\n");
    let find = |query: &str, kind: &str, limit: usize| {
        ok(&guest, "/find", &json!({"query": query, "path": ".", "kind": kind, "limit": limit, "ignored": false}))
    };
    let answer = find("main.rs", "file", 2);
    assert_eq!(answer, json!({"paths": ["src/main.rs", "tests/it/main.rs"], "total": 3, "truncated": true}));
    assert_eq!(find("it", "directory", 9)["paths"], json!(["tests/it/"]));
    assert_eq!(find("nothing like it", "any", 9), json!({"paths": [], "total": 0, "truncated": false}));
    assert_eq!(
        code(&guest, "/find", &json!({"query": " ", "path": ".", "kind": "any", "limit": 1, "ignored": false})),
        "invalid_arguments"
    );
}
