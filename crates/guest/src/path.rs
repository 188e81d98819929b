//! Resolves client paths to absolute ones: `~`, relative to the home directory, normalised by text as in E2B.

use std::path::{Path, PathBuf};

use crate::users::Account;

const MAX_PATH: usize = 4095;

/// Why a path is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPath {
    #[error("path contains a NUL byte")]
    Nul,
    /// Longer than the kernel accepts.
    #[error("path is longer than {MAX_PATH} bytes")]
    Long,
    /// `~other` would need another user's home directory.
    #[error("path '{0}': only '~' and '~/…' are expanded")]
    OtherHome(String),
}

/// Resolves to an absolute path. An empty path is the default working directory, or the home directory.
pub(crate) fn resolve(text: &str, account: &Account, workdir: Option<&str>) -> Result<PathBuf, InvalidPath> {
    if text.contains('\0') {
        return Err(InvalidPath::Nul);
    }
    let path = match text.strip_prefix('~') {
        None if text.is_empty() => workdir.map_or_else(|| account.home.clone(), |w| account.home.join(w)),
        None => account.home.join(text),
        Some("") => account.home.clone(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(rest) => account.home.join(rest.trim_start_matches('/')),
            None => return Err(InvalidPath::OtherHome(text.chars().take(100).collect())),
        },
    };
    if path.as_os_str().len() > MAX_PATH {
        return Err(InvalidPath::Long);
    }
    Ok(clean(&path))
}

/// Drops `.` and empty components and resolves `..`, never above the root.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            std::path::Component::Normal(name) => clean.push(name),
            std::path::Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// The last component, as shown in listings.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| "/".to_owned(), |n| n.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account() -> Account {
        Account { name: "user".to_owned(), uid: 1000, gid: 1000, home: PathBuf::from("/home/user") }
    }

    #[test]
    fn resolves() {
        let at = |text: &str| resolve(text, &account(), Some("/app")).map(|p| p.to_string_lossy().into_owned());
        for (text, expected) in [
            ("", "/app"),
            ("/", "/"),
            ("~", "/home/user"),
            ("~/", "/home/user"),
            ("~//x", "/home/user/x"),
            ("~/x/../y", "/home/user/y"),
            ("x", "/home/user/x"),
            ("./x//y/.", "/home/user/x/y"),
            ("../../../etc", "/etc"),
            ("/a/~b", "/a/~b"),
        ] {
            assert_eq!(at(text).unwrap(), expected, "{text}");
        }
        assert_eq!(at("~other/x"), Err(InvalidPath::OtherHome("~other/x".to_owned())));
        assert_eq!(at("a\0b"), Err(InvalidPath::Nul));
        assert_eq!(at(&"x/".repeat(3000)), Err(InvalidPath::Long));
        assert_eq!(resolve("", &account(), None).unwrap(), PathBuf::from("/home/user"));
        assert_eq!(resolve("", &account(), Some("work")).unwrap(), PathBuf::from("/home/user/work"));
    }

    proptest! {
        #[test]
        fn always_absolute_and_clean(text in "[~/. a-c]{0,40}") {
            if let Ok(path) = resolve(&text, &account(), None) {
                prop_assert!(path.is_absolute());
                prop_assert!(!path.components().any(|c| matches!(c, std::path::Component::ParentDir | std::path::Component::CurDir)));
                prop_assert_eq!(clean(&path), path);
            }
        }
    }
}
