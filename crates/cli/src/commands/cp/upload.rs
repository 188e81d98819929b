//! Copies into a sandbox.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabana_client::{Client, CommandEvent, FileKind, SandboxHandle, StartCommand};
use cabana_types::SandboxId;
use cabana_types::wire::UploadStatus;
use futures_util::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::{CHUNK, MAX_DEPTH, MAX_ENTRIES, PARALLEL, join};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, USER_ERROR};
use crate::local_files::{self, name_of, text};

/// Permissions that the guest sets by default.
const USUAL_MODE: u32 = 0o644;
/// Paths per command run_inside the sandbox.
const BATCH: usize = 100;
/// Creates links from pairs of arguments: target, link.
const LINK: &str = r#"while [ $# -gt 1 ]; do ln -sfn -- "$1" "$2" || exit 1; shift 2; done"#;

pub(super) async fn stream(sandbox: &SandboxHandle, path: &str, context: &Context) -> Result<(), Failure> {
    let bar = context.out.byte_bar(None);
    let counted = bar.clone();
    let input = ReaderStream::with_capacity(tokio::io::stdin(), CHUNK).inspect_ok(move |c| counted.inc(c.len() as u64));
    sandbox.write_file(path, input, None).await?;
    bar.finish_and_clear();
    Ok(())
}

pub(super) async fn path(sandbox: SandboxHandle, source: &Path, to: &str, context: &Context) -> Result<(), Failure> {
    let describe = |e: std::io::Error| Failure::from(e).context(format!("cannot read {}", source.display()));
    let metadata = std::fs::metadata(source).map_err(describe)?;
    let existing = match sandbox.stat(to).await {
        Ok(entry) => Some(entry),
        Err(e) if e.is_not_found() => None,
        Err(e) => return Err(e.into()),
    };
    let into_directory = to.ends_with('/') || existing.is_some_and(|e| e.kind == FileKind::Directory);
    let target = if into_directory { join(to, &name_of(source)?) } else { to.to_owned() };
    let mut tree = Tree::default();
    if metadata.is_dir() {
        let (root, below) = (source.to_owned(), target);
        tree = tokio::task::spawn_blocking(move || Tree::walk(&root, &below)).await??;
    } else {
        tree.add_file(source.to_owned(), target, &metadata);
    }
    for skipped in &tree.skipped {
        context.out.warn(&format!("{} is neither a file, a directory nor a link: skipped", skipped.display()));
    }
    send(&sandbox, tree, context).await
}

/// Uploads files to `user-uploads/` and prints what became of each.
pub(super) async fn files(client: &Client, id: &SandboxId, sources: &[PathBuf], context: &Context) -> Outcome {
    let files = local_files::collect(sources, &context.out)?;
    if files.is_empty() {
        return Err(Failure::user_error("there are no files to upload"));
    }
    let bar = context.out.byte_bar(Some(local_files::total(&files)));
    let (mut rows, mut code) = (Vec::new(), 0);
    for batch in files.chunks(local_files::MAX_FILES) {
        let manifest = client.upload_files(id, local_files::opened(batch, &bar)).await?;
        if manifest.files.iter().any(|file| file.status == UploadStatus::Failed) {
            code = USER_ERROR;
        }
        rows.extend(manifest.files.iter().map(local_files::row));
    }
    bar.finish_and_clear();
    context.out.rows(&["NAME", "STATUS", "SIZE", "PATH"], &rows)?;
    Ok(code)
}

/// Everything to copy.
#[derive(Default)]
struct Tree {
    directories: Vec<String>,
    files: Vec<(PathBuf, String, u64)>,
    links: Vec<(String, String)>,
    /// Paths with non-default permissions, by permissions.
    modes: BTreeMap<u32, Vec<String>>,
    skipped: Vec<PathBuf>,
    bytes: u64,
}

impl Tree {
    fn walk(root: &Path, target: &str) -> Result<Self, Failure> {
        let mut tree = Self::default();
        tree.directories.push(target.to_owned());
        let mut pending = vec![(root.to_owned(), target.to_owned(), 0)];
        while let Some((directory, target, depth)) = pending.pop() {
            if depth > MAX_DEPTH {
                return Err(Failure::user_error(format!(
                    "{} is more than {MAX_DEPTH} levels deep",
                    directory.display()
                )));
            }
            let describe = |e: std::io::Error| Failure::from(e).context(format!("cannot read {}", directory.display()));
            for entry in std::fs::read_dir(&directory).map_err(describe)? {
                let entry = entry.map_err(describe)?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(describe)?);
                let target = join(&target, text(Path::new(&entry.file_name()))?);
                if kind.is_dir() {
                    tree.directories.push(target.clone());
                    pending.push((path, target, depth + 1));
                } else if kind.is_symlink() {
                    let leads = std::fs::read_link(&path).map_err(describe)?;
                    tree.links.push((text(&leads)?.to_owned(), target));
                } else if kind.is_file() {
                    let metadata = entry.metadata().map_err(describe)?;
                    tree.add_file(path, target, &metadata);
                } else {
                    tree.skipped.push(path);
                }
                if tree.directories.len() + tree.files.len() + tree.links.len() > MAX_ENTRIES {
                    return Err(Failure::user_error(format!("there are more than {MAX_ENTRIES} files to copy")));
                }
            }
        }
        Ok(tree)
    }

    fn add_file(&mut self, path: PathBuf, target: String, metadata: &std::fs::Metadata) {
        let mode = metadata.permissions().mode() & 0o777;
        if metadata.is_file() && mode != USUAL_MODE {
            self.modes.entry(mode).or_default().push(target.clone());
        }
        self.bytes += metadata.len();
        self.files.push((path, target, metadata.len()));
    }
}

async fn send(sandbox: &SandboxHandle, tree: Tree, context: &Context) -> Result<(), Failure> {
    for directory in &tree.directories {
        match sandbox.make_dir(directory).await {
            Ok(_) => {}
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(Failure::from(e).context(directory.clone())),
        }
    }
    let bar = context.out.byte_bar(Some(tree.bytes));
    futures_util::stream::iter(tree.files)
        .map(|(path, target, length)| send_file(sandbox, path, target, length, bar.clone()))
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<()>>()
        .await?;
    bar.finish_and_clear();
    for pairs in tree.links.chunks(BATCH) {
        let mut args = vec!["-c".to_owned(), LINK.to_owned(), "sh".to_owned()];
        args.extend(pairs.iter().flat_map(|(leads, stands)| [leads.clone(), stands.clone()]));
        run_inside(sandbox, "/bin/sh", args).await.map_err(|f| f.context("cannot create the links"))?;
    }
    for (mode, paths) in tree.modes {
        for paths in paths.chunks(BATCH) {
            let mut args = vec![format!("{mode:o}"), "--".to_owned()];
            args.extend_from_slice(paths);
            // Only a warning, because the contents were copied: an image may lack chmod.
            if let Err(failure) = run_inside(sandbox, "chmod", args).await {
                let causes: Vec<_> = failure.chain().collect();
                context.out.warn(&format!("permissions were not kept: {}", causes.join(": ")));
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn send_file(
    sandbox: &SandboxHandle,
    path: PathBuf,
    target: String,
    length: u64,
    bar: ProgressBar,
) -> Result<(), Failure> {
    let describe = |f: Failure| f.context(format!("cannot copy {}", path.display()));
    let file = tokio::fs::File::open(&path).await.map_err(|e| describe(e.into()))?;
    // A pipe or device has no length.
    let regular = file.metadata().await.map_err(|e| describe(e.into()))?.is_file();
    let reader: Box<dyn tokio::io::AsyncRead + Send + Unpin> =
        if regular { Box::new(file.take(length)) } else { Box::new(file) };
    let contents = ReaderStream::with_capacity(reader, CHUNK).inspect_ok(move |chunk| bar.inc(chunk.len() as u64));
    sandbox.write_file(&target, contents, regular.then_some(length)).await.map_err(|e| describe(e.into()))
}

/// Runs a program in the sandbox and expects it to succeed.
async fn run_inside(sandbox: &SandboxHandle, program: &str, args: Vec<String>) -> Result<(), Failure> {
    let command = StartCommand { program: program.to_owned(), args, ..Default::default() };
    let mut running = sandbox.start(&command).await?;
    let mut complaint = Vec::new();
    while let Some(event) = running.next().await? {
        match event {
            CommandEvent::Stderr(bytes) if complaint.len() < 2000 => complaint.extend_from_slice(&bytes),
            CommandEvent::Ended(exit) if exit.is_success() => return Ok(()),
            CommandEvent::Ended(exit) => {
                let complaint = String::from_utf8_lossy(&complaint);
                let words = complaint.lines().next().filter(|l| !l.is_empty()).unwrap_or(&exit.status);
                return Err(Failure::user_error(words));
            }
            _ => {}
        }
    }
    Err(Failure::user_error("its output stopped before it ended"))
}
