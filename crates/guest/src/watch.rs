//! Directory watching with inotify, optionally recursive, including directories created later.

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
use crate::input::{RegisteredFd, register};
use crate::users::Names;

/// Limit on directories per watch; far below the kernel's limit, which is shared with other sandboxes.
const MAX_DIRECTORIES: usize = 8192;
/// Limit on existing entries of a new directory that are reported as created.
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

/// Parameters of a watch.
#[derive(Debug, Clone)]
pub(crate) struct WatchRequest {
    /// Absolute path of the directory.
    pub(crate) path: PathBuf,
    pub(crate) recursive: bool,
    /// Whether events include the file's metadata.
    pub(crate) include_entry: bool,
}

/// An inotify event.
struct RawEvent {
    watch: i32,
    flags: ReadFlags,
    name: Option<OsString>,
}

/// A tree of watched directories, not yet registered with the runtime.
pub(crate) struct Tree {
    inotify: OwnedFd,
    request: WatchRequest,
    /// Watched directories, relative to the root.
    directories: HashMap<i32, PathBuf>,
    root: i32,
    /// Names found when a directory appeared; the kernel may report some of them again.
    found: HashSet<(i32, OsString)>,
    events: VecDeque<FilesystemEvent>,
}

impl Tree {
    /// Starts watching; walks the tree if the watch is recursive.
    pub(crate) fn start(request: WatchRequest) -> Result<Self, ConnectError> {
        match std::fs::metadata(&request.path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let message = format!("path '{}' is not a directory", request.path.display());
                return Err(ConnectError::invalid_argument(message));
            }
            Err(cause) => return Err(rpc_io("watch", &request.path, &cause)),
        }
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|e| rpc_io("watch", &request.path, &e.into()))?;
        let root =
            inotify::add_watch(&inotify, &request.path, MASK).map_err(|e| rpc_io("watch", &request.path, &e.into()))?;
        let directories = HashMap::from([(root, PathBuf::new())]);
        let mut tree = Self { inotify, request, directories, root, found: HashSet::new(), events: VecDeque::new() };
        if tree.request.recursive {
            tree.watch_below(PathBuf::new(), None)?;
        }
        Ok(tree)
    }

    /// Watches everything below a watched directory. With `appeared`, existing entries are reported as created.
    fn watch_below(&mut self, below: PathBuf, appeared: Option<i32>) -> Result<(), ConnectError> {
        let report = appeared.is_some();
        let mut todo = vec![(below, appeared)];
        while let Some((relative, watch)) = todo.pop() {
            // It may have been removed again.
            let Ok(entries) = std::fs::read_dir(self.request.path.join(&relative)) else { continue };
            for entry in entries.flatten() {
                let child = relative.join(entry.file_name());
                if report && self.found.len() < MAX_FOUND {
                    if let Some(watch) = watch {
                        self.found.insert((watch, entry.file_name()));
                    }
                    self.emit(&child, EventType::EVENT_TYPE_CREATE);
                }
                if entry.file_type().is_ok_and(|t| t.is_dir())
                    && let Some(watch) = self.add(&child)?
                {
                    todo.push((child, report.then_some(watch)));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, relative: &Path) -> Result<Option<i32>, ConnectError> {
        let full = self.request.path.join(relative);
        if self.directories.len() >= MAX_DIRECTORIES {
            return Err(too_many(&self.request.path));
        }
        match inotify::add_watch(&self.inotify, &full, MASK | WatchFlags::DONT_FOLLOW) {
            Ok(watch) => {
                self.directories.insert(watch, relative.to_owned());
                Ok(Some(watch))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
            Err(Errno::NOSPC) => Err(too_many(&self.request.path)),
            Err(cause) => Err(rpc_io("watch", &full, &cause.into())),
        }
    }

    fn handle(&mut self, event: RawEvent) -> Result<(), ConnectError> {
        let RawEvent { watch, flags, name } = event;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Err(ConnectError::data_loss("too many file system events at once: some were lost"));
        }
        let Some(directory) = self.directories.get(&watch).cloned() else { return Ok(()) };
        if flags.contains(ReadFlags::IGNORED) {
            self.directories.remove(&watch);
            return Ok(());
        }
        let Some(name) = name else {
            // The parent's watch reports every directory except the root.
            if watch == self.root
                && let Some(kind) = kind_of_self(flags)
            {
                self.emit(Path::new("."), kind);
            }
            return Ok(());
        };
        let relative = directory.join(&name);
        let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let disappeared = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        let known = (appeared || disappeared) && self.found.remove(&(watch, name));
        if !(known && appeared)
            && let Some(kind) = kind_of(flags)
        {
            self.emit(&relative, kind);
        }
        if self.request.recursive && flags.contains(ReadFlags::ISDIR) {
            if flags.contains(ReadFlags::MOVED_FROM) {
                self.unwatch(&relative);
            } else if appeared
                && !known
                && let Some(watch) = self.add(&relative)?
            {
                self.watch_below(relative, Some(watch))?;
            }
        }
        Ok(())
    }

    /// Removes the watches of a directory that was moved away: they would report stale names.
    fn unwatch(&mut self, relative: &Path) {
        let gone: Vec<i32> =
            self.directories.iter().filter(|(_, path)| path.starts_with(relative)).map(|(watch, _)| *watch).collect();
        for watch in gone {
            self.directories.remove(&watch);
            // May already be gone with its directory.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    fn emit(&mut self, relative: &Path, kind: EventType) {
        let entry = if self.request.include_entry {
            entry::stat(&self.request.path.join(relative), &Names::read()).ok()
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

    /// Reads pending events from the kernel; `WouldBlock` if there are none.
    fn read(inotify: &OwnedFd) -> io::Result<Vec<RawEvent>> {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut events = Vec::new();
        loop {
            let event = reader.next()?;
            let name = event.file_name().map(|n| OsString::from_vec(n.to_bytes().to_vec()));
            events.push(RawEvent { watch: event.wd(), flags: event.events(), name });
            if reader.is_buffer_empty() {
                return Ok(events);
            }
        }
    }
}

/// A watched tree, registered with the runtime.
pub(crate) struct Watch {
    ready: RegisteredFd,
    tree: Tree,
}

impl Watch {
    /// Starts watching, on a blocking thread.
    pub(crate) async fn start(request: WatchRequest) -> Result<Self, ConnectError> {
        let tree = crate::blocking::run(move || Tree::start(request)).await?;
        let ready = tree.inotify.try_clone().and_then(register);
        let ready = ready.map_err(|e| ConnectError::internal(format!("cannot wait for file system events: {e}")))?;
        Ok(Self { ready, tree })
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<FilesystemEvent, ConnectError> {
        loop {
            if let Some(event) = self.tree.events.pop_front() {
                return Ok(event);
            }
            let events = match Tree::read(&self.tree.inotify) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    // All events that were queued when directories appeared have been handled.
                    self.tree.found.clear();
                    self.ready.async_io(Interest::READABLE, Tree::read).await
                }
                answer => answer,
            };
            let events = events.map_err(|e| ConnectError::internal(format!("cannot read file system events: {e}")))?;
            for event in events {
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
