//! Files of this machine to upload to `user-uploads/` of a sandbox.

use std::path::{Path, PathBuf};

use cabana_client::UploadFile;
use cabana_types::wire::{UploadStatus, UploadedFile};
use futures_util::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::failure::Failure;
use crate::output::{Output, clean};

/// Files of one request.
pub(crate) const MAX_FILES: usize = 200;
/// Files of one command.
const MAX_ENTRIES: usize = 100_000;
/// Directory levels.
const MAX_DEPTH: usize = 64;
/// Chunk size for reading files.
const CHUNK: usize = 128 * 1024;

/// A file to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalFile {
    pub(crate) path: PathBuf,
    /// Its path below `user-uploads/`.
    pub(crate) name: String,
    pub(crate) length: u64,
}

/// Lists files, with those in directories. Blocks.
pub(crate) fn collect(sources: &[PathBuf], out: &Output) -> Result<Vec<LocalFile>, Failure> {
    let mut files = Vec::new();
    for source in sources {
        let describe = |e: std::io::Error| Failure::from(e).context(format!("cannot read {}", source.display()));
        let metadata = std::fs::metadata(source).map_err(describe)?;
        let name = name_of(source)?;
        if metadata.is_dir() {
            walk(source, &name, &mut files, out)?;
        } else if metadata.is_file() {
            files.push(LocalFile { path: source.clone(), name, length: metadata.len() });
        } else {
            return Err(Failure::user_error(format!("{} is neither a file nor a directory", source.display())));
        }
    }
    Ok(files)
}

fn walk(root: &Path, name: &str, files: &mut Vec<LocalFile>, out: &Output) -> Result<(), Failure> {
    let mut pending = vec![(root.to_owned(), name.to_owned(), 0)];
    while let Some((directory, below, depth)) = pending.pop() {
        let describe = |e: std::io::Error| Failure::from(e).context(format!("cannot read {}", directory.display()));
        if depth > MAX_DEPTH {
            let text = format!("{} is more than {MAX_DEPTH} levels deep", directory.display());
            return Err(Failure::user_error(text));
        }
        let entries: Result<Vec<_>, _> = std::fs::read_dir(&directory).map_err(describe)?.collect();
        let mut entries = entries.map_err(describe)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().map_err(describe)?;
            let name = format!("{below}/{}", text(Path::new(&entry.file_name()))?);
            if kind.is_dir() {
                pending.push((entry.path(), name, depth + 1));
            } else if kind.is_file() {
                let length = entry.metadata().map_err(describe)?.len();
                files.push(LocalFile { path: entry.path(), name, length });
            } else {
                out.warn(&format!("{} is neither a file nor a directory: skipped", entry.path().display()));
            }
            if files.len() > MAX_ENTRIES {
                return Err(Failure::user_error(format!("there are more than {MAX_ENTRIES} files to upload")));
            }
        }
    }
    Ok(())
}

/// The name of a path without its directory.
pub(crate) fn name_of(path: &Path) -> Result<String, Failure> {
    // `.` and `..` have no file name.
    let name = match path.file_name() {
        Some(name) => name.to_owned(),
        None => {
            let full = path.canonicalize()?;
            full.components().next_back().map(|c| c.as_os_str().to_owned()).unwrap_or_default()
        }
    };
    text(Path::new(&name)).map(str::to_owned)
}

/// A path as text.
pub(crate) fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::user_error(format!("the name {} is not UTF-8", path.display())))
}

/// Opens files when they are sent, one after the other.
pub(crate) fn opened(files: &[LocalFile], bar: &ProgressBar) -> Vec<UploadFile> {
    let contents = |file: &LocalFile| {
        let (path, length, bar) = (file.path.clone(), file.length, bar.clone());
        let opening = async move {
            let file = tokio::fs::File::open(&path).await;
            file.map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))
        };
        futures_util::stream::once(opening)
            .map_ok(move |file| ReaderStream::with_capacity(file.take(length), CHUNK))
            .try_flatten()
            .inspect_ok(move |chunk: &bytes::Bytes| bar.inc(chunk.len() as u64))
            .boxed()
    };
    files.iter().map(|file| UploadFile { name: file.name.clone(), contents: contents(file) }).collect()
}

/// Bytes of all files.
pub(crate) fn total(files: &[LocalFile]) -> u64 {
    files.iter().map(|file| file.length).sum()
}

/// A file of a manifest as a row: its name, what became of it, its size, and where it is or why it is not.
pub(crate) fn row(file: &UploadedFile) -> Vec<String> {
    let status = match file.status {
        UploadStatus::Uploaded => "uploaded",
        UploadStatus::Failed => "failed",
    };
    let place = file.path.as_deref().or(file.error.as_deref()).unwrap_or_default();
    vec![clean(&file.name).into_owned(), status.to_owned(), file.size.to_string(), clean(place).into_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_keep_their_structure() {
        let place = tempfile::tempdir().expect("directory");
        let root = place.path().join("data");
        std::fs::create_dir_all(root.join("in/ner")).expect("directories");
        std::fs::write(root.join("in/ner/b"), "22").expect("write");
        std::fs::write(root.join("a"), "1").expect("write");
        std::os::unix::fs::symlink("a", root.join("link")).expect("link");
        let out = Output::detect();
        let files = collect(&[root.clone(), root.join("a")], &out).expect("files");
        let found: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.length)).collect();
        assert_eq!(found, [("data/a", 1), ("data/in/ner/b", 2), ("a", 1)]);
        assert!(collect(&[root.join("missing")], &out).is_err());
        assert!(collect(&[PathBuf::from("/dev/null")], &out).is_err());
    }
}
