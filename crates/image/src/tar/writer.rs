//! Writes tar archives that every reader understands the same: POSIX headers, and pax records only for what does not
//! fit into them.

use std::io::{self, Read, Write};

use super::{Entry, Kind, MAX_OCTAL};

/// An archive being written.
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Around anything that takes bytes.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Adds an entry. `content` must have the bytes that the entry says, and is not read for other kinds than files.
    pub fn append(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        let mut path = entry.path.clone();
        if entry.kind == Kind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        let size = if entry.kind == Kind::File { entry.size } else { 0 };
        let mut records = Vec::new();
        if path.len() > 100 {
            records.extend(record(b"path", &path));
        }
        if entry.link.len() > 100 {
            records.extend(record(b"linkpath", &entry.link));
        }
        for (key, value, most) in
            [("uid", entry.uid, 0o7_777_777), ("gid", entry.gid, 0o7_777_777), ("size", size, MAX_OCTAL)]
        {
            if value > most {
                records.extend(record(key.as_bytes(), value.to_string().as_bytes()));
            }
        }
        if entry.mtime.1 != 0 || !(0..=MAX_OCTAL as i64).contains(&entry.mtime.0) {
            records.extend(record(b"mtime", time(entry.mtime).as_bytes()));
        }
        for (name, value) in &entry.xattrs {
            records.extend(record(&[b"SCHILY.xattr.", &name[..]].concat(), value));
        }
        if !records.is_empty() {
            self.out.write_all(&header(b"pax", b"", b'x', 0o644, (0, 0), records.len() as u64, 0))?;
            self.padded(&records)?;
        }
        let flag = match entry.kind {
            Kind::File => b'0',
            Kind::HardLink => b'1',
            Kind::Symlink => b'2',
            Kind::Device => b'3',
            Kind::Directory => b'5',
            Kind::Fifo => b'6',
        };
        let seconds = u64::try_from(entry.mtime.0).unwrap_or_default();
        self.out.write_all(&header(&path, &entry.link, flag, entry.mode, (entry.uid, entry.gid), size, seconds))?;
        let copied = io::copy(&mut content.take(size), &mut self.out)?;
        if copied != size {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.pad(size)
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 1024])?;
        Ok(self.out)
    }

    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.pad(bytes.len() as u64)
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let rest = usize::try_from(size.wrapping_neg() % 512).unwrap_or_default();
        self.out.write_all(&[0; 512][..rest])
    }
}

/// `<length> <key>=<value>\n`, where the length counts itself.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

/// Nanoseconds count upwards in a timespec, and away from zero in a text.
fn time((seconds, nanos): (i64, u32)) -> String {
    match (seconds < 0, nanos) {
        (_, 0) => seconds.to_string(),
        (false, _) => format!("{seconds}.{nanos:09}"),
        (true, _) => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanos),
    }
}

fn header(path: &[u8], link: &[u8], flag: u8, mode: u32, owner: (u64, u64), size: u64, mtime: u64) -> [u8; 512] {
    let mut block = [0; 512];
    let mut put = |at: usize, room: usize, bytes: &[u8]| {
        let n = bytes.len().min(room);
        block[at..at + n].copy_from_slice(&bytes[..n]);
    };
    put(0, 100, path);
    put(100, 8, format!("{:07o}\0", mode & 0o7777).as_bytes());
    // What does not fit is said by a pax record; the field is then empty.
    let fit = |value: u64, most: u64| if value > most { 0 } else { value };
    put(108, 8, format!("{:07o}\0", fit(owner.0, 0o7_777_777)).as_bytes());
    put(116, 8, format!("{:07o}\0", fit(owner.1, 0o7_777_777)).as_bytes());
    put(124, 12, format!("{:011o}\0", fit(size, MAX_OCTAL)).as_bytes());
    put(136, 12, format!("{:011o}\0", fit(mtime, MAX_OCTAL)).as_bytes());
    put(148, 8, b"        ");
    put(156, 1, &[flag]);
    put(157, 100, link);
    put(257, 8, b"ustar\x0000");
    let sum: u64 = block.iter().map(|b| u64::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Archive;
    use super::*;

    fn entry() -> impl Strategy<Value = (Entry, Vec<u8>)> {
        let kind = prop::sample::select(vec![Kind::File, Kind::Directory, Kind::Symlink, Kind::HardLink, Kind::Fifo]);
        let name = prop_oneof!["[a-z\u{e9}\n]{1,20}(/[a-z]{1,9}){0,3}", "[a-z]{90,130}", "[a-z]{1,9}(/[a-z]{60}){3}"];
        let xattrs =
            proptest::collection::vec(("user\\.[a-z]{1,5}", proptest::collection::vec(any::<u8>(), 0..9)), 0..2);
        let numbers =
            (0_u32..0o10000, any::<u32>(), any::<u32>(), -5_000_000_000_i64..50_000_000_000, 0_u32..1_000_000_000);
        (name, kind, "[a-z/.]{1,150}", numbers, xattrs, proptest::collection::vec(any::<u8>(), 0..1500)).prop_map(
            |(path, kind, link, (mode, uid, gid, seconds, nanos), xattrs, content)| {
                let content = if kind == Kind::File { content } else { Vec::new() };
                let is_link = matches!(kind, Kind::Symlink | Kind::HardLink);
                let entry = Entry {
                    path: path.into_bytes(),
                    kind,
                    link: if is_link { link.into_bytes() } else { Vec::new() },
                    mode,
                    uid: uid.into(),
                    gid: gid.into(),
                    size: content.len() as u64,
                    mtime: (seconds, nanos),
                    xattrs: xattrs.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect(),
                };
                (entry, content)
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in proptest::collection::vec(entry(), 0..6)) {
            let mut writer = Writer::new(Vec::new());
            for (entry, content) in &entries {
                writer.append(entry, &mut &content[..]).unwrap();
            }
            let bytes = writer.finish().unwrap();
            prop_assert_eq!(bytes.len() % 512, 0);
            let mut archive = Archive::new(&bytes[..]);
            for (entry, content) in &entries {
                let mut read = archive.next_entry().unwrap().unwrap();
                if entry.kind == Kind::Directory {
                    prop_assert_eq!(read.path.pop(), Some(b'/'));
                }
                let mut found = Vec::new();
                archive.content().read_to_end(&mut found).unwrap();
                prop_assert_eq!(&found, content);
                let mut wanted = entry.clone();
                // Of attributes that come twice, the last counts.
                wanted.xattrs.reverse();
                wanted.xattrs.dedup_by(|a, b| a.0 == b.0);
                wanted.xattrs.reverse();
                prop_assert_eq!(format!("{:?}", read), format!("{:?}", wanted));
            }
            prop_assert!(archive.next_entry().unwrap().is_none());
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let entry = Entry {
            path: b"x".to_vec(),
            kind: Kind::File,
            link: Vec::new(),
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 10,
            mtime: (0, 0),
            xattrs: Vec::new(),
        };
        assert!(Writer::new(Vec::new()).append(&entry, &mut &b"short"[..]).is_err());
    }
}
