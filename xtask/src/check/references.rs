//! References to tests and code in documents: `` `path` ``, `` `path::function` ``.

use crate::source::{File, views};

/// The references in a text: what stands between backticks and looks like a path.
pub(super) fn references(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|quoted| is_path(quoted)).collect()
}

fn is_path(quoted: &str) -> bool {
    let path = quoted.split("::").next().unwrap_or(quoted);
    !quoted.contains(' ')
        && (path.contains('/') || path.rsplit_once('.').is_some_and(|(_, end)| end != "*" && !end.is_empty()))
}

/// What is wrong with a reference, if anything.
pub(super) fn resolve(reference: &str, files: &[File]) -> Result<(), String> {
    let (path, function) = reference.split_once("::").map_or((reference, None), |(path, name)| (path, Some(name)));
    let path = path.strip_prefix("./").unwrap_or(path);
    let folder = format!("{}/", path.trim_end_matches('/'));
    if files.iter().any(|file| file.path.starts_with(&folder)) {
        return Err(format!("`{reference}` is a whole folder. Name the file, or the test as `file::function`"));
    }
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return Err(format!("`{reference}` does not exist. Name the file from the root of the repository"));
    };
    let Some(function) = function else { return Ok(()) };
    let name = function.rsplit("::").next().unwrap_or(function);
    let code = if file.is_rust() { views(&file.text).code } else { file.text.clone() };
    if code.contains(&format!("fn {name}(")) || code.contains(&format!("def {name}(")) {
        return Ok(());
    }
    Err(format!("{path} has no function {name}. Was the test renamed?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::file;

    #[test]
    fn references_are_paths_in_backticks() {
        let text = "`a/b.rs`, `POST /x y`, `./test`, `c.py::test_d`, `boot_id`, and plain/path";
        assert_eq!(references(text), ["a/b.rs", "./test", "c.py::test_d"]);
    }

    #[test]
    fn files_and_functions_must_exist() {
        let files =
            [file("a/b.rs", "// fn old() {}\nfn it_works() {}"), file("c.py", "def test_d(x):\n"), file("test", "")];
        for good in ["a/b.rs", "a/b.rs::it_works", "a/b.rs::tests::it_works", "c.py::test_d", "./test"] {
            assert_eq!(resolve(good, &files), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("a", "whole folder"),
            ("a/c.rs", "not exist"),
            ("a/b.rs::old", "no function old"),
            ("c.py::test", "no function"),
        ] {
            assert!(resolve(bad, &files).unwrap_err().contains(why), "{bad}");
        }
    }
}
