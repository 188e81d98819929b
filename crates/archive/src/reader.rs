//! Reading an archive as a stream.

use std::io::{self, ErrorKind, Read};

use crate::entry::{Entry, Kind, MAX_RECORDS};
use crate::header::{BLOCK, Block, Header, MAX_OCTAL};
use crate::number::Time;
use crate::pax::Records;
use crate::{Error, MAX_PATH, Profile, padding};

/// The records of one entry of a layer: they may hold extended attributes, hence more than two names.
const MAX_LAYER_RECORDS: u64 = 1 << 20;
const TWICE: &str = "two headers say the same for one entry";
const SPARSE: &str = "sparse files are not taken: store them whole";

/// An archive that is being read. Call [`Reader::next_entry`] and read each entry's content from [`Reader::content`], or not.
pub struct Reader<R> {
    inner: R,
    profile: Profile,
    /// Content of the current entry that has not been read.
    remaining: u64,
    /// Bytes after it, up to the next block.
    padding: usize,
    ended: bool,
    /// For [`Profile::Disk`]: the headers and records of the current entry as they were read.
    spelled: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads from plain bytes.
    pub fn new(inner: R, profile: Profile) -> Self {
        Self { inner, profile, remaining: 0, padding: 0, ended: false, spelled: Vec::new() }
    }

    /// The next entry; `None` at the end, after which nothing but zeros may follow.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.skip_content()?;
        self.spelled.clear();
        let mut records: Option<Records> = None;
        let mut long_path: Option<Vec<u8>> = None;
        let mut long_link: Option<Vec<u8>> = None;
        loop {
            let Some(block) = self.block()? else {
                self.ended = true;
                if records.is_some() || long_path.is_some() || long_link.is_some() || !self.spelled.is_empty() {
                    return Err(Error::invalid(b"", "it ends behind the header of a further entry"));
                }
                return Ok(None);
            };
            let header = Header::parse(&block)?;
            match header.flag {
                b'x' if records.is_none() => records = Some(self.records(&header)?),
                b'g' => {
                    if self.records(&header)?.moves_entries() {
                        return Err(Error::invalid(b"", "a global pax header says names or sizes"));
                    }
                }
                b'L' if long_path.is_none() => long_path = Some(self.long_name(&header)?),
                b'K' if long_link.is_none() => long_link = Some(self.long_name(&header)?),
                b'x' | b'L' | b'K' => return Err(Error::invalid(&header.path, TWICE)),
                _ => {
                    let entry = self.entry(header, records.unwrap_or_default(), long_path, long_link)?;
                    self.remaining = entry.size;
                    self.padding = padding(entry.size);
                    return Ok(Some(entry));
                }
            }
        }
    }

    /// The content of the entry that [`Reader::next_entry`] returned last.
    pub fn content(&mut self) -> Content<'_, R> {
        Content { reader: self }
    }

    /// The underlying reader, once [`Reader::next_entry`] has returned `None`.
    pub fn into_inner(self) -> R {
        self.inner
    }

    fn entry(
        &self,
        header: Header,
        records: Records,
        long_path: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Entry, Error> {
        let path = choose(header.path, long_path, records.path)?;
        let link = choose(header.link, long_link, records.link)?;
        if path.is_empty() {
            return Err(Error::invalid(b"", "an entry has no name"));
        }
        if self.profile == Profile::Layer && (path.len() > MAX_PATH || link.len() > MAX_PATH) {
            return Err(Error::invalid(&path, format!("its name is longer than {MAX_PATH} bytes")));
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
            b'S' => return Err(Error::invalid(&path, SPARSE)),
            other => {
                return Err(Error::invalid(&path, format!("entries of type {:?} are not taken", char::from(other))));
            }
        };
        let size = match records.size {
            None => header.size,
            Some(size) if size == header.size => size,
            // The field was too small for it, so writers leave it empty or full.
            Some(size) if size > MAX_OCTAL && (header.size == 0 || header.size == MAX_OCTAL) => size,
            Some(_) => return Err(Error::invalid(&path, "its two headers say different sizes")),
        };
        if size > i64::MAX as u64 {
            return Err(Error::invalid(&path, "its size is impossible"));
        }
        if kind != Kind::File && size != 0 {
            return Err(Error::invalid(&path, "only regular files may have content"));
        }
        let entry = Entry {
            kind,
            path,
            link,
            mode: header.mode,
            uid: records.uid.unwrap_or(header.uid),
            gid: records.gid.unwrap_or(header.gid),
            mtime: records.mtime.unwrap_or_else(|| Time::from_seconds(header.mtime)),
            size,
            full_size: records.full_size,
            xattrs: records.xattrs,
        };
        match self.profile {
            Profile::Layer if records.sparse => Err(Error::invalid(&entry.path, SPARSE)),
            Profile::Layer => Ok(entry),
            Profile::Disk => self.disk_entry(entry),
        }
    }

    /// What only entries of our own archives must be.
    fn disk_entry(&self, mut entry: Entry) -> Result<Entry, Error> {
        let is_link = matches!(entry.kind, Kind::HardLink | Kind::Symlink);
        if is_link == entry.link.is_empty() {
            return Err(Error::invalid(&entry.path, "a link without a target, or a target without a link"));
        }
        if is_link && !entry.xattrs.is_empty() {
            return Err(Error::invalid(&entry.path, "a link has attributes"));
        }
        if entry.kind != Kind::File && entry.full_size.is_some() {
            return Err(Error::invalid(&entry.path, "only regular files may be sparse"));
        }
        if entry.kind == Kind::Directory && entry.path.pop() != Some(b'/') {
            return Err(Error::invalid(&entry.path, "a directory's name does not end in a slash"));
        }
        // There are many ways to say the same, or more than we do: other spellings of numbers, prefixes of names, names of users.
        if entry.encode().as_deref() != Some(&self.spelled) {
            return Err(Error::invalid(&entry.path, "it is not spelled as we spell it"));
        }
        Ok(entry)
    }

    fn records(&mut self, header: &Header) -> Result<Records, Error> {
        let limit = match self.profile {
            Profile::Layer => MAX_LAYER_RECORDS,
            Profile::Disk => MAX_RECORDS as u64,
        };
        Records::decode(&self.whole(header, limit)?, self.profile)
    }

    fn long_name(&mut self, header: &Header) -> Result<Vec<u8>, Error> {
        let mut name = self.whole(header, MAX_PATH as u64 + 1)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Error::invalid(&header.path, "a long name is empty or has a NUL in it"));
        }
        Ok(name)
    }

    /// The content of a header that describes the next entry.
    fn whole(&mut self, header: &Header, limit: u64) -> Result<Vec<u8>, Error> {
        if header.size > limit {
            return Err(Error::invalid(&header.path, "a header about the next entry is too long"));
        }
        let length = header.size + padding(header.size) as u64;
        // Memory is taken as bytes arrive, not as they are announced.
        let mut data = Vec::new();
        self.inner.by_ref().take(length).read_to_end(&mut data)?;
        if (data.len() as u64) < length {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        if self.profile == Profile::Disk {
            self.spelled.extend_from_slice(&data);
        }
        data.truncate(usize::try_from(header.size).unwrap_or_default());
        Ok(data)
    }

    fn skip_content(&mut self) -> Result<(), Error> {
        let skipped = io::copy(&mut self.inner.by_ref().take(self.remaining), &mut io::sink())?;
        if skipped < self.remaining {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let mut rest = [0; BLOCK];
        let rest = &mut rest[..self.padding];
        self.inner.read_exact(rest)?;
        if self.profile == Profile::Disk && rest.iter().any(|b| *b != 0) {
            return Err(Error::invalid(b"", "something stands between two entries"));
        }
        (self.remaining, self.padding) = (0, 0);
        Ok(())
    }

    /// The next header; `None` at the end. Zeros end an archive, and the end of the file at a block ends a layer.
    fn block(&mut self) -> Result<Option<Block>, Error> {
        let mut block = [0; BLOCK];
        match self.fill(&mut block)? {
            0 if self.profile == Profile::Layer => return Ok(None),
            BLOCK => {}
            _ => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
        }
        if block.iter().all(|b| *b == 0) {
            return self.end().map(|()| None);
        }
        if self.profile == Profile::Disk {
            self.spelled.extend_from_slice(&block);
        }
        Ok(Some(block))
    }

    /// Reads what follows the first block of zeros: nothing but zeros, and on a disk exactly one block of them.
    fn end(&mut self) -> Result<(), Error> {
        let mut rest = vec![0; 64 << 10];
        let mut zeros = 0;
        loop {
            let read = self.fill(&mut rest)?;
            zeros += read as u64;
            let too_many = self.profile == Profile::Disk && zeros > BLOCK as u64;
            if too_many || rest[..read].iter().any(|b| *b != 0) {
                return Err(Error::invalid(b"", "something follows its end"));
            }
            if read < rest.len() {
                break;
            }
        }
        match self.profile {
            Profile::Disk if zeros < BLOCK as u64 => Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }

    /// Reads until the buffer is full or the input ends.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            match self.inner.read(&mut buffer[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }
}

fn choose(short: Vec<u8>, gnu: Option<Vec<u8>>, pax: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
    match (gnu, pax) {
        (Some(name), Some(_)) => Err(Error::invalid(&name, TWICE)),
        (Some(name), None) | (None, Some(name)) => Ok(name),
        (None, None) => Ok(short),
    }
}

/// The bytes of one entry.
pub struct Content<'a, R> {
    reader: &'a mut Reader<R>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = buffer.len().min(usize::try_from(self.reader.remaining).unwrap_or(usize::MAX));
        if want == 0 {
            return Ok(0);
        }
        let n = self.reader.inner.read(&mut buffer[..want])?;
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.reader.remaining -= n as u64;
        Ok(n)
    }
}
