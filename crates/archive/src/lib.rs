//! Reads and writes tar archives: layers of images, build contexts, and packed disks of sandboxes.
//!
//! We do not use the `tar` crate. It is built to read whatever other programs write: where readers of tar are known to disagree (two sizes
//! for one entry, data behind a link, records with wrong lengths, bytes after the end) it picks one interpretation. An archive that two
//! programs read differently can carry files past a check, so here such an archive is rejected. And nothing but what we wrote ourselves may
//! come back from cold storage: see [`Profile::Disk`].

#![forbid(unsafe_code)]

mod entry;
mod header;
mod number;
mod pax;
mod reader;
pub mod sparse;
mod writer;

use std::io;

pub use entry::{Entry, Kind, Xattr};
pub use header::BLOCK;
pub use number::Time;
pub use reader::{Content, Reader};
pub use writer::Writer;

/// The longest name in a [`Profile::Layer`], as on Linux.
pub const MAX_PATH: usize = 4096;

/// Which archives a [`Reader`] accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Archives that others wrote: POSIX, GNU and the oldest form. Sparse files are rejected.
    Layer,
    /// Archives of disks that we wrote. Every entry must be exactly the bytes that [`Entry::encode`] makes of it,
    /// padding must be zeros, and the end must be two blocks. Sparse files are accepted: their content begins with a
    /// [`sparse`] map.
    Disk,
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, or the archive is truncated ([`io::ErrorKind::UnexpectedEof`]).
    #[error("read the archive")]
    Io(#[from] io::Error),
    /// The archive is malformed or has something that the profile rejects.
    #[error("{}: {problem}", path.escape_ascii())]
    Invalid {
        /// The entry, as far as its name is known.
        path: Vec<u8>,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    fn invalid(path: &[u8], problem: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_vec(), problem: problem.into() }
    }
}

/// Bytes after content of this size, up to the next block.
pub fn padding(size: u64) -> usize {
    usize::try_from(size.wrapping_neg() % BLOCK as u64).unwrap_or_default()
}
