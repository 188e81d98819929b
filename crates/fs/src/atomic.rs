//! Replacing files atomically: the new content is written to a draft beside the file and renamed over it. Readers see the old file or the
//! new one. A draft that a crash leaves behind is overwritten by the next write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

/// Replaces a file. When this returns, the new content survives a power failure.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let draft = draft(path);
    let file = create(&draft, content, mode)?;
    publish(&file, &draft, path)
}

/// Like [`write`], but does not wait for the disk: only for files below `/run`, which do not survive a reboot anyway.
pub fn write_volatile(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let draft = draft(path);
    create(&draft, content, mode)?;
    fs::rename(&draft, path)
}

/// Gives a complete draft, in the same directory, its name. When this returns, content and name survive a power failure.
pub fn publish(file: &File, draft: &Path, path: &Path) -> io::Result<()> {
    // Content before name: after a power failure, a file that has its name must be complete.
    file.sync_all()?;
    fs::rename(draft, path)?;
    sync_directory(path)
}

/// The draft of a file: its name with the extension `new`.
pub fn draft(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn create(draft: &Path, content: &[u8], mode: u32) -> io::Result<File> {
    match fs::remove_file(draft) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    // Whatever the umask is.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    file.write_all(content)?;
    Ok(file)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    type Write = fn(&Path, &[u8], u32) -> io::Result<()>;
    const BOTH: [Write; 2] = [write, write_volatile];

    #[test]
    fn a_file_is_created_and_replaced() {
        for write in BOTH {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("state.json");
            for (content, mode) in [("one", 0o600), ("two", 0o644), ("", 0o400)] {
                write(&path, content.as_bytes(), mode).expect("written");
                assert_eq!(fs::read_to_string(&path).expect("read"), content);
                assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o7777, mode);
                assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "no draft is left");
            }
        }
    }

    #[test]
    fn readers_keep_the_old_file() {
        use std::io::Read;
        for write in BOTH {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("state.json");
            write(&path, b"old", 0o600).expect("written");
            let mut reader = File::open(&path).expect("opened");
            write(&path, b"new", 0o600).expect("written");
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("read");
            assert_eq!(text, "old");
        }
    }

    #[test]
    fn a_draft_of_a_crash_is_replaced_and_not_written_through() {
        for write in BOTH {
            let dir = tempfile::tempdir().expect("a directory");
            let (path, victim) = (dir.path().join("state.json"), dir.path().join("victim"));
            fs::write(&victim, "untouched").expect("written");
            fs::write(draft(&path), "half of a longer cont").expect("written");
            write(&path, b"whole", 0o600).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), "whole");
            std::os::unix::fs::symlink(&victim, draft(&path)).expect("linked");
            write(&path, b"again", 0o600).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), "again");
            assert_eq!(fs::read_to_string(&victim).expect("read"), "untouched");
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        for write in BOTH {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("state.json");
            write(&path, b"old", 0o600).expect("written");
            // A directory cannot be removed as a file, so the draft cannot be created.
            fs::create_dir(draft(&path)).expect("created");
            assert!(write(&path, b"new", 0o600).is_err());
            assert_eq!(fs::read_to_string(&path).expect("read"), "old");
        }
    }
}
