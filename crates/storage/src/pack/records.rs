//! The records in front of an entry (pax extended headers): what does not fit into its header block.

use super::text::{Time, decimal};

/// Records of one entry take no more than this.
pub(super) const MOST: usize = 16 << 20;

const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";

/// An extended attribute: name and value.
pub(super) type Attribute = (Vec<u8>, Vec<u8>);

/// What records say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<Time>,
    /// The size of a file with holes. Its data then begin with a map.
    pub(super) full_size: Option<u64>,
    pub(super) attributes: Vec<Attribute>,
}

impl Records {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let texts = [&self.path, &self.link];
        if texts.into_iter().flatten().any(|t| std::str::from_utf8(t).is_err()) {
            record(&mut out, b"hdrcharset", b"BINARY");
        }
        match (&self.path, self.full_size) {
            (Some(path), Some(size)) => {
                record(&mut out, b"GNU.sparse.major", b"1");
                record(&mut out, b"GNU.sparse.minor", b"0");
                record(&mut out, b"GNU.sparse.name", path);
                record(&mut out, b"GNU.sparse.realsize", size.to_string().as_bytes());
            }
            (Some(path), None) => record(&mut out, b"path", path),
            (None, _) => {}
        }
        if let Some(link) = &self.link {
            record(&mut out, b"linkpath", link);
        }
        if let Some(size) = self.size {
            record(&mut out, b"size", size.to_string().as_bytes());
        }
        if let Some(time) = self.mtime {
            record(&mut out, b"mtime", time.spell().as_bytes());
        }
        for (name, value) in &self.attributes {
            let mut key = ATTRIBUTE.to_vec();
            // An equals sign would end the key. GNU tar spells it the same way.
            for byte in name {
                match byte {
                    b'=' => key.extend_from_slice(b"%3D"),
                    b'%' => key.extend_from_slice(b"%25"),
                    other => key.push(*other),
                }
            }
            record(&mut out, &key, value);
        }
        out
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, &'static str> {
        let mut found = Self::default();
        let (mut sparse_name, mut version) = (None, [None, None]);
        let mut charset = None;
        while !bytes.is_empty() {
            let (key, value, rest) = split(bytes).ok_or("a record is damaged")?;
            bytes = rest;
            match key {
                b"hdrcharset" if value == b"BINARY" => once(&mut charset, ())?,
                b"path" => once(&mut found.path, value.to_vec())?,
                b"linkpath" => once(&mut found.link, value.to_vec())?,
                b"size" => once(&mut found.size, number(value)?)?,
                b"mtime" => once(&mut found.mtime, Time::parse(value).ok_or("a time is damaged")?)?,
                b"GNU.sparse.major" if value == b"1" => once(&mut version[0], ())?,
                b"GNU.sparse.minor" if value == b"0" => once(&mut version[1], ())?,
                b"GNU.sparse.name" => once(&mut sparse_name, value.to_vec())?,
                b"GNU.sparse.realsize" => once(&mut found.full_size, number(value)?)?,
                key => match key.strip_prefix(ATTRIBUTE) {
                    Some(name) => found.attributes.push((plain(name)?, value.to_vec())),
                    None => return Err("a record is of a kind that is never written"),
                },
            }
        }
        match (found.full_size, sparse_name, version) {
            (None, None, [None, None]) => {}
            (Some(_), Some(name), [Some(()), Some(())]) if found.path.is_none() => found.path = Some(name),
            _ => return Err("the records of a file with holes are incomplete"),
        }
        Ok(found)
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), &'static str> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err("a record comes twice"),
    }
}

fn number(text: &[u8]) -> Result<u64, &'static str> {
    decimal(text).ok_or("a number in a record is damaged")
}

/// The attribute's name behind the spelling in a key.
fn plain(mut spelled: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut name = Vec::with_capacity(spelled.len());
    while let Some((first, rest)) = spelled.split_first() {
        spelled = rest;
        match first {
            b'%' if rest.starts_with(b"3D") => name.push(b'='),
            b'%' if rest.starts_with(b"25") => name.push(b'%'),
            b'%' => return Err("an attribute's name is damaged"),
            other => {
                name.push(*other);
                continue;
            }
        }
        spelled = &rest[2..];
    }
    Ok(name)
}

/// `<length> <key>=<value>\n`, where the length counts itself.
fn record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let bare = key.len() + value.len() + 3;
    let mut length = bare + 1;
    while bare + length.to_string().len() != length {
        length = bare + length.to_string().len();
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// The first record's key and value, and what comes after it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = bytes.iter().take(10).position(|b| *b == b' ')?;
    let length = usize::try_from(decimal(&bytes[..blank])?).ok()?;
    let record = bytes.get(..length)?;
    let body = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|b| *b == b'=')?;
    Some((&body[..equals], &body[equals + 1..], &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..most)
    }

    fn any_records() -> impl Strategy<Value = Records> {
        let time = (any::<i32>(), 0..1_000_000_000u32)
            .prop_map(|(seconds, nanoseconds)| Time { seconds: seconds.into(), nanoseconds });
        let attributes = prop::collection::vec((bytes(20), bytes(200)), 0..4);
        let options = (
            prop::option::of(bytes(300)),
            prop::option::of(bytes(300)),
            prop::option::of(any::<u64>()),
            prop::option::of(time),
            prop::option::of(any::<u64>()),
        );
        (options, attributes).prop_map(|((path, link, size, mtime, full_size), attributes)| {
            let full_size = full_size.filter(|_| path.is_some());
            Records { path, link, size, mtime, full_size, attributes }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in any_records()) {
            prop_assert_eq!(Records::decode(&records.encode()), Ok(records));
        }

        #[test]
        fn any_bytes_are_survived(bytes in bytes(200)) {
            let _ = Records::decode(&bytes);
        }

        #[test]
        fn changed_bytes_are_survived(records in any_records(), at: prop::sample::Index, to: u8) {
            let mut spelled = records.encode();
            if !spelled.is_empty() {
                let at = at.index(spelled.len());
                spelled[at] = to;
                let _ = Records::decode(&spelled);
            }
        }
    }

    #[test]
    fn lengths_count_themselves() {
        for value in 0..2000 {
            let mut out = Vec::new();
            record(&mut out, b"k", &vec![b'v'; value]);
            let blank = out.iter().position(|b| *b == b' ').expect("a blank");
            assert_eq!(decimal(&out[..blank]), Some(out.len() as u64));
        }
    }

    #[test]
    fn what_is_never_written_is_refused() {
        let bad: [&[u8]; 8] = [
            b"11 path=ab\n11 path=ab\n",
            b"12 atime=12\n",
            b"99 path=ab\n",
            b"5 x\n",
            b" path=ab\n",
            b"26 GNU.sparse.realsize=12\n",
            b"24 SCHILY.xattr.a%b=12\n",
            b"11 path=abc",
        ];
        for bytes in bad {
            assert!(Records::decode(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
