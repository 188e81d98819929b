//! Pax records in front of an entry, `<length> <key>=<value>\n`: what does not fit into its header. A record is accepted only if every byte
//! of it is as it should be, because two readers that disagree about a length see two different archives.

use crate::number::{Time, decimal};
use crate::{Error, Profile, Xattr};

const XATTR: &[u8] = b"SCHILY.xattr.";

/// What records say about the next entry. What is absent is said by the entry's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Time>,
    /// The size of a sparse file.
    pub(crate) full_size: Option<u64>,
    pub(crate) xattrs: Vec<Xattr>,
    /// There are records of a sparse file.
    pub(crate) sparse: bool,
}

impl Records {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |key: &[u8], value: &[u8]| out.extend(record(key, value));
        if [&self.path, &self.link].into_iter().flatten().any(|name| std::str::from_utf8(name).is_err()) {
            put(b"hdrcharset", b"BINARY");
        }
        match (&self.path, self.full_size) {
            (Some(path), Some(size)) => {
                put(b"GNU.sparse.major", b"1");
                put(b"GNU.sparse.minor", b"0");
                put(b"GNU.sparse.name", path);
                put(b"GNU.sparse.realsize", size.to_string().as_bytes());
            }
            (Some(path), None) => put(b"path", path),
            (None, _) => {}
        }
        if let Some(link) = &self.link {
            put(b"linkpath", link);
        }
        for (key, number) in [("size", self.size), ("uid", self.uid), ("gid", self.gid)] {
            if let Some(number) = number {
                put(key.as_bytes(), number.to_string().as_bytes());
            }
        }
        if let Some(time) = self.mtime {
            put(b"mtime", time.spell().as_bytes());
        }
        for (name, value) in &self.xattrs {
            put(&[XATTR, &escape(name)].concat(), value);
        }
        out
    }

    pub(crate) fn decode(mut data: &[u8], profile: Profile) -> Result<Self, Error> {
        let mut records = Self::default();
        while !data.is_empty() {
            let (record, rest) = split(data).ok_or_else(|| bad("a record has a wrong length"))?;
            data = rest;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(|| bad("a record has no value"))?;
            records.take(&record[..equals], &record[equals + 1..], profile)?;
        }
        Ok(records)
    }

    fn take(&mut self, key: &[u8], value: &[u8], profile: Profile) -> Result<(), Error> {
        let number = |what: &str| decimal(value).ok_or_else(|| bad(what));
        match key {
            b"path" => self.path = Some(name(value)?),
            b"linkpath" => self.link = Some(name(value)?),
            b"size" => self.size = Some(number("size")?),
            b"uid" => self.uid = Some(number("uid")?),
            b"gid" => self.gid = Some(number("gid")?),
            b"mtime" => self.mtime = Some(Time::parse(value).ok_or_else(|| bad("mtime"))?),
            _ if key.starts_with(b"GNU.sparse.") => {
                self.sparse = true;
                match (profile, key) {
                    (Profile::Disk, b"GNU.sparse.name") => self.path = Some(name(value)?),
                    (Profile::Disk, b"GNU.sparse.realsize") => self.full_size = Some(number("size")?),
                    _ => {}
                }
            }
            _ if key.starts_with(XATTR) => {
                let spelled = name(&key[XATTR.len()..])?;
                let attribute = match profile {
                    Profile::Layer => spelled,
                    Profile::Disk => unescape(&spelled).ok_or_else(|| bad("an attribute's name"))?,
                };
                self.xattrs.retain(|(known, _)| *known != attribute);
                self.xattrs.push((attribute, value.to_vec()));
            }
            // atime, ctime, uname, gname, comments and vendors' own keys change nothing.
            _ => {}
        }
        Ok(())
    }

    /// Whether a global header would change where entries go or how long they are.
    pub(crate) fn moves_entries(&self) -> bool {
        self.path.is_some() || self.link.is_some() || self.size.is_some() || self.sparse
    }
}

fn bad(what: &str) -> Error {
    Error::invalid(b"", format!("a pax header is malformed: {what}"))
}

/// The length counts itself.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

/// The text between the length and the newline, and what follows.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = data.iter().take(12).position(|b| *b == b' ')?;
    let length = usize::try_from(decimal(&data[..space])?).ok()?;
    if data[0] == b'0' || length > data.len() || length < space + 3 || data[length - 1] != b'\n' {
        return None;
    }
    Some((&data[space + 1..length - 1], &data[length..]))
}

fn name(value: &[u8]) -> Result<Vec<u8>, Error> {
    if value.is_empty() || value.contains(&0) {
        return Err(bad("a name is empty or has a NUL in it"));
    }
    Ok(value.to_vec())
}

/// An equals sign would end the key. GNU tar escapes it the same way.
fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'=' => escaped.extend_from_slice(b"%3D"),
            b'%' => escaped.extend_from_slice(b"%25"),
            other => escaped.push(*other),
        }
    }
    escaped
}

fn unescape(mut escaped: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(escaped.len());
    while let Some((first, rest)) = escaped.split_first() {
        (escaped, name) = match first {
            b'%' => {
                let byte = if rest.starts_with(b"3D") { b'=' } else { b'%' };
                name.push(byte);
                (rest.get(2..).filter(|_| byte == b'=' || rest.starts_with(b"25"))?, name)
            }
            other => {
                name.push(*other);
                (rest, name)
            }
        };
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(least: usize, most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), least..most)
    }

    fn name_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(1..=255u8, 1..most)
    }

    fn any_records() -> impl Strategy<Value = Records> {
        let time = (any::<i32>(), 0..1_000_000_000u32)
            .prop_map(|(seconds, nanoseconds)| Time { seconds: seconds.into(), nanoseconds });
        let xattrs = prop::collection::btree_map(name_bytes(20), bytes(0, 200), 0..4);
        let number = || prop::option::of(any::<u64>());
        let names = (prop::option::of(name_bytes(300)), prop::option::of(name_bytes(300)));
        (names, (number(), number(), number(), number()), prop::option::of(time), xattrs).prop_map(
            |((path, link), (size, uid, gid, full_size), mtime, xattrs)| {
                let full_size = full_size.filter(|_| path.is_some());
                let (xattrs, sparse) = (xattrs.into_iter().collect(), full_size.is_some());
                Records { path, link, size, uid, gid, mtime, full_size, xattrs, sparse }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in any_records()) {
            prop_assert_eq!(Records::decode(&records.encode(), Profile::Disk).expect("our own"), records);
        }

        #[test]
        fn any_bytes_are_survived(bytes in bytes(0, 200)) {
            let _ = Records::decode(&bytes, Profile::Disk);
            let _ = Records::decode(&bytes, Profile::Layer);
        }

        #[test]
        fn changed_bytes_are_survived(records in any_records(), at: prop::sample::Index, to: u8) {
            let mut spelled = records.encode();
            if !spelled.is_empty() {
                let at = at.index(spelled.len());
                spelled[at] = to;
                let _ = Records::decode(&spelled, Profile::Disk);
                let _ = Records::decode(&spelled, Profile::Layer);
            }
        }
    }

    #[test]
    fn lengths_count_themselves() {
        for value in 0..2000 {
            let out = record(b"k", &vec![b'v'; value]);
            let blank = out.iter().position(|b| *b == b' ').expect("a blank");
            assert_eq!(decimal(&out[..blank]), Some(out.len() as u64));
        }
    }

    #[test]
    fn records_are_read_whole_or_refused() {
        let text = b"12 path=a/b\n21 mtime=1.500000000\n30 SCHILY.xattr.user.x=a=b\nc\xff\n";
        let records = Records::decode(text, Profile::Layer).expect("records");
        assert_eq!(records.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(records.mtime, Some(Time { seconds: 1, nanoseconds: 500_000_000 }));
        assert_eq!(records.xattrs, [(b"user.x".to_vec(), b"a=b\nc\xff".to_vec())]);
        for bad in [
            &b"12 path=a/b"[..],
            b"13 path=a/b\n",
            b"11 path=a/b\n",
            b"0012 path=a/b\n",
            b"12path=a/b\n",
            b"-2 path=a/b\n",
            b"3 \n",
            b"99999999999999999999 path=a\n",
            b"6 path\n",
            b"12 path=a\0b\n",
            b"8 path=\n",
            b"11 size=-1\n",
            b"13 size=0x10\n",
            b"\0\0\0\0",
            b"5 a=\n\n",
        ] {
            assert!(Records::decode(bad, Profile::Layer).is_err(), "{}", bad.escape_ascii());
            assert!(Records::decode(bad, Profile::Disk).is_err(), "{}", bad.escape_ascii());
        }
    }
}
