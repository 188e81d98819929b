//! A strict streaming reader of tar archives, and a writer. Where readers of tar are known to disagree (two sizes for one entry, data
//! behind a link, records with wrong lengths, bytes after the end) the archive is refused instead of guessed at.

mod header;
mod pax;
mod writer;

use std::io::Read;

use crate::compression::read_error;
use crate::error::{Error, Result};
use header::{Block, Header};
use pax::Pax;
pub use writer::Writer;

/// The longest name, as Linux has it.
pub const MAX_PATH: usize = 4096;
/// A pax header may hold extended attributes, hence more than two names.
const MAX_PAX: u64 = 1 << 20;
/// The largest size that the header's own field can say.
const MAX_OCTAL: u64 = 0o77_777_777_777;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A further name of an earlier file.
    HardLink,
    /// A character or block device.
    Device,
    /// A named pipe.
    Fifo,
}

/// One entry. Names are bytes as they stand in the archive: nothing has been checked but that they are there.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Where a link leads.
    pub link: Vec<u8>,
    /// Permissions with set-uid, set-gid and sticky bits.
    pub mode: u32,
    /// The numeric owner.
    pub uid: u64,
    /// The numeric group.
    pub gid: u64,
    /// Bytes of content.
    pub size: u64,
    /// When it was changed: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An archive being read. Call [`Archive::next_entry`] and read each entry's content from [`Archive::content`], or not.
pub struct Archive<R> {
    reader: R,
    /// Content of the current entry that has not been read.
    remaining: u64,
    /// Bytes behind it, up to the next block.
    padding: u64,
    ended: bool,
}

impl<R: Read> Archive<R> {
    /// Around a reader of plain bytes.
    pub fn new(reader: R) -> Self {
        Self { reader, remaining: 0, padding: 0, ended: false }
    }

    /// The next entry; `None` at the end, which includes that nothing but zeros follows it.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        if self.ended {
            return Ok(None);
        }
        let mut pax: Option<Pax> = None;
        let mut long_path: Option<Vec<u8>> = None;
        let mut long_link: Option<Vec<u8>> = None;
        loop {
            self.skip()?;
            let Some(block) = self.block()? else {
                self.ended = true;
                if pax.is_some() || long_path.is_some() || long_link.is_some() {
                    return Err(Error::refused(b"", "it ends behind the header of a further entry"));
                }
                return Ok(None);
            };
            let header = header::parse(&block)?;
            match header.flag {
                b'x' if pax.is_none() => pax = Some(Pax::parse(&self.whole(&header, MAX_PAX)?)?),
                b'g' => {
                    if Pax::parse(&self.whole(&header, MAX_PAX)?)?.moves_entries() {
                        return Err(Error::refused(b"", "a global pax header says names or sizes"));
                    }
                }
                b'L' if long_path.is_none() => long_path = Some(self.long_name(&header)?),
                b'K' if long_link.is_none() => long_link = Some(self.long_name(&header)?),
                b'x' | b'L' | b'K' => {
                    return Err(Error::refused(&header.path, "two headers say the same for one entry"));
                }
                _ => return self.entry(header, pax.unwrap_or_default(), long_path, long_link).map(Some),
            }
        }
    }

    /// The content of the entry that [`Archive::next_entry`] gave last.
    pub fn content(&mut self) -> Content<'_, R> {
        Content { archive: self }
    }

    /// The reader, once [`Archive::next_entry`] has returned `None`.
    pub fn into_inner(self) -> R {
        self.reader
    }

    fn entry(
        &mut self,
        header: Header,
        pax: Pax,
        long_path: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Entry> {
        let path = choose(header.path, long_path, pax.path)?;
        let link = choose(header.link, long_link, pax.link)?;
        if path.is_empty() {
            return Err(Error::refused(b"", "an entry has no name"));
        }
        if path.len() > MAX_PATH || link.len() > MAX_PATH {
            return Err(Error::refused(&path, format!("its name is longer than {MAX_PATH} bytes")));
        }
        let kind = match header.flag {
            // The oldest form marks directories by their names.
            b'0' | 0 if path.ends_with(b"/") => Kind::Directory,
            b'0' | b'7' | 0 => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            b'S' => return Err(Error::refused(&path, "sparse files are not taken: store them whole")),
            other => {
                return Err(Error::refused(&path, format!("entries of type {:?} are not taken", char::from(other))));
            }
        };
        if pax.sparse {
            return Err(Error::refused(&path, "sparse files are not taken: store them whole"));
        }
        let size = match pax.size {
            None => header.size,
            Some(size) if size == header.size => size,
            // The field was too small for it, so writers leave it empty or full.
            Some(size) if size > MAX_OCTAL && (header.size == 0 || header.size == MAX_OCTAL) => size,
            Some(_) => return Err(Error::refused(&path, "its two headers say different sizes")),
        };
        if size > i64::MAX as u64 {
            return Err(Error::refused(&path, "its size is impossible"));
        }
        if kind != Kind::File && size != 0 {
            return Err(Error::refused(&path, "only regular files may have content"));
        }
        self.remaining = size;
        self.padding = size.wrapping_neg() % 512;
        Ok(Entry {
            path,
            kind,
            link,
            mode: header.mode,
            uid: pax.uid.unwrap_or(header.uid),
            gid: pax.gid.unwrap_or(header.gid),
            size,
            mtime: pax.mtime.unwrap_or((header.mtime, 0)),
            xattrs: pax.xattrs,
        })
    }

    /// The content of a header that tells about the next entry.
    fn whole(&mut self, header: &Header, limit: u64) -> Result<Vec<u8>> {
        if header.size > limit {
            return Err(Error::refused(&header.path, "a header about the next entry is too long"));
        }
        let mut data = vec![0; usize::try_from(header.size).unwrap_or_default()];
        self.reader.read_exact(&mut data).map_err(read_error)?;
        self.padding = header.size.wrapping_neg() % 512;
        Ok(data)
    }

    fn long_name(&mut self, header: &Header) -> Result<Vec<u8>> {
        let mut name = self.whole(header, MAX_PATH as u64 + 1)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Error::refused(&header.path, "a long name is empty or has a NUL in it"));
        }
        Ok(name)
    }

    fn skip(&mut self) -> Result<()> {
        let mut rest = self.remaining + self.padding;
        let mut buffer = [0; 16 << 10];
        while rest > 0 {
            let want = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            self.reader.read_exact(&mut buffer[..want]).map_err(read_error)?;
            rest -= want as u64;
        }
        self.remaining = 0;
        self.padding = 0;
        Ok(())
    }

    /// The next header; `None` at the end. Zeros end an archive, and so does the end of the file at a block.
    fn block(&mut self) -> Result<Option<Block>> {
        let mut block = [0; 512];
        let mut have = 0;
        while have < block.len() {
            match self.reader.read(&mut block[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(Error::refused(b"", "it ends too early")),
                Ok(n) => have += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error)),
            }
        }
        if block.iter().any(|b| *b != 0) {
            return Ok(Some(block));
        }
        let mut rest = vec![0; 64 << 10];
        loop {
            match self.reader.read(&mut rest) {
                Ok(0) => return Ok(None),
                Ok(n) if rest[..n].iter().all(|b| *b == 0) => {}
                Ok(_) => return Err(Error::refused(b"", "something follows its end")),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error)),
            }
        }
    }
}

fn choose(short: Vec<u8>, gnu: Option<Vec<u8>>, pax: Option<Vec<u8>>) -> Result<Vec<u8>> {
    match (gnu, pax) {
        (Some(name), Some(_)) => Err(Error::refused(&name, "two headers say the same for one entry")),
        (Some(name), None) | (None, Some(name)) => Ok(name),
        (None, None) => Ok(short),
    }
}

/// The bytes of one entry.
pub struct Content<'a, R> {
    archive: &'a mut Archive<R>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let want = buffer.len().min(usize::try_from(self.archive.remaining).unwrap_or(usize::MAX));
        if want == 0 {
            return Ok(0);
        }
        let n = self.archive.reader.read(&mut buffer[..want])?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.archive.remaining -= n as u64;
        Ok(n)
    }
}
