//! Paths of tools. Unlike in the files API, relative ones start at the working directory of commands.

use std::path::{Path, PathBuf};

use cabana_types::tool::ToolErrorCode as Code;

use super::refuse::{Refused, plain};
use crate::path;
use crate::users::Account;

/// Where relative paths start, and what `~` is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) account: Account,
    base: String,
}

impl Place {
    /// As for commands: the working directory if it exists, else the home directory.
    pub(crate) fn new(account: Account, workdir: Option<&str>) -> Self {
        let workdir = workdir.map(|workdir| account.home.join(workdir)).filter(|workdir| workdir.is_dir());
        let base = workdir.unwrap_or_else(|| account.home.clone()).to_string_lossy().into_owned();
        Self { account, base }
    }

    /// Resolves to an absolute path without `.` and `..`.
    pub(crate) fn resolve(&self, text: &str) -> Result<PathBuf, Refused> {
        let joined = match text.as_bytes().first() {
            None => return Err(plain(Code::InvalidArguments, "the path is empty")),
            Some(b'/' | b'~') => path::resolve(text, &self.account, None),
            Some(_) => path::resolve(&format!("{}/{text}", self.base), &self.account, None),
        };
        let resolved = joined.map_err(|e| plain(Code::InvalidArguments, format!("invalid path: {e}")))?;
        match resolved.components().any(|c| c.as_os_str().len() > 255) {
            true => Err(plain(Code::InvalidArguments, "invalid path: a name in it has more than 255 bytes")),
            false => Ok(resolved),
        }
    }
}

/// The path below `root`, as text; the name of `root` for itself.
pub(crate) fn relative(path: &Path, root: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(rest) if !rest.as_os_str().is_empty() => rest.to_string_lossy().into_owned(),
        _ => path::name(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_at_the_working_directory() {
        let account = Account { name: "user".to_owned(), uid: 1000, gid: 1000, home: PathBuf::from("/home/user") };
        let at = |workdir: Option<&str>, text: &str| {
            Place::new(account.clone(), workdir)
                .resolve(text)
                .map_err(|r| r.code)
                .map(|p| p.to_string_lossy().into_owned())
        };
        for (workdir, text, expected) in [
            (Some("/usr"), "x", "/usr/x"),
            (Some("/usr"), ".", "/usr"),
            (Some("/usr"), "./a/../../b", "/b"),
            (Some("/usr"), "~/x", "/home/user/x"),
            (Some("/usr"), "/x", "/x"),
            (Some("/missing"), "x", "/home/user/x"),
            (None, "x", "/home/user/x"),
        ] {
            assert_eq!(at(workdir, text).unwrap(), expected, "{workdir:?} {text}");
        }
        for bad in ["", "a\0b", "~other", &"x/".repeat(3000), &"y".repeat(256)] {
            assert_eq!(at(None, bad), Err(Code::InvalidArguments), "{bad}");
        }
    }
}
