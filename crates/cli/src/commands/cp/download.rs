//! Copies out of a sandbox. File names from the sandbox are untrusted: none may lead outside the destination, and no
//! links are created.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabana_client::{FileEntry, FileKind, SandboxHandle};
use futures_util::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use tokio::io::AsyncWriteExt;

use super::{MAX_DEPTH, MAX_ENTRIES, PARALLEL};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::clean;

pub(super) async fn stream(sandbox: &SandboxHandle, path: &str) -> Result<(), Failure> {
    let mut contents = sandbox.read_file(path).await?;
    let mut out = tokio::io::stdout();
    while let Some(chunk) = contents.next().await {
        out.write_all(&chunk?).await?;
    }
    Ok(out.flush().await?)
}

pub(super) async fn path(
    sandbox: SandboxHandle,
    from: &str,
    destination: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let entry = sandbox.stat(from).await?;
    // `Path` drops a trailing slash, which means that the destination is a directory.
    let wants_directory = destination.as_os_str().as_encoded_bytes().ends_with(b"/");
    let target = if wants_directory || destination.is_dir() {
        destination.join(safe_name(from_name(from, &entry))?)
    } else {
        destination.to_owned()
    };
    let mut tree = Tree::default();
    match entry.kind {
        FileKind::File => tree.add_file(&entry, target),
        FileKind::Directory => tree.walk(&sandbox, &entry.path, target, context).await?,
        FileKind::Symlink => return Err(Failure::user_error(format!("{from} is a dangling symbolic link"))),
        FileKind::Other => return Err(Failure::user_error(format!("{from} is neither a file nor a directory"))),
    }
    for directory in &tree.directories {
        std::fs::create_dir_all(directory)
            .map_err(|e| Failure::from(e).context(format!("cannot create {}", directory.display())))?;
    }
    let bar = context.out.byte_bar(Some(tree.bytes));
    futures_util::stream::iter(tree.files)
        .map(|file| fetch(&sandbox, file, bar.clone()))
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<()>>()
        .await?;
    bar.finish_and_clear();
    Ok(())
}

/// The base name of the source: as typed, or the sandbox's name for `.` and the like.
fn from_name<'a>(from: &'a str, entry: &'a FileEntry) -> &'a str {
    match from.trim_end_matches('/').rsplit('/').next() {
        Some(name) if !matches!(name, "" | "." | ".." | "~") => name,
        _ => &entry.name,
    }
}

/// Validates a file name from a sandbox: a single path component.
fn safe_name(name: &str) -> Result<&str, Failure> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(Failure::user_error(format!("the sandbox has a file with the invalid name `{}`", clean(name))));
    }
    Ok(name)
}

struct Download {
    from: String,
    to: PathBuf,
    mode: u32,
}

/// Everything to copy.
#[derive(Default)]
struct Tree {
    directories: Vec<PathBuf>,
    files: Vec<Download>,
    bytes: u64,
}

impl Tree {
    async fn walk(
        &mut self,
        sandbox: &SandboxHandle,
        from: &str,
        to: PathBuf,
        context: &Context,
    ) -> Result<(), Failure> {
        let mut pending = vec![(from.to_owned(), to, 0)];
        while let Some((from, to, depth)) = pending.pop() {
            if depth > MAX_DEPTH {
                return Err(Failure::user_error(format!("{} is more than {MAX_DEPTH} levels deep", clean(&from))));
            }
            self.directories.push(to.clone());
            for entry in sandbox.list_dir(&from, 1).await? {
                let name = safe_name(&entry.name)?;
                let (inside, target) = (super::join(&from, name), to.join(name));
                match entry.kind {
                    FileKind::File => self.add_file(&FileEntry { path: inside, ..entry.clone() }, target),
                    // Following a link to a directory could loop or leave the source.
                    FileKind::Directory if entry.symlink_target.is_none() => pending.push((inside, target, depth + 1)),
                    _ => context.out.warn(&format!("{} is a link or a device: skipped", clean(&inside))),
                }
                if self.files.len() + self.directories.len() + pending.len() > MAX_ENTRIES {
                    return Err(Failure::user_error(format!("there are more than {MAX_ENTRIES} files to copy")));
                }
            }
        }
        Ok(())
    }

    fn add_file(&mut self, entry: &FileEntry, to: PathBuf) {
        self.bytes = self.bytes.saturating_add(entry.size);
        self.files.push(Download { from: entry.path.clone(), to, mode: entry.mode });
    }
}

async fn fetch(sandbox: &SandboxHandle, download: Download, bar: ProgressBar) -> Result<(), Failure> {
    let Download { from, to, mode } = download;
    let mut contents =
        sandbox.read_file(&from).await.map_err(|e| Failure::from(e).context(clean(&from).into_owned()))?;
    let describe = |e: std::io::Error| Failure::from(e).context(format!("cannot write {}", to.display()));
    let mut file = tokio::fs::File::create(&to).await.map_err(describe)?;
    while let Some(chunk) = contents.next().await {
        let chunk = chunk?;
        file.write_all(&chunk).await.map_err(describe)?;
        bar.inc(chunk.len() as u64);
    }
    file.flush().await.map_err(describe)?;
    if file.metadata().await.map_err(describe)?.is_file() {
        // Set-id bits are dropped.
        file.set_permissions(Permissions::from_mode(mode & 0o777)).await.map_err(describe)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_names_are_rejected() {
        for wrong in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0b"] {
            assert!(safe_name(wrong).is_err(), "{wrong:?}");
        }
        for right in ["a", "...", ".hidden", "with space", "ü"] {
            assert!(safe_name(right).is_ok(), "{right:?}");
        }
    }
}
