//! Knowledge that has one place: SQL in the store, HTTP status codes where HTTP is spoken, `unsafe` where the kernel is close.

use std::collections::BTreeMap;

use super::Problems;
use crate::source::{File, has_word, views};

/// What only statements have, in small letters.
const SQL: [&str; 6] = ["insert into ", "delete from ", "create table ", "create index ", "alter table ", "pragma "];

/// Whether the strings of a line hold a statement.
fn is_sql(strings: &str) -> bool {
    let text = strings.to_lowercase();
    let begins = |begin: &str, then: &str| text.contains(&format!("\"{begin} ")) && text.contains(&format!(" {then} "));
    SQL.iter().any(|part| text.contains(part)) || begins("select", "from") || begins("update", "set")
}

pub(super) fn check(
    files: &[File],
    status_codes: &BTreeMap<String, String>,
    unsafe_code: &BTreeMap<String, String>,
    problems: &mut Problems,
) {
    let product =
        files.iter().filter(|file| file.is_written_rust() && file.path.starts_with("crates/") && !file.is_test());
    for file in product {
        let views = views(&file.text);
        if file.member() != "store" {
            for (line, (code, strings)) in views.code.lines().zip(views.strings.lines()).enumerate() {
                if has_word(code, "sqlx") || is_sql(strings) {
                    problems.at(&file.path, line, "SQL is only in the store: give the store a function for it");
                }
            }
        }
        if !unsafe_code.contains_key(file.member()) {
            for (line, code) in views.code.lines().enumerate() {
                if has_word(code, "unsafe") {
                    let problem = "`unsafe` is only in the crates of [unsafe_code] in xtask/architecture.toml: put a safe function there";
                    problems.at(&file.path, line, problem);
                }
            }
        }
        if !status_codes.keys().any(|allowed| file.path.starts_with(allowed.as_str())) {
            for (line, code) in views.code.lines().enumerate() {
                if has_word(code, "StatusCode") {
                    let problem = "HTTP status codes are known only where HTTP is spoken: use an error of this crate, and \
                                   translate it there ([status_codes] in xtask/architecture.toml)";
                    problems.at(&file.path, line, problem);
                }
            }
        }
    }
    let unneeded =
        status_codes.keys().filter(|allowed| !files.iter().any(|file| file.path.starts_with(allowed.as_str())));
    for path in unneeded {
        problems.add(format!("xtask/architecture.toml: {path} does not exist. Remove it from [status_codes]"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(path: &str, text: &str) -> Vec<String> {
        let allowed = BTreeMap::from([("crates/edge/".to_owned(), String::new())]);
        let files = [file("crates/edge/src/lib.rs", ""), file(path, text)];
        let unsafe_code = BTreeMap::from([("jail".to_owned(), String::new())]);
        found(|problems| check(&files, &allowed, &unsafe_code, problems))
    }

    #[test]
    fn unsafe_elsewhere_is_found() {
        let source = "// unsafe\nfn f() { unsafe { g(\"unsafe\") } }";
        assert_eq!(problems("crates/jail/src/lib.rs", source), [""; 0]);
        let found = problems("crates/net/src/lib.rs", source);
        assert!(found.len() == 1 && found[0].starts_with("crates/net/src/lib.rs:2: "), "{found:?}");
    }

    #[test]
    fn sql_outside_the_store_is_found() {
        let source = "//! \"SELECT 1 FROM a\"\nfn f() { query(\"select 1 from a\") }\nuse sqlx::query;\nlet x = \"DELETE FROM a\";\n\
                      let plain = \"choose: select it from here\".len();";
        assert_eq!(problems("crates/store/src/lib.rs", source), [""; 0]);
        let found = problems("crates/server/src/lib.rs", source);
        assert!(found.len() == 3 && found[0].starts_with("crates/server/src/lib.rs:2: "), "{found:?}");
    }

    #[test]
    fn status_codes_elsewhere_are_found() {
        let source = "// StatusCode\nfn f() -> StatusCode { \"StatusCode\" }";
        assert_eq!(problems("crates/edge/src/lib.rs", source), [""; 0]);
        assert_eq!(problems("crates/server/tests/it/main.rs", source), [""; 0]);
        let found = problems("crates/runtime/src/lib.rs", source);
        assert!(found.len() == 1 && found[0].starts_with("crates/runtime/src/lib.rs:2: "), "{found:?}");
    }
}
