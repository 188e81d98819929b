//! Walks a tree on several threads, honouring ignore files. Links are not followed, pseudo filesystems are not entered, and memory and
//! open files are bounded. The threads have the permissions of the one that starts them.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use ignore::Match;
use ignore::overrides::Override;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::Cancel;
use super::refuse::{self, Refused, about};
use super::rules::{Rules, Verdict};
use crate::guest::lock;
use crate::open;
use cabana_types::tool::ToolErrorCode as Code;

const MAX_THREADS: usize = 4;
const STACK: usize = 1 << 20;
/// Files that one thread takes at a time.
const BATCH: usize = 64;
/// Batches that wait; each may hold a directory open.
const MAX_BATCHES: usize = 128;

/// An entry of a directory. Directories are visited before what they contain.
pub(crate) struct Entry<'a> {
    /// Its directory.
    pub(crate) directory: &'a OwnedFd,
    pub(crate) name: &'a CStr,
    pub(crate) kind: FileType,
    /// Absolute.
    pub(crate) path: &'a Path,
}

/// What is done with entries; each thread has its own.
pub(crate) trait Visitor: Send {
    fn visit(&mut self, entry: &Entry<'_>);
}

/// A tree to walk.
pub(crate) struct Walk<'a> {
    /// The directory's real path.
    pub(crate) root: PathBuf,
    fd: OwnedFd,
    /// Globs to include and exclude; stronger than ignore files.
    pub(crate) globs: Override,
    /// Whether ignored and hidden files are visited.
    pub(crate) ignored: bool,
    pub(crate) max_entries: u64,
    pub(crate) cancel: &'a Cancel,
}

enum Work {
    Directory { path: PathBuf, rules: Arc<Rules> },
    Files { directory: Arc<OwnedFd>, path: PathBuf, names: Vec<(CString, FileType)> },
}

#[derive(Default)]
struct Queue {
    work: Vec<Work>,
    batches: usize,
    /// Threads that may add work.
    active: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    entries: AtomicU64,
    stopped: AtomicBool,
}

impl<'a> Walk<'a> {
    /// Opens a directory.
    pub(crate) fn open(path: &Path, ignored: bool, max_entries: u64, cancel: &'a Cancel) -> Result<Self, Refused> {
        let failed = |cause: std::io::Error| refuse::io("search", path, &cause);
        let fd = open::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map_err(failed)?;
        if open::is_kernel_made(&fd) {
            let why = "is on a pseudo filesystem, which is not searched; list it and read single files instead";
            return Err(about(Code::InvalidArguments, path, why));
        }
        let root = open::real_path(&fd).map_err(failed)?;
        Ok(Self { root, fd, globs: Override::empty(), ignored, max_entries, cancel })
    }

    /// Visits everything. Returns the visitors, and whether nothing was left out.
    pub(crate) fn run<V: Visitor>(&self, make: impl Fn() -> V) -> (Vec<V>, bool) {
        let shared = Shared::default();
        let rules = if self.ignored { Arc::default() } else { Rules::above(&self.root) };
        lock(&shared.queue).work.push(Work::Directory { path: self.root.clone(), rules });
        let count = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let visitors = thread::scope(|scope| {
            let others: Vec<_> = (1..count)
                .filter_map(|_| {
                    let visitor = make();
                    let builder = thread::Builder::new().name("walk".to_owned()).stack_size(STACK);
                    // With fewer threads it takes longer.
                    builder.spawn_scoped(scope, || self.work(&shared, visitor)).ok()
                })
                .collect();
            let own = self.work(&shared, make());
            let others = others.into_iter().filter_map(|thread| thread.join().ok());
            std::iter::once(own).chain(others).collect()
        });
        (visitors, !shared.stopped.load(Ordering::Relaxed))
    }

    fn work<V: Visitor>(&self, shared: &Shared, mut visitor: V) -> V {
        while let Some(work) = self.next(shared) {
            match work {
                Work::Directory { path, rules } => self.directory(shared, &mut visitor, path, &rules),
                Work::Files { directory, path, names } => self.files(shared, &mut visitor, &directory, path, &names),
            }
            let mut queue = lock(&shared.queue);
            queue.active -= 1;
            if queue.active == 0 && queue.work.is_empty() {
                shared.changed.notify_all();
            }
        }
        visitor
    }

    fn next(&self, shared: &Shared) -> Option<Work> {
        let mut queue = lock(&shared.queue);
        loop {
            if self.is_over(shared) {
                return None;
            }
            if let Some(work) = queue.work.pop() {
                queue.active += 1;
                queue.batches -= usize::from(matches!(work, Work::Files { .. }));
                return Some(work);
            }
            if queue.active == 0 {
                return None;
            }
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_over(&self, shared: &Shared) -> bool {
        self.cancel.is_set() || shared.stopped.load(Ordering::Relaxed)
    }

    fn files<V: Visitor>(
        &self,
        shared: &Shared,
        visitor: &mut V,
        directory: &OwnedFd,
        mut path: PathBuf,
        names: &[(CString, FileType)],
    ) {
        for (name, kind) in names {
            if self.is_over(shared) {
                return;
            }
            path.push(OsStr::from_bytes(name.to_bytes()));
            visitor.visit(&Entry { directory, name, kind: *kind, path: &path });
            path.pop();
        }
    }

    fn directory<V: Visitor>(&self, shared: &Shared, visitor: &mut V, mut path: PathBuf, rules: &Arc<Rules>) {
        let below = match path.strip_prefix(&self.root) {
            Ok(below) if !below.as_os_str().is_empty() => below,
            _ => Path::new("."),
        };
        // Not permitted, or gone.
        let Ok(fd) = open::open_below(&self.fd, below, OFlags::RDONLY | OFlags::DIRECTORY) else { return };
        if open::is_kernel_made(&fd) {
            return;
        }
        let rules = if self.ignored { Arc::clone(rules) } else { rules.child(&fd, &path) };
        let Ok(entries) = Dir::read_from(&fd) else { return };
        let fd = Arc::new(fd);
        let (mut names, mut found) = (Vec::new(), Vec::new());
        for entry in entries.map_while(Result::ok) {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if shared.entries.fetch_add(1, Ordering::Relaxed) >= self.max_entries {
                shared.stopped.store(true, Ordering::Relaxed);
            }
            if self.is_over(shared) {
                shared.changed.notify_all();
                return;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            path.push(OsStr::from_bytes(name.to_bytes()));
            if self.is_wanted(&path, name, kind, &rules) {
                if kind.is_dir() {
                    visitor.visit(&Entry { directory: &fd, name, kind, path: &path });
                    found.push(Work::Directory { path: path.clone(), rules: Arc::clone(&rules) });
                } else {
                    names.push((name.to_owned(), kind));
                }
            }
            path.pop();
            if names.len() >= BATCH {
                let names = std::mem::take(&mut names);
                if lock(&shared.queue).batches < MAX_BATCHES {
                    add(shared, [Work::Files { directory: Arc::clone(&fd), path: path.clone(), names }]);
                } else {
                    self.files(shared, visitor, &fd, path.clone(), &names);
                }
            }
            if found.len() >= BATCH {
                add(shared, found.drain(..));
            }
        }
        add(shared, found);
        self.files(shared, visitor, &fd, path, &names);
    }

    fn is_wanted(&self, path: &Path, name: &CStr, kind: FileType, rules: &Rules) -> bool {
        match self.globs.matched(path, kind.is_dir()) {
            Match::Ignore(_) => return false,
            Match::Whitelist(_) => return true,
            Match::None if self.ignored => return true,
            Match::None => {}
        }
        match rules.verdict(path, kind.is_dir()) {
            Verdict::Ignore => false,
            Verdict::Keep => true,
            Verdict::Silent => !name.to_bytes().starts_with(b"."),
        }
    }
}

fn add(shared: &Shared, work: impl IntoIterator<Item = Work>) {
    let mut queue = lock(&shared.queue);
    let before = queue.work.len();
    for work in work {
        queue.batches += usize::from(matches!(work, Work::Files { .. }));
        queue.work.push(work);
    }
    if queue.work.len() > before {
        shared.changed.notify_all();
    }
}
