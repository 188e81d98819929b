//! Metadata of one file: the API's `EntryInfo`.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use buffa_types::google::protobuf::Timestamp;
use cabana_proto::filesystem::{EntryInfo, FileType};
use rustix::fs::{Mode, OFlags};

use crate::users::Names;
use crate::{metadata, open, path};

/// The least size of a directory: a block, as on ext4. On btrfs and overlay the kernel says 0 for an empty one, and
/// clients take that for missing.
const DIRECTORY_SIZE: u64 = 4096;

/// Reads a path's metadata. For a symbolic link, type and mode are those of its target.
pub(crate) fn stat(at: &Path, names: &Names) -> io::Result<EntryInfo> {
    let own = std::fs::symlink_metadata(at)?;
    let (kind, mode, target) = if own.is_symlink() {
        match std::fs::metadata(at) {
            Ok(target) => (kind_of(&target), target.mode(), Some(resolved(at))),
            Err(_) => (FileType::FILE_TYPE_SYMLINK, own.mode(), Some(resolved(at))),
        }
    } else {
        (kind_of(&own), own.mode(), None)
    };
    let size = if own.is_dir() { own.len().max(DIRECTORY_SIZE) } else { own.len() };
    Ok(EntryInfo {
        name: path::name(at),
        r#type: kind.into(),
        path: at.to_string_lossy().into_owned(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        mode: mode & 0o7777,
        permissions: permissions(&own),
        owner: names.user(own.uid()),
        group: names.group(own.gid()),
        modified_time: Timestamp {
            seconds: own.mtime(),
            nanos: i32::try_from(own.mtime_nsec()).unwrap_or(0),
            ..Default::default()
        }
        .into(),
        symlink_target: target.map(|t| t.to_string_lossy().into_owned()),
        metadata: if own.is_file() { metadata::read(at).into_iter().collect() } else { Default::default() },
        ..Default::default()
    })
}

fn kind_of(metadata: &Metadata) -> FileType {
    if metadata.is_dir() {
        FileType::FILE_TYPE_DIRECTORY
    } else if metadata.is_file() {
        FileType::FILE_TYPE_FILE
    } else {
        FileType::FILE_TYPE_UNSPECIFIED
    }
}

/// The final target of a link, or its text if it is dangling.
fn resolved(link: &Path) -> PathBuf {
    open::open(link, OFlags::PATH, Mode::empty())
        .and_then(|fd| open::real_path(&fd))
        .or_else(|_| std::fs::read_link(link))
        .unwrap_or_else(|_| link.to_owned())
}

/// Permissions in the format of `ls -l`.
fn permissions(metadata: &Metadata) -> String {
    let mode = metadata.mode();
    let kind = match mode & libc::S_IFMT {
        libc::S_IFDIR => 'd',
        libc::S_IFLNK => 'l',
        libc::S_IFIFO => 'p',
        libc::S_IFSOCK => 's',
        libc::S_IFCHR => 'c',
        libc::S_IFBLK => 'b',
        _ => '-',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, libc::S_ISUID, 's'), (3, libc::S_ISGID, 's'), (0, libc::S_ISVTX, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn files_links_and_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::read();
        let file = dir.path().join("file");
        std::fs::write(&file, "abc").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4644)).unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        symlink("nothing", dir.path().join("dangling")).unwrap();

        let entry = stat(&file, &names).unwrap();
        assert_eq!((entry.size, entry.mode, entry.permissions.as_str()), (3, 0o4644, "-rwSr--r--"));
        let link = stat(&dir.path().join("link"), &names).unwrap();
        assert_eq!(link.r#type, FileType::FILE_TYPE_FILE);
        assert_eq!(link.symlink_target.as_deref(), file.to_str());
        assert!(link.permissions.starts_with('l'));
        let dangling = stat(&dir.path().join("dangling"), &names).unwrap();
        assert_eq!(dangling.r#type, FileType::FILE_TYPE_SYMLINK);
        assert_eq!(dangling.symlink_target.as_deref(), Some("nothing"));
        assert!(stat(&dir.path().join("missing"), &names).is_err());
    }

    #[test]
    fn an_empty_directory_has_a_size() {
        // Sizes of directories depend on the file system: this one says 0.
        let names = Names::read();
        let empty = Path::new("/proc/self/task");
        assert_eq!(std::fs::metadata(empty).unwrap().len(), 0);
        assert_eq!(stat(empty, &names).unwrap().size, 4096);
    }
}
