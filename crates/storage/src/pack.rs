//! Packs a sandbox's disk into one stream and unpacks it: a tar archive (POSIX, with pax records) in zstd, which
//! ordinary tools can open. Also merges a disk into its template's tree.
//!
//! Packing follows no link and never leaves the disk. Unpacking accepts only what packing writes, because others may be
//! able to write to the store. Both block, use little memory whatever is on the disk, and stop when they are cancelled.

mod attributes;
mod dir_stack;
mod holes;
mod merge;
mod metadata;
mod packer;
mod selected;
mod unpacker;
mod walk;

#[cfg(test)]
mod hostile;

use std::io::{BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use crate::Error;

/// The directory of a disk that is packed; paths in an archive begin with it. The overlay's `work` directory has nothing to keep.
const UPPER: &str = "upper";
/// The default of `zstd`: more gains little on the files of a system, and takes much longer.
const LEVEL: i32 = 3;
/// Level 3 has a window of 2 MiB. What needs more than 8 MiB to be read was not written by us.
const WINDOW: u32 = 23;
/// Bytes of a file that are read or written at a time.
const CHUNK: usize = 256 << 10;
/// Ids on disk are those inside of sandboxes.
const MAX_ID: u64 = 65_535;
/// Names in a report.
const REPORTED: usize = 16;

/// Which parts of a disk to pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selection {
    /// All of it.
    #[default]
    Everything,
    /// These paths, relative to the sandbox's root, with everything below them; and the directories above them without their other content.
    /// Only what differs from the template is on the disk.
    Paths(Vec<String>),
}

/// How much may be packed or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files, directories and so on.
    pub entries: u64,
    /// Bytes of data and attributes; holes do not count.
    pub bytes: u64,
    /// Bytes of one path.
    pub path: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 10_000_000, bytes: 1 << 40, path: 32 << 10 }
    }
}

/// What was packed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// Files, directories and so on.
    pub entries: u64,
    /// Bytes of data and attributes, before compression.
    pub bytes: u64,
    /// Sockets, and devices other than the overlay's whiteouts: they are useless without the processes that created them.
    pub skipped: u64,
    /// The first few of them.
    pub skipped_paths: Vec<String>,
    /// Paths of the selection that do not exist.
    pub missing: Vec<String>,
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files, directories and so on.
    pub entries: u64,
    /// Bytes of data and attributes.
    pub bytes: u64,
}

/// What was merged into a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Files and directories, and names that the sandbox removed.
    pub entries: u64,
    /// Sockets and devices, which are skipped.
    pub skipped: u64,
    /// The first few of them.
    pub skipped_paths: Vec<String>,
}

/// Packs the disk in this directory. Nothing may change it at the same time: a change that is noticed is an error.
pub fn pack(
    disk: impl AsFd,
    selection: &Selection,
    sink: impl Write,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Packed, Error> {
    let begin = || {
        let mut encoder = zstd::Encoder::new(sink, LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.multithread(1)?;
        Ok(encoder)
    };
    let encoder = begin().map_err(io("begin an archive"))?;
    packer::pack(disk.as_fd(), selection, encoder, limits, cancel)
}

/// Unpacks an archive into a disk's directory, where `upper` is missing or empty. After an error the caller removes what is in it.
pub fn unpack(
    source: impl Read,
    disk: impl AsFd,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Unpacked, Error> {
    let begin = || {
        let mut decoder = zstd::Decoder::new(source)?.single_frame();
        decoder.window_log_max(WINDOW)?;
        Ok(decoder)
    };
    let decoder = begin().map_err(io("begin to read an archive"))?;
    // Headers and maps are read in small pieces.
    let mut input = BufReader::with_capacity(CHUNK, decoder);
    let unpacked = unpacker::unpack(&mut input, disk.as_fd(), limits, cancel)?;
    let mut rest = input.into_inner().finish();
    match rest.read(&mut [0]).map_err(io("read the end of an archive"))? {
        0 => Ok(unpacked),
        _ => Err(refused(b"", "something follows the archive")),
    }
}

/// Merges the disk in this directory into a copy of its template's tree. Nothing may change either at the same time.
/// After an error the tree is incomplete.
pub fn merge(disk: impl AsFd, root: impl AsFd, limits: &Limits, cancel: &CancellationToken) -> Result<Merged, Error> {
    merge::merge(disk.as_fd(), root.as_fd(), limits, cancel)
}

fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { action, source }
}

/// A path from a disk or an archive, for messages: control characters are escaped, and long paths are cut.
fn show(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let mut shown: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    if text.chars().nth(200).is_some() {
        shown.push('…');
    }
    shown
}

fn refused(path: &[u8], problem: impl Into<String>) -> Error {
    Error::Archive { path: show(path), problem: problem.into() }
}

fn at<E: Into<std::io::Error>>(action: &'static str, path: &[u8]) -> impl FnOnce(E) -> Error {
    move |e| Error::Path { action, path: PathBuf::from(show(path)), source: e.into() }
}

fn check(cancel: &CancellationToken) -> Result<(), Error> {
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

/// Adds to a counter that has a limit.
fn count(number: &mut u64, more: u64, most: u64, path: &[u8], what: &str) -> Result<(), Error> {
    *number = number.saturating_add(more);
    if *number > most { Err(refused(path, format!("there are more than {most} {what}"))) } else { Ok(()) }
}
