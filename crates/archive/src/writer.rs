//! Writing an archive as a stream.

use std::io::{self, Read, Write};

use crate::entry::{Entry, Kind};
use crate::header::BLOCK;
use crate::padding;

/// An archive that is being written.
pub struct Writer<W> {
    out: W,
    /// Content that the current entry announced and that has not been written.
    remaining: u64,
    /// Bytes after it, up to the next block.
    padding: usize,
}

impl<W: Write> Writer<W> {
    /// Writes plain bytes.
    pub fn new(out: W) -> Self {
        Self { out, remaining: 0, padding: 0 }
    }

    /// Begins an entry, whose content is then written to this writer. `false`: its attributes are too large, and nothing was written.
    pub fn begin(&mut self, entry: &Entry) -> io::Result<bool> {
        self.complete()?;
        let Some(bytes) = entry.encode() else { return Ok(false) };
        self.out.write_all(&bytes)?;
        self.remaining = if entry.kind == Kind::File { entry.size } else { 0 };
        self.padding = padding(self.remaining);
        Ok(true)
    }

    /// Adds an entry. `content` must have as many bytes as the entry says; it is read for files only.
    pub fn append(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        if !self.begin(entry)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has too many attributes"));
        }
        io::copy(&mut content.take(self.remaining), self)?;
        self.complete()
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.complete()?;
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }

    /// Ends the current entry.
    fn complete(&mut self) -> io::Result<()> {
        if self.remaining > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.out.write_all(&[0; BLOCK][..std::mem::take(&mut self.padding)])
    }
}

/// The content of the entry that was begun last.
impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = bytes.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        if most == 0 && !bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more content than the entry announced"));
        }
        let written = self.out.write(&bytes[..most])?;
        self.remaining -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
