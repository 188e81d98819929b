//! `POST /files/compose`: concatenates files, and removes the sources when the result is complete.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Uid};
use serde::Deserialize;

use crate::error::Problem;
use crate::metadata::Metadata;
use crate::upload::Written;
use crate::users::Account;
use crate::{directory, open, path};

const MAX_SOURCES: usize = 10_000;

/// Request body.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Request {
    source_paths: Vec<String>,
    destination: String,
    /// The user; the default one if unset.
    pub(crate) username: Option<String>,
}

/// Composes the file. The destination is created by rename, so it is never partial.
pub(crate) fn compose(request: &Request, account: &Account, workdir: Option<&str>) -> Result<Written, Problem> {
    if request.source_paths.is_empty() || request.source_paths.len() > MAX_SOURCES {
        return Err(Problem::bad_request(format!("source_paths must have 1 to {MAX_SOURCES} paths")));
    }
    if request.destination.is_empty() {
        return Err(Problem::bad_request("destination is required"));
    }
    let resolve = |text: &str| path::resolve(text, account, workdir).map_err(|e| Problem::bad_request(e.to_string()));
    let destination = resolve(&request.destination)?;
    let mut sources = Vec::with_capacity(request.source_paths.len());
    for text in &request.source_paths {
        let source = resolve(text)?;
        if source == destination {
            let message = format!("source path '{}' cannot be the same as destination", source.display());
            return Err(Problem::bad_request(message));
        }
        match std::fs::metadata(&source) {
            Err(_) => return Err(Problem::not_found(format!("source file not found: {}", source.display()))),
            Ok(found) if !found.is_file() => {
                let message = format!("source path is not a regular file: {}", source.display());
                return Err(Problem::bad_request(message));
            }
            Ok(_) => sources.push(source),
        }
    }
    if destination.is_dir() {
        return Err(Problem::bad_request(format!("path is a directory: {}", destination.display())));
    }
    let parent = destination.parent().unwrap_or_else(|| Path::new("/"));
    directory::make(parent, account).map_err(|e| Problem::io("make directory", parent, &e))?;
    let partial = partial_name(&destination);
    let joined = join(&sources, &partial, account).and_then(|()| std::fs::rename(&partial, &destination));
    if let Err(cause) = joined {
        // It may not have been created at all.
        let _ = std::fs::remove_file(&partial);
        return Err(Problem::io("compose", &destination, &cause));
    }
    for source in &sources {
        // The result is complete; a leftover source is harmless.
        let _ = std::fs::remove_file(source);
    }
    Ok(Written::new(&destination, Metadata::new()))
}

fn join(sources: &[PathBuf], partial: &Path, account: &Account) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o666).open(partial)?;
    rustix::fs::fchown(&file, Some(Uid::from_raw(account.uid)), Some(Gid::from_raw(account.gid)))?;
    for source in sources {
        let mut source = open::readable(source).map_err(|refusal| match refusal {
            open::NotReadable::Io(cause) => cause,
            other => io::Error::new(io::ErrorKind::InvalidInput, other),
        })?;
        // Copies inside the kernel.
        io::copy(&mut source.file, &mut file)?;
    }
    Ok(())
}

/// A temporary name next to the destination.
fn partial_name(destination: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    destination.with_file_name(format!(".cabana-compose-{}-{number}", std::process::id()))
}
