//! A directory as `.tar.gz`, made while it is sent. It is packed by a thread with the account's permissions, at the pace of the client.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cabana_archive::{Entry, Kind, Time, Writer};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::mpsc;

use super::Cancel;
use super::refuse::{self, Refused};
use crate::open;

/// Bytes of a piece on its way to the client, and how many of them.
const PIECE: usize = 64 << 10;
const QUEUE: usize = 4;
/// Directories inside each other.
const MAX_DEPTH: usize = 256;
/// Files that could not be read and are named in the archive.
const MAX_NAMED: usize = 1000;
/// The name of the list of them.
const LEFT_OUT: &str = "FILES-LEFT-OUT.txt";

/// Pieces of an archive.
pub(crate) type Pieces = mpsc::Receiver<io::Result<Bytes>>;

/// The sending end of an archive, and the other one for the response.
pub(crate) fn channel() -> (Sink, Pieces) {
    let (send, receive) = mpsc::channel(QUEUE);
    (Sink { send, piece: Vec::with_capacity(PIECE) }, receive)
}

/// Checks that a directory can be packed, before the response begins.
pub(crate) fn check(root: &Path) -> Result<(), Refused> {
    std::fs::read_dir(root).map(drop).map_err(|cause| refuse::io("list", root, &cause))
}

/// Packs a directory. An error ends the stream, so that the client does not take it for whole.
pub(crate) fn pack(root: &Path, sink: Sink, cancel: &Cancel) {
    let failures = sink.send.clone();
    let mut packer =
        Packer { out: Writer::new(GzEncoder::new(sink, Compression::fast())), left_out: Vec::new(), cancel };
    let name = root.file_name().map_or_else(|| PathBuf::from("files"), PathBuf::from);
    let packed = packer.directory(root, &name, 0).and_then(|()| packer.finish(&name));
    if let Err(cause) = packed {
        // The client may be gone.
        let _ = failures.blocking_send(Err(cause));
    }
}

struct Packer<'a> {
    out: Writer<GzEncoder<Sink>>,
    left_out: Vec<String>,
    cancel: &'a Cancel,
}

impl Packer<'_> {
    /// Adds a directory with its content. What cannot be read is left out, and named at the end.
    fn directory(&mut self, at: &Path, name: &Path, depth: usize) -> io::Result<()> {
        let about = std::fs::symlink_metadata(at)?;
        self.out.append(&entry(Kind::Directory, name, &about), &mut io::empty())?;
        let mut children = match std::fs::read_dir(at) {
            Ok(children) if depth < MAX_DEPTH => {
                children.filter_map(Result::ok).map(|child| child.file_name()).collect()
            }
            _ => {
                self.leave_out(name);
                Vec::new()
            }
        };
        children.sort_unstable();
        for child in children {
            if self.cancel.is_set() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.child(&at.join(&child), &name.join(&child), depth)?;
        }
        Ok(())
    }

    fn child(&mut self, at: &Path, name: &Path, depth: usize) -> io::Result<()> {
        // It may have been removed since its directory was read.
        let Ok(about) = std::fs::symlink_metadata(at) else { return Ok(()) };
        if about.is_dir() {
            return self.directory(at, name, depth + 1);
        }
        if about.is_symlink() {
            let mut entry = entry(Kind::Symlink, name, &about);
            entry.link = std::fs::read_link(at)?.as_os_str().as_bytes().to_vec();
            return self.out.append(&entry, &mut io::empty());
        }
        if !about.is_file() {
            return Ok(());
        }
        match open::readable(at) {
            Ok(readable) => self.file(readable.file, name),
            Err(_) => {
                self.leave_out(name);
                Ok(())
            }
        }
    }

    fn file(&mut self, file: File, name: &Path) -> io::Result<()> {
        let about = file.metadata()?;
        let mut entry = entry(Kind::File, name, &about);
        entry.size = about.len();
        // A file that becomes shorter meanwhile is filled up: its length was sent.
        self.out.append(&entry, &mut file.chain(io::repeat(0)).take(about.len()))
    }

    fn leave_out(&mut self, name: &Path) {
        if self.left_out.len() < MAX_NAMED {
            self.left_out.push(name.to_string_lossy().into_owned());
        }
    }

    fn finish(mut self, name: &Path) -> io::Result<()> {
        if !self.left_out.is_empty() {
            let text = format!("These could not be read:\n{}\n", self.left_out.join("\n"));
            let path = name.join(LEFT_OUT).as_os_str().as_bytes().to_vec();
            let entry = Entry { size: text.len() as u64, ..Entry::new(Kind::File, path, 0o644) };
            self.out.append(&entry, &mut text.as_bytes())?;
        }
        self.out.finish()?.finish()?.flush()
    }
}

fn entry(kind: Kind, name: &Path, about: &std::fs::Metadata) -> Entry {
    let mut entry = Entry::new(kind, name.as_os_str().as_bytes(), about.mode() & 0o7777);
    entry.uid = about.uid().into();
    entry.gid = about.gid().into();
    entry.mtime = Time::from_seconds(about.mtime());
    entry
}

/// Sends what is written in pieces, and waits while the client does not read.
pub(crate) struct Sink {
    send: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let taken = data.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(data.get(..taken).unwrap_or_default());
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.send.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
