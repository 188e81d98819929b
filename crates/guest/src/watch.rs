//! Watching a directory by inotify, with everything below it where asked, including directories that appear later.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use cabana_proto::filesystem::{EventType, FilesystemEvent};
use connectrpc::ConnectError;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;

use crate::entry;
use crate::error::rpc_io;
use crate::input::{Watched, watched};
use crate::users::Names;

/// Directories of one watch. The kernel's limit is shared with other sandboxes, so this stays far below it.
const MAX_DIRECTORIES: usize = 8192;
/// Entries of a directory that appeared at once, which are told as created.
const MAX_FOUND: usize = 16_384;

const MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What a client asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The directory, absolute.
    pub(crate) path: PathBuf,
    /// Everything below, too.
    pub(crate) recursive: bool,
    /// Whether events tell what the file is.
    pub(crate) include_entry: bool,
}

/// Something the kernel told.
struct Told {
    watch: i32,
    flags: ReadFlags,
    name: Option<OsString>,
}

/// A tree of watched directories, not yet known to the runtime.
pub(crate) struct Tree {
    inotify: OwnedFd,
    wanted: Wanted,
    /// Watched directories, relative to the root.
    directories: HashMap<i32, PathBuf>,
    root: i32,
    /// Names that were found when a directory appeared; the kernel may tell some of them again.
    found: HashSet<(i32, OsString)>,
    events: VecDeque<FilesystemEvent>,
}

impl Tree {
    /// Starts watching; walks the tree where the watch is recursive.
    pub(crate) fn start(wanted: Wanted) -> Result<Self, ConnectError> {
        match std::fs::metadata(&wanted.path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let message = format!("path '{}' is not a directory", wanted.path.display());
                return Err(ConnectError::invalid_argument(message));
            }
            Err(cause) => return Err(rpc_io("watch", &wanted.path, &cause)),
        }
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|e| rpc_io("watch", &wanted.path, &e.into()))?;
        let root =
            inotify::add_watch(&inotify, &wanted.path, MASK).map_err(|e| rpc_io("watch", &wanted.path, &e.into()))?;
        let directories = HashMap::from([(root, PathBuf::new())]);
        let mut tree = Self { inotify, wanted, directories, root, found: HashSet::new(), events: VecDeque::new() };
        if tree.wanted.recursive {
            tree.descend(PathBuf::new(), None)?;
        }
        Ok(tree)
    }

    /// Watches what lies below a directory that is watched already. With `appeared`, what is found is told as created.
    fn descend(&mut self, below: PathBuf, appeared: Option<i32>) -> Result<(), ConnectError> {
        let told = appeared.is_some();
        let mut todo = vec![(below, appeared)];
        while let Some((relative, watch)) = todo.pop() {
            // It may be gone again.
            let Ok(entries) = std::fs::read_dir(self.wanted.path.join(&relative)) else { continue };
            for entry in entries.flatten() {
                let child = relative.join(entry.file_name());
                if told && self.found.len() < MAX_FOUND {
                    if let Some(watch) = watch {
                        self.found.insert((watch, entry.file_name()));
                    }
                    self.tell(&child, EventType::EVENT_TYPE_CREATE);
                }
                if entry.file_type().is_ok_and(|t| t.is_dir())
                    && let Some(watch) = self.add(&child)?
                {
                    todo.push((child, told.then_some(watch)));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, relative: &Path) -> Result<Option<i32>, ConnectError> {
        let full = self.wanted.path.join(relative);
        if self.directories.len() >= MAX_DIRECTORIES {
            return Err(too_many(&self.wanted.path));
        }
        match inotify::add_watch(&self.inotify, &full, MASK | WatchFlags::DONT_FOLLOW) {
            Ok(watch) => {
                self.directories.insert(watch, relative.to_owned());
                Ok(Some(watch))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
            Err(Errno::NOSPC) => Err(too_many(&self.wanted.path)),
            Err(cause) => Err(rpc_io("watch", &full, &cause.into())),
        }
    }

    fn handle(&mut self, told: Told) -> Result<(), ConnectError> {
        let Told { watch, flags, name } = told;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Err(ConnectError::data_loss("too many file system events at once: some were lost"));
        }
        let Some(directory) = self.directories.get(&watch).cloned() else { return Ok(()) };
        if flags.contains(ReadFlags::IGNORED) {
            self.directories.remove(&watch);
            return Ok(());
        }
        let Some(name) = name else {
            // The parent's watch tells about every directory but the root.
            if watch == self.root
                && let Some(kind) = kind_of_self(flags)
            {
                self.tell(Path::new("."), kind);
            }
            return Ok(());
        };
        let relative = directory.join(&name);
        let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let went = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        let known = (appeared || went) && self.found.remove(&(watch, name));
        if !(known && appeared)
            && let Some(kind) = kind_of(flags)
        {
            self.tell(&relative, kind);
        }
        if self.wanted.recursive && flags.contains(ReadFlags::ISDIR) {
            if flags.contains(ReadFlags::MOVED_FROM) {
                self.leave(&relative);
            } else if appeared
                && !known
                && let Some(watch) = self.add(&relative)?
            {
                self.descend(relative, Some(watch))?;
            }
        }
        Ok(())
    }

    /// A directory was moved away: its watches would tell stale names.
    fn leave(&mut self, relative: &Path) {
        let gone: Vec<i32> =
            self.directories.iter().filter(|(_, path)| path.starts_with(relative)).map(|(watch, _)| *watch).collect();
        for watch in gone {
            self.directories.remove(&watch);
            // Gone with its directory already, perhaps.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    fn tell(&mut self, relative: &Path, kind: EventType) {
        let entry = if self.wanted.include_entry {
            entry::look(&self.wanted.path.join(relative), &Names::read()).ok()
        } else {
            None
        };
        self.events.push_back(FilesystemEvent {
            name: relative.to_string_lossy().into_owned(),
            r#type: kind.into(),
            entry: entry.map(Into::into).unwrap_or_default(),
            ..Default::default()
        });
    }

    /// Takes in what the kernel has; `WouldBlock` where it has nothing.
    fn read(inotify: &OwnedFd) -> io::Result<Vec<Told>> {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut told = Vec::new();
        loop {
            let event = reader.next()?;
            let name = event.file_name().map(|n| OsString::from_vec(n.to_bytes().to_vec()));
            told.push(Told { watch: event.wd(), flags: event.events(), name });
            if reader.is_buffer_empty() {
                return Ok(told);
            }
        }
    }
}

/// A tree that the runtime waits on.
pub(crate) struct Watch {
    ready: Watched,
    tree: Tree,
}

impl Watch {
    /// Starts watching, away from the one thread that serves everybody.
    pub(crate) async fn start(wanted: Wanted) -> Result<Self, ConnectError> {
        let tree = crate::blocking::run(move || Tree::start(wanted)).await?;
        let ready = tree.inotify.try_clone().and_then(watched);
        let ready = ready.map_err(|e| ConnectError::internal(format!("cannot wait for file system events: {e}")))?;
        Ok(Self { ready, tree })
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<FilesystemEvent, ConnectError> {
        loop {
            if let Some(event) = self.tree.events.pop_front() {
                return Ok(event);
            }
            let told = match Tree::read(&self.tree.inotify) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    // Everything that was queued when directories appeared has been told.
                    self.tree.found.clear();
                    self.ready.async_io(Interest::READABLE, Tree::read).await
                }
                answer => answer,
            };
            let told = told.map_err(|e| ConnectError::internal(format!("cannot read file system events: {e}")))?;
            for event in told {
                self.tree.handle(event)?;
            }
        }
    }
}

fn kind_of(flags: ReadFlags) -> Option<EventType> {
    Some(if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        EventType::EVENT_TYPE_CREATE
    } else if flags.contains(ReadFlags::MODIFY) {
        EventType::EVENT_TYPE_WRITE
    } else if flags.contains(ReadFlags::DELETE) {
        EventType::EVENT_TYPE_REMOVE
    } else if flags.contains(ReadFlags::MOVED_FROM) {
        EventType::EVENT_TYPE_RENAME
    } else if flags.contains(ReadFlags::ATTRIB) {
        EventType::EVENT_TYPE_CHMOD
    } else {
        return None;
    })
}

fn kind_of_self(flags: ReadFlags) -> Option<EventType> {
    if flags.contains(ReadFlags::DELETE_SELF) {
        Some(EventType::EVENT_TYPE_REMOVE)
    } else if flags.contains(ReadFlags::MOVE_SELF) {
        Some(EventType::EVENT_TYPE_RENAME)
    } else if flags.contains(ReadFlags::ATTRIB) {
        Some(EventType::EVENT_TYPE_CHMOD)
    } else {
        None
    }
}

fn too_many(path: &Path) -> ConnectError {
    ConnectError::resource_exhausted(format!(
        "too many directories below '{}' to watch: watch a smaller tree, or not recursively",
        path.display()
    ))
}
