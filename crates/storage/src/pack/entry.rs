//! One entry of an archive as a whole: its header block with the records in front of it.

use std::io::{self, Read, Write};

use rustix::fs::Stat;

use super::header::{BLOCK, Header, Kind, OCTAL_MOST, SHORT};
use super::records::{self, Attribute, Records};
use super::text::Time;

/// What is said about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// From the top of the archive, without a slash at the end.
    pub(super) path: Vec<u8>,
    /// Where a symbolic link points to, or the path of which this is another name.
    pub(super) link: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Time,
    /// Bytes that follow in the archive, before they are filled up to whole blocks.
    pub(super) stored: u64,
    /// The size of a file with holes: a map and its pieces are stored.
    pub(super) full_size: Option<u64>,
    pub(super) attributes: Vec<Attribute>,
}

impl Entry {
    /// A file as it was found, but for its contents and attributes.
    pub(super) fn describe(kind: Kind, path: Vec<u8>, found: &Stat) -> Self {
        let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
        Self {
            kind,
            path,
            link: Vec::new(),
            mode: found.st_mode & 0o7777,
            uid: found.st_uid,
            gid: found.st_gid,
            mtime: Time { seconds: found.st_mtime, nanoseconds },
            stored: 0,
            full_size: None,
            attributes: Vec::new(),
        }
    }

    /// Writes all but what is stored. `false`: the attributes are too many, and nothing was written.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<bool> {
        let mut name = self.path.clone();
        if self.kind == Kind::Directory {
            name.push(b'/');
        }
        let whole = self.mtime.nanoseconds == 0;
        let second = u64::try_from(self.mtime.seconds).ok().filter(|s| *s <= OCTAL_MOST);
        let records = Records {
            path: (name.len() > SHORT || self.full_size.is_some()).then(|| name.clone()),
            link: (self.link.len() > SHORT).then(|| self.link.clone()),
            size: (self.stored > OCTAL_MOST).then_some(self.stored),
            mtime: (!whole || second.is_none()).then_some(self.mtime),
            full_size: self.full_size,
            attributes: self.attributes.clone(),
        };
        if self.full_size.is_some() {
            // Programs that know nothing of holes unpack the map and the pieces under this name.
            let file = name.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
            name.splice(file..file, *b"GNUSparseFile.0/");
        }
        if !records.is_empty() {
            let bytes = records.encode();
            if bytes.len() > records::MOST {
                return Ok(false);
            }
            let header = Header {
                kind: Kind::Records,
                name: b"PaxHeaders/records".to_vec(),
                link: Vec::new(),
                mode: 0o644,
                uid: 0,
                gid: 0,
                size: bytes.len() as u64,
                mtime: 0,
            };
            out.write_all(&header.encode())?;
            out.write_all(&bytes)?;
            fill(out, bytes.len() as u64)?;
        }
        name.truncate(SHORT);
        let header = Header {
            kind: self.kind,
            name,
            link: if self.link.len() > SHORT { Vec::new() } else { self.link.clone() },
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            size: if self.stored > OCTAL_MOST { 0 } else { self.stored },
            mtime: second.unwrap_or(0),
        };
        out.write_all(&header.encode())?;
        Ok(true)
    }

    /// Reads the next entry but for what is stored; `None` at the archive's end.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Result<Option<Self>, &'static str>> {
        let header = match header(input)? {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(end(input)?.map(|()| None)),
            Err(problem) => return Ok(Err(problem)),
        };
        if header.kind != Kind::Records {
            return Ok(Self::join(header, Records::default()).map(Some));
        }
        let length = match usize::try_from(header.size) {
            Ok(length) if length <= records::MOST => length,
            _ => return Ok(Err("an entry has too many records")),
        };
        // Memory is taken as bytes come, not as they are promised.
        let mut bytes = Vec::new();
        input.take(header.size).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        skip_fill(input, header.size)?;
        let records = match Records::decode(&bytes) {
            Ok(records) => records,
            Err(problem) => return Ok(Err(problem)),
        };
        Ok(match self::header(input)? {
            Ok(Some(header)) if header.kind != Kind::Records => Self::join(header, records).map(Some),
            Ok(_) => Err("records are not followed by their entry"),
            Err(problem) => Err(problem),
        })
    }

    fn join(header: Header, records: Records) -> Result<Self, &'static str> {
        let mut path = records.path.unwrap_or(header.name);
        if header.kind == Kind::Directory && path.pop() != Some(b'/') {
            return Err("a directory's name does not end in a slash");
        }
        let mtime = match records.mtime {
            Some(time) => time,
            None => Time { seconds: i64::try_from(header.mtime).unwrap_or(i64::MAX), nanoseconds: 0 },
        };
        let entry = Self {
            kind: header.kind,
            path,
            link: records.link.unwrap_or(header.link),
            mode: header.mode,
            uid: header.uid,
            gid: header.gid,
            mtime,
            stored: records.size.unwrap_or(header.size),
            full_size: records.full_size,
            attributes: records.attributes,
        };
        let file = entry.kind == Kind::File;
        if !file && (entry.stored > 0 || entry.full_size.is_some()) {
            return Err("data follow on something that is no file");
        }
        if matches!(entry.kind, Kind::Link | Kind::Symlink) == entry.link.is_empty() {
            return Err("a link without a target, or a target without a link");
        }
        if matches!(entry.kind, Kind::Link | Kind::Symlink) && !entry.attributes.is_empty() {
            return Err("a link has attributes");
        }
        Ok(entry)
    }
}

fn header(input: &mut impl Read) -> io::Result<Result<Option<Header>, &'static str>> {
    let mut block = [0; BLOCK];
    input.read_exact(&mut block)?;
    Ok(Header::decode(&block))
}

/// Writes the archive's end.
pub(super) fn finish(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// After the first block of zeros there is a second, and then nothing.
fn end(input: &mut impl Read) -> io::Result<Result<(), &'static str>> {
    let mut rest = [0; BLOCK];
    input.read_exact(&mut rest)?;
    if rest.iter().any(|b| *b != 0) {
        return Ok(Err("the archive's end is damaged"));
    }
    match input.read(&mut rest[..1])? {
        0 => Ok(Ok(())),
        _ => Ok(Err("something follows the archive's end")),
    }
}

fn filling(stored: u64) -> usize {
    let over = usize::try_from(stored % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

/// Fills up to whole blocks after so many bytes.
pub(super) fn fill(out: &mut impl Write, stored: u64) -> io::Result<()> {
    out.write_all(&[0; BLOCK][..filling(stored)])
}

/// Passes over what [`fill`] wrote.
pub(super) fn skip_fill(input: &mut impl Read, stored: u64) -> io::Result<()> {
    input.read_exact(&mut [0; BLOCK][..filling(stored)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_entry() -> impl Strategy<Value = Entry> {
        let bytes = |least, most| prop::collection::vec(1..=255u8, least..most);
        let kinds = [Kind::File, Kind::Link, Kind::Symlink, Kind::Whiteout, Kind::Directory, Kind::Fifo];
        let kind = (0..kinds.len()).prop_map(move |i| kinds[i]);
        let attributes = prop::collection::vec((bytes(1, 40), bytes(0, 500)), 0..4);
        let time = (-(1i64 << 40)..1 << 40, prop_oneof![Just(0), 0..1_000_000_000u32])
            .prop_map(|(seconds, nanoseconds)| Time { seconds, nanoseconds });
        let sizes = (prop_oneof![0..100u64, any::<u64>()], prop::option::of(any::<u64>()));
        (kind, bytes(1, 300), bytes(1, 300), (0..=0o7777u32, 0..65_536u32, 0..65_536u32), time, sizes, attributes)
            .prop_map(|(kind, path, link, (mode, uid, gid), mtime, (stored, full_size), attributes)| {
                let (file, link_kind) = (kind == Kind::File, matches!(kind, Kind::Link | Kind::Symlink));
                Entry {
                    kind,
                    path,
                    link: if link_kind { link } else { Vec::new() },
                    mode,
                    uid,
                    gid,
                    mtime,
                    stored: if file { stored } else { 0 },
                    full_size: full_size.filter(|_| file),
                    attributes: if link_kind { Vec::new() } else { attributes },
                }
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entry in any_entry()) {
            let mut bytes = Vec::new();
            prop_assert!(entry.write(&mut bytes).expect("memory"));
            prop_assert_eq!(bytes.len() % BLOCK, 0);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(Entry::read(&mut rest).expect("whole"), Ok(Some(entry)));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn a_cut_is_noticed(entry in any_entry(), at: prop::sample::Index) {
            let mut bytes = Vec::new();
            entry.write(&mut bytes).expect("memory");
            bytes.truncate(at.index(bytes.len()));
            prop_assert!(Entry::read(&mut bytes.as_slice()).is_err());
        }
    }

    #[test]
    fn the_end_is_the_end() {
        let mut bytes = Vec::new();
        finish(&mut bytes).expect("memory");
        assert_eq!(Entry::read(&mut bytes.as_slice()).expect("whole"), Ok(None));
        bytes.push(0);
        assert!(Entry::read(&mut bytes.as_slice()).expect("whole").is_err());
        bytes[BLOCK] = 1;
        assert!(Entry::read(&mut bytes.as_slice()).expect("whole").is_err());
    }
}
