//! The build context: the files that `COPY` can use, without those excluded by `.dockerignore`, and a digest of each
//! selection that changes exactly when a copy of it would. Opened by descriptors; links are copied, never followed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::glob::{Pattern, is_pattern};
use super::ignore::Ignore;
use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result, shown};
use crate::stop::Stop;

/// Limits of a context.
#[derive(Debug, Clone)]
pub struct ContextLimits {
    /// Files, directories and links.
    pub entries: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Directories inside each other.
    pub depth: usize,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 8 << 30, depth: 128 }
    }
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link and where it leads.
    Symlink(String),
}

/// Something in the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextEntry {
    /// Relative to the context.
    pub path: String,
    /// What it is.
    pub kind: ContextKind,
    /// Permissions.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
}

/// A directory whose files can be copied.
#[derive(Debug)]
pub struct Context {
    root: OwnedFd,
    entries: BTreeMap<String, ContextEntry>,
    digests: Mutex<BTreeMap<String, Digest>>,
}

/// What a `COPY` copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// For each thing that a source named: its path (empty for the context itself), and all entries it stands for,
    /// beginning with itself.
    pub named: Vec<(String, Vec<ContextEntry>)>,
    /// Changes when names, kinds, permissions or content change; not with times and owners.
    pub digest: Digest,
}

fn open(at: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd> {
    // Non-blocking, in case a pipe has replaced the file.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    beneath::open(at, path, flags, Mode::empty(), Resolve::NoLinksNoMounts).map_err(Error::path("open", path))
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::Context(reason.into())
}

impl Context {
    /// Lists the directory. Blocks.
    pub fn read(root: BorrowedFd<'_>, ignore: &Ignore, limits: &ContextLimits, stop: &Stop) -> Result<Self> {
        let root = open(root, ".", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut listing = Listing { entries: BTreeMap::new(), seen: 0, bytes: 0, ignore, limits, stop };
        listing.directory(root.as_fd(), "", 0)?;
        Ok(Self { root, entries: listing.entries, digests: Mutex::default() })
    }

    /// All entries, in the order of their paths.
    pub fn entries(&self) -> impl Iterator<Item = &ContextEntry> {
        self.entries.values()
    }

    /// Opens a file of the context.
    pub fn open(&self, path: &str) -> Result<File> {
        let file = File::from(open(self.root.as_fd(), path, OFlags::RDONLY)?);
        if !file.metadata().map_err(Error::io("look at a file of the build context"))?.is_file() {
            return Err(wrong(format!("{} is not a file any more", shown(path.as_bytes()))));
        }
        Ok(file)
    }

    /// Resolves the sources of a `COPY`. Blocks: files are read for the digest.
    pub fn select(&self, sources: &[String], excludes: &[String], stop: &Stop) -> Result<Selection> {
        let excludes = Ignore::parse(&excludes.join("\n")).map_err(wrong)?;
        let mut named = Vec::new();
        for source in sources {
            let path = clean(source)?;
            let before = named.len();
            if is_pattern(&path) {
                let pattern = Pattern::parse(&path).map_err(wrong)?;
                named.extend(self.entries.keys().filter(|path| pattern.matches(path)).cloned());
            } else if path.is_empty() || self.entries.contains_key(&path) {
                named.push(path);
            } else {
                let name = shown(source.as_bytes());
                return Err(wrong(format!("{name} is not there, or .dockerignore leaves it out")));
            }
            if named.len() == before && sources.len() == 1 {
                return Err(wrong(format!("nothing fits {}", shown(source.as_bytes()))));
            }
        }
        let mut hasher = Hasher::default();
        let mut selected = Vec::new();
        for base in named {
            let entries: Vec<ContextEntry> =
                self.under(&base).filter(|entry| !is_excluded(&excludes, &base, &entry.path)).cloned().collect();
            put(&mut hasher, &[b"source", base.as_bytes()]);
            for entry in &entries {
                self.add(&mut hasher, entry, stop)?;
            }
            selected.push((base, entries));
        }
        Ok(Selection { named: selected, digest: hasher.finish() })
    }

    /// An entry and all below it.
    fn under<'a>(&'a self, base: &'a str) -> impl Iterator<Item = &'a ContextEntry> {
        let own = self.entries.get(base);
        // `0` is the character after the slash.
        let (from, to) = if base.is_empty() {
            (String::new(), "\u{10ffff}".to_owned())
        } else {
            (format!("{base}/"), format!("{base}0"))
        };
        own.into_iter().chain(self.entries.range(from..to).map(|(_, entry)| entry))
    }

    fn add(&self, hasher: &mut Hasher, entry: &ContextEntry, stop: &Stop) -> Result<()> {
        let mode = entry.mode.to_le_bytes();
        match &entry.kind {
            ContextKind::Directory => put(hasher, &[b"directory", entry.path.as_bytes(), &mode]),
            ContextKind::Symlink(target) => put(hasher, &[b"link", entry.path.as_bytes(), target.as_bytes()]),
            ContextKind::File => {
                let digest = self.digest(&entry.path, stop)?.to_string();
                put(hasher, &[b"file", entry.path.as_bytes(), &mode, digest.as_bytes()]);
            }
        }
        Ok(())
    }

    /// Of a file's content; each is read once.
    fn digest(&self, path: &str, stop: &Stop) -> Result<Digest> {
        if let Some(known) = self.digests.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(*known);
        }
        let size = self.entries.get(path).map_or(0, |entry| entry.size);
        // Not more than was counted, in case it grows.
        let mut file = self.open(path)?.take(size);
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; 128 << 10];
        loop {
            stop.check("reading the build context")?;
            match file.read(&mut buffer).map_err(Error::io("read a file of the build context"))? {
                0 => break,
                n => hasher.update(&buffer[..n]),
            }
        }
        let digest = hasher.finish();
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), digest);
        Ok(digest)
    }
}

/// By its path in the context, or below what was named.
fn is_excluded(excludes: &Ignore, base: &str, path: &str) -> bool {
    let below = path.strip_prefix(base).map(|rest| rest.trim_start_matches('/')).filter(|rest| !rest.is_empty());
    excludes.excludes(path) || below.is_some_and(|rest| excludes.excludes(rest))
}

/// With lengths, so that different lists of parts have different encodings.
fn put(hasher: &mut Hasher, parts: &[&[u8]]) {
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
}

/// A source relative to the context; a slash in front means the context itself.
fn clean(source: &str) -> Result<String> {
    let mut parts = Vec::new();
    for part in source.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(wrong(format!("{} is outside of it", shown(source.as_bytes())))),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

struct Listing<'a> {
    entries: BTreeMap<String, ContextEntry>,
    seen: usize,
    bytes: u64,
    ignore: &'a Ignore,
    limits: &'a ContextLimits,
    stop: &'a Stop,
}

impl Listing<'_> {
    fn directory(&mut self, directory: BorrowedFd<'_>, prefix: &str, depth: usize) -> Result<()> {
        if depth > self.limits.depth {
            return Err(wrong(format!("{} is nested too deep", shown(prefix.as_bytes()))));
        }
        for entry in Dir::read_from(directory).map_err(Error::path("list", prefix))? {
            self.stop.check("reading the build context")?;
            let entry = entry.map_err(Error::path("list", prefix))?;
            let raw = entry.file_name();
            if matches!(raw.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > self.limits.entries {
                return Err(wrong(format!(
                    "it has more than {} files: leave some out with .dockerignore",
                    self.limits.entries
                )));
            }
            let Ok(name) = raw.to_str() else {
                return Err(wrong(format!("the name {} is not UTF-8", shown(raw.to_bytes()))));
            };
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
            let stat =
                rustix::fs::statat(directory, raw, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::path("look at", &path))?;
            let excluded = self.ignore.excludes(&path);
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => ContextKind::File,
                FileType::Symlink => {
                    let target =
                        rustix::fs::readlinkat(directory, raw, Vec::new()).map_err(Error::path("read", &path))?;
                    ContextKind::Symlink(target.to_string_lossy().into_owned())
                }
                FileType::Directory => {
                    if self.ignore.excludes_all(&path) {
                        continue;
                    }
                    ContextKind::Directory
                }
                // Pipes, sockets and devices have no content to copy.
                _ => continue,
            };
            let is_directory = kind == ContextKind::Directory;
            let size = if kind == ContextKind::File { u64::try_from(stat.st_size).unwrap_or_default() } else { 0 };
            let made = ContextEntry { path: path.clone(), kind, mode: stat.st_mode & 0o7777, size };
            let before = self.entries.len();
            if is_directory {
                let inner = open(directory, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                self.directory(inner.as_fd(), &path, depth + 1)?;
            }
            // An excluded directory is included if something in it is.
            if !excluded || (is_directory && self.entries.len() > before) {
                self.bytes = self.bytes.saturating_add(size);
                if self.bytes > self.limits.bytes {
                    return Err(wrong(format!(
                        "it is larger than {} bytes: leave some out with .dockerignore",
                        self.limits.bytes
                    )));
                }
                self.entries.insert(path, made);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            let files = Self(tempfile::tempdir().unwrap());
            for (path, content) in
                [("a.txt", "1"), ("b.txt", "2"), ("src/main.rs", "3"), ("src/x/y.rs", "4"), ("src-other/z", "5")]
            {
                files.write(path, content);
            }
            std::os::unix::fs::symlink("/etc/passwd", files.0.path().join("link")).unwrap();
            files
        }

        fn write(&self, path: &str, content: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn context(&self, ignore: &str) -> Result<Context> {
            let root = File::open(self.0.path()).unwrap();
            Context::read(root.as_fd(), &Ignore::parse(ignore).unwrap(), &ContextLimits::default(), &stop())
        }

        fn select(&self, ignore: &str, sources: &[&str]) -> Result<Selection> {
            let sources: Vec<String> = sources.iter().map(|s| (*s).to_owned()).collect();
            self.context(ignore)?.select(&sources, &[], &stop())
        }
    }

    fn stop() -> Stop {
        Stop::after(Duration::from_secs(20))
    }

    fn paths(selection: &Selection) -> Vec<&str> {
        selection.named.iter().flat_map(|(_, entries)| entries).map(|entry| &entry.path[..]).collect()
    }

    #[test]
    fn sources_stand_for_files() {
        let files = Files::new();
        let of = |ignore: &str, sources: &[&str]| {
            let selection = files.select(ignore, sources).unwrap();
            paths(&selection).join(" ")
        };
        assert_eq!(of("", &["*.txt"]), "a.txt b.txt");
        assert_eq!(of("", &["src"]), "src src/main.rs src/x src/x/y.rs");
        assert_eq!(of("", &["./src/x/", "a.txt"]), "src/x src/x/y.rs a.txt");
        assert_eq!(of("", &["link"]), "link");
        assert_eq!(of("src*\nlink", &["."]), "a.txt b.txt");
        assert_eq!(of("*\n!src/x", &["/"]), "src src/x src/x/y.rs");
        assert_eq!(of("", &["a.txt", "nothing*"]), "a.txt", "a pattern beside others may fit nothing");
        for (ignore, source) in
            [("", "c.txt"), ("a.txt", "a.txt"), ("", "*.md"), ("", "../x"), ("", "src/../../x"), ("", "[")]
        {
            assert!(matches!(files.select(ignore, &[source]), Err(Error::Context(_))), "{source}");
        }
        let context = files.context("").unwrap();
        let selection =
            context.select(&[".".to_owned()], &["**/*.rs".to_owned(), "src-other".to_owned()], &stop()).unwrap();
        assert_eq!(paths(&selection).join(" "), "a.txt b.txt link src src/x");
        assert!(context.open("link").is_err() && context.open("src").is_err() && context.open("../x").is_err());
    }

    #[test]
    fn digests_change_with_what_would_be_copied_and_nothing_else() {
        let files = Files::new();
        let digest = |sources: &[&str]| files.select("", sources).unwrap().digest;
        let (src, all, txt) = (digest(&["src"]), digest(&["."]), digest(&["*.txt"]));
        let touched = fs::File::options().write(true).open(files.0.path().join("src/main.rs")).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!((src, all, txt), (digest(&["src"]), digest(&["."]), digest(&["*.txt"])), "times do not count");
        files.write("src/main.rs", "changed");
        assert!(src != digest(&["src"]) && all != digest(&["."]) && txt == digest(&["*.txt"]));
        let before = digest(&["a.txt"]);
        fs::set_permissions(files.0.path().join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(before, digest(&["a.txt"]), "permissions count");
        assert_ne!(digest(&["a.txt", "b.txt"]), digest(&["b.txt", "a.txt"]));
        let before = digest(&["*.txt"]);
        fs::rename(files.0.path().join("b.txt"), files.0.path().join("c.txt")).unwrap();
        assert_ne!(before, digest(&["*.txt"]), "names count");
    }

    #[test]
    fn limits_hold_and_odd_files_are_passed_over() {
        let files = Files::new();
        rustix::fs::mkfifoat(File::open(files.0.path()).unwrap(), "pipe", Mode::from_raw_mode(0o600)).unwrap();
        assert!(!files.context("").unwrap().entries().any(|entry| entry.path == "pipe"));
        let root = File::open(files.0.path()).unwrap();
        for limits in [
            ContextLimits { entries: 3, ..ContextLimits::default() },
            ContextLimits { bytes: 3, ..ContextLimits::default() },
            ContextLimits { depth: 1, ..ContextLimits::default() },
        ] {
            let result = Context::read(root.as_fd(), &Ignore::default(), &limits, &stop());
            assert!(matches!(result, Err(Error::Context(_))), "{limits:?}");
        }
    }
}
