//! The build context, packed for the server. The archive is reproducible, so that an unchanged context is not uploaded
//! again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabana_archive::{Entry, Kind, Writer};
use cabana_image::Stop;
use cabana_image::digest::Hasher;
use cabana_image::dockerfile::{Context, ContextEntry, ContextKind, ContextLimits, Ignore};
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::HumanBytes;
use rustix::fs::{Mode, OFlags};

use super::upload::Upload;
use crate::failure::Failure;

/// Timeout for packing.
const PACK_TIMEOUT: Duration = Duration::from_secs(3600);
/// Limit on scanned files; beyond the upload limit, so that the largest directories can be reported.
const MAX_SCANNED: usize = 2_000_000;
/// Number of directories reported when the context is too large.
const REPORTED_DIRECTORIES: usize = 5;

/// The build context directory.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| Failure::user_error(format!("cannot read the directory {}: {e}", path.display())))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// A template name derived from the directory's name.
    pub(super) fn template_name(&self) -> Option<String> {
        let real = std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).ok()?;
        template_name(&real.file_name()?.to_string_lossy())
    }

    /// Ignore rules: the Dockerfile's own `.dockerignore` file, or the directory's.
    pub(super) fn ignore(&self, dockerfile: &Path) -> Result<Ignore, Failure> {
        let mut own = dockerfile.as_os_str().to_owned();
        own.push(".dockerignore");
        for path in [PathBuf::from(own), self.path.join(".dockerignore")] {
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    let wrong = |reason| Failure::user_error(reason).context(format!("cannot use {}", path.display()));
                    return Ignore::parse(&text).map_err(wrong);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Failure::from(e).context(format!("cannot read {}", path.display()))),
            }
        }
        Ok(Ignore::default())
    }

    /// Packs everything that is not ignored; `None` if the context is empty. Blocks.
    pub(super) fn pack(&self, ignore: &Ignore, how: Compression) -> Result<Option<Upload>, Failure> {
        let stop = Stop::after(PACK_TIMEOUT);
        let most = ContextLimits::default();
        let limits = ContextLimits { entries: MAX_SCANNED, bytes: u64::MAX, ..most };
        let wrong = |e: cabana_image::Error| Failure::user_error(cabana_types::error::chain(&e));
        let context = Context::read(self.fd.as_fd(), ignore, &limits, &stop).map_err(wrong)?;
        let (files, bytes) = context.entries().fold((0, 0), |(n, bytes), entry| (n + 1, bytes + entry.size));
        if files > most.entries || bytes > most.bytes {
            let what = format!(
                "the build context {} has {files} files of {}; the limit is {} files of {}",
                self.path.display(),
                HumanBytes(bytes),
                most.entries,
                HumanBytes(most.bytes),
            );
            return Err(Failure::user_error(what).hint(exclude_hint(&largest(&context, files > most.entries))));
        }
        if files == 0 {
            return Ok(None);
        }
        let packed = write(&context, how);
        let (mut file, hash) = packed.map_err(|f| f.context(format!("cannot pack {}", self.path.display())))?;
        let length = file.stream_position()?;
        file.rewind()?;
        let (what, too_large_hint) = (format!("{files} files"), exclude_hint(&largest(&context, false)));
        Ok(Some(Upload { file, length, hash, what, too_large_hint }))
    }
}

/// Converts a file or directory name to a template name.
pub(super) fn template_name(name: &str) -> Option<String> {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '-' };
    let name: String = name.to_lowercase().chars().map(plain).collect();
    Some(name.trim_matches('-').to_owned()).filter(|name| !name.is_empty())
}

/// Hint for a context that is too large.
fn exclude_hint(largest: &str) -> String {
    format!("exclude with .dockerignore what the Dockerfile does not copy; largest: {largest}")
}

/// Writes the archive to an unnamed temporary file. Times and owners are omitted: they do not matter.
fn write(context: &Context, how: Compression) -> Result<(File, String), Failure> {
    let out = GzEncoder::new(BufWriter::new(tempfile::tempfile()?), how);
    let mut archive = Writer::new(Hashed { out, hasher: Hasher::default() });
    for entry in context.entries() {
        let header = header(entry);
        let written = match &entry.kind {
            ContextKind::File => {
                let mut file =
                    context.open(&entry.path).map_err(|e| Failure::user_error(cabana_types::error::chain(&e)))?;
                archive.append(&header, &mut file)
            }
            _ => archive.append(&header, &mut io::empty()),
        };
        written.map_err(|e| Failure::from(e).context(entry.path.clone()))?;
    }
    let Hashed { out, hasher } = archive.finish()?;
    let file = out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((file, hasher.finish().hex()))
}

fn header(entry: &ContextEntry) -> Entry {
    let (kind, link) = match &entry.kind {
        ContextKind::File => (Kind::File, Vec::new()),
        ContextKind::Directory => (Kind::Directory, Vec::new()),
        ContextKind::Symlink(target) => (Kind::Symlink, target.clone().into_bytes()),
    };
    Entry { link, size: entry.size, ..Entry::new(kind, entry.path.as_str(), entry.mode) }
}

/// Hashes everything that is written.
struct Hashed<W> {
    out: W,
    hasher: Hasher,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Describes the largest directories, by size or by number of files.
fn largest(context: &Context, by_count: bool) -> String {
    let mut places: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in context.entries().filter(|entry| entry.kind != ContextKind::Directory) {
        // The first directory, and its first subdirectory.
        for (end, _) in entry.path.match_indices('/').chain([(entry.path.len(), "")]).take(2) {
            let (bytes, files) = places.entry(&entry.path[..end]).or_default();
            *bytes += entry.size;
            *files += 1;
        }
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by_key(|(_, (bytes, files))| std::cmp::Reverse(if by_count { *files } else { *bytes }));
    let shown = places.iter().take(REPORTED_DIRECTORIES).map(|(path, (bytes, files))| match by_count {
        true => format!("{path} ({files} files)"),
        false => format!("{path} ({})", HumanBytes(*bytes)),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn files(names: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::Builder::new().prefix("My App.").tempdir().expect("directory");
        for (name, content) in names {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
            std::fs::write(path, content).expect("write");
        }
        root
    }

    fn pack(root: &Path, ignore: &str) -> Option<Upload> {
        let rules = Ignore::parse(ignore).expect("rules");
        Directory::open(root).expect("open").pack(&rules, Compression::fast()).expect("packed")
    }

    #[test]
    fn archives_are_reproducible() {
        let (a, b) = (files(&[("x/y", "1"), ("z", "22")]), files(&[("z", "22"), ("x/y", "1")]));
        for root in [&a, &b] {
            symlink("/nowhere", root.path().join("link")).expect("link");
            std::fs::set_permissions(root.path().join("z"), PermissionsExt::from_mode(0o640)).expect("mode");
            std::fs::set_permissions(root.path().join("x/y"), PermissionsExt::from_mode(0o644)).expect("mode");
            std::fs::set_permissions(root.path().join("x"), PermissionsExt::from_mode(0o755)).expect("mode");
        }
        let (first, second) = (pack(a.path(), "").expect("files"), pack(b.path(), "").expect("files"));
        assert_eq!((&first.hash, first.length, &first.what[..]), (&second.hash, second.length, "4 files"));
        std::fs::write(b.path().join("z"), "23").expect("write");
        assert_ne!(pack(b.path(), "").expect("files").hash, first.hash);
        assert_ne!(pack(a.path(), "x").expect("files").hash, first.hash);
        assert!(pack(a.path(), "*").is_none());
    }

    #[test]
    fn the_largest_directories_are_reported() {
        let root = files(&[("data/big", &"x".repeat(3000)), ("data/old/a", "1"), ("src/a", "1"), ("b", "22")]);
        let packed = pack(root.path(), "").expect("files");
        assert!(
            packed.too_large_hint.contains("largest: data (2.93 KiB), data/big (2.93 KiB), "),
            "{}",
            packed.too_large_hint
        );
    }

    #[test]
    fn a_directory_name_becomes_a_template_name() {
        let root = files(&[("x", "")]);
        let name = Directory::open(&root.path().join(".")).expect("open").template_name().expect("name");
        assert!(name.starts_with("my-app-"), "{name}");
        assert_eq!(Directory::open(Path::new("/")).expect("open").template_name(), None);
    }
}
