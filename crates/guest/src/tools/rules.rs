//! Ignore files: `.gitignore`, `.ignore` and `.git/info/exclude`, of a directory and those above it. They are read like all files of a
//! sandbox: never from a FIFO or device, and with a limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use crate::open;

const MAX_FILE: u64 = 1 << 20;
const MAX_LINES: usize = 10_000;
const MAX_GLOB: usize = 1024;

/// What ignore files say about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Silent,
    Ignore,
    /// Listed although another rule, or its leading dot, would hide it.
    Keep,
}

/// Rules of one directory, and of those above it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    parent: Option<Arc<Rules>>,
    ignore: Option<Gitignore>,
    git: Vec<Gitignore>,
    /// Whether it is the top of a repository: `.gitignore` files above it do not count.
    is_repository: bool,
}

impl Rules {
    /// Rules for a directory that a search starts in.
    pub(crate) fn above(directory: &Path) -> Arc<Self> {
        let mut rules = Arc::new(Self::default());
        let mut above: Vec<_> = directory.ancestors().skip(1).collect();
        above.reverse();
        for path in above {
            if let Ok(fd) = open::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
                rules = rules.child(&fd, path);
            }
        }
        rules
    }

    /// Adds the rules of a directory below.
    pub(crate) fn child(self: &Arc<Self>, fd: &OwnedFd, path: &Path) -> Arc<Self> {
        let is_repository = rustix::fs::statat(fd, ".git", rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let exclude = if is_repository { load(fd, ".git/info/exclude", path) } else { None };
        let git: Vec<_> = load(fd, ".gitignore", path).into_iter().chain(exclude).collect();
        let ignore = load(fd, ".ignore", path);
        if ignore.is_none() && git.is_empty() && !is_repository {
            return Arc::clone(self);
        }
        Arc::new(Self { parent: Some(Arc::clone(self)), ignore, git, is_repository })
    }

    /// Judges an absolute path; the nearest rule decides, `.ignore` before git's.
    pub(crate) fn verdict(&self, path: &Path, is_dir: bool) -> Verdict {
        let mut level = Some(self);
        while let Some(rules) = level {
            if let Some(found) = rules.ignore.as_ref().and_then(|rules| judge(rules, path, is_dir)) {
                return found;
            }
            level = rules.parent.as_deref();
        }
        level = Some(self);
        while let Some(rules) = level {
            if let Some(found) = rules.git.iter().find_map(|rules| judge(rules, path, is_dir)) {
                return found;
            }
            level = rules.parent.as_deref().filter(|_| !rules.is_repository);
        }
        Verdict::Silent
    }
}

fn judge(rules: &Gitignore, path: &Path, is_dir: bool) -> Option<Verdict> {
    match rules.matched(path, is_dir) {
        Match::None => None,
        Match::Ignore(_) => Some(Verdict::Ignore),
        Match::Whitelist(_) => Some(Verdict::Keep),
    }
}

fn load(fd: &OwnedFd, name: &str, root: &Path) -> Option<Gitignore> {
    let file = open::open_below(fd, OsStr::new(name).as_ref(), OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    if !rustix::fs::fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    let mut builder = GitignoreBuilder::new(root);
    for line in String::from_utf8_lossy(&bytes).lines().filter(|line| line.len() <= MAX_GLOB).take(MAX_LINES) {
        // A line that is not a glob is left out, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
