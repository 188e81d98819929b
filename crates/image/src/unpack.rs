//! Unpacks one layer of an image into a directory, entry by entry below the directory's descriptor. Layers are untrusted:
//! nothing is created outside the directory, whatever names and links say, and everything is bounded. A layer that is
//! rejected leaves an incomplete tree, which the caller removes.
//!
//! The result is a flat root filesystem: what a whiteout names is removed. Owners and set-uid bits are kept as the layer
//! has them, so only root may be able to enter the directory.

mod metadata;
mod name;
mod placing;
mod removal;
mod tree;

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use cabana_archive::{Profile, Reader};
use cabana_fs::space::{Reservation, Space};

pub use crate::compression::Ratio;
use crate::compression::{self, read_error};
use crate::digest::{Digest, HashingReader};
use crate::error::Result;
use crate::stop::Stop;
use placing::Placing;

/// Limits of an archive. The defaults are more than real images need.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of content.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Depth of directories.
    pub depth: usize,
    /// Growth by decompression.
    pub ratio: Ratio,
    /// Owners from this number on become nobody, because sandboxes have no such id.
    pub ids: u32,
    /// Where the content has to fit.
    pub space: Space,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 32 << 30,
            entries: 2_000_000,
            depth: 256,
            ratio: Ratio { factor: 250, free: 256 << 20 },
            ids: 65_536,
            space: Space::unlimited(),
        }
    }
}

/// Whether names that begin with `.wh.` are removals, as in layers of images, or files like others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whiteouts {
    /// They remove what lower layers have.
    Apply,
    /// They are ordinary files: the archive is not a layer.
    Ignore,
}

/// What was unpacked.
#[derive(Debug)]
pub struct Unpacked {
    /// The digest of the plain archive.
    pub diff_id: Digest,
    /// Bytes of content.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
    /// What was skipped or changed: a few lines for the build's log.
    pub notes: Vec<String>,
}

/// Unpacks one archive (gzip, zstd or plain) into `root`. Blocks.
pub fn apply<R: Read + Send>(
    reader: R,
    root: BorrowedFd<'_>,
    whiteouts: Whiteouts,
    limits: &Limits,
    stop: &Stop,
) -> Result<Unpacked> {
    // Headers and padding come on top of the content.
    let limit = limits.bytes.saturating_add(limits.entries.saturating_mul(8 << 10));
    let space = limits.space.reserve(0).map_err(no_space)?;
    let plain = Watched { inner: compression::open(reader, limits.ratio)?, left: limit, space, stop };
    let mut archive = Reader::new(HashingReader::new(plain), Profile::Layer);
    let mut placing = Placing::new(root, whiteouts, limits, stop)?;
    while let Some(entry) = archive.next_entry()? {
        placing.place(&entry, &mut archive.content())?;
    }
    let (bytes, entries, notes) = placing.finish()?;
    Ok(Unpacked { diff_id: archive.into_inner().finish(), bytes, entries, notes })
}

/// Fails when the caller cancels, when the archive is far too large, or when the disk has no space for it.
struct Watched<'a, R> {
    inner: R,
    left: u64,
    space: Reservation,
    stop: &'a Stop,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check("unpacking").map_err(io::Error::other)?;
        let n = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other(crate::Error::refused(b"", "it is larger than images may be")))?;
        self.space.spend(n as u64).map_err(|error| io::Error::other(no_space(error)))?;
        Ok(n)
    }
}

fn no_space(source: io::Error) -> crate::Error {
    crate::Error::Io { action: "unpack it", source }
}

/// The error of reading an entry's content.
fn content_error(path: &[u8], error: io::Error) -> crate::Error {
    match read_error(error) {
        crate::Error::Refused { path: inner, reason } if inner.is_empty() => crate::Error::refused(path, reason),
        other => other,
    }
}
