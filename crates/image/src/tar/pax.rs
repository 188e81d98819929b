//! The records of a pax header: `<length> <key>=<value>\n`, each taken only if every byte of it is as it should be,
//! because two readers that disagree about a length see two different archives.

use crate::error::{Error, Result};

/// What the next entry is told by a pax header. What is absent is said by the entry's own header.
#[derive(Debug, Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) mtime: Option<(i64, u32)>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The entry is a sparse file.
    pub(super) sparse: bool,
}

const XATTR: &[u8] = b"SCHILY.xattr.";

impl Pax {
    pub(super) fn parse(mut data: &[u8]) -> Result<Self> {
        let mut pax = Self::default();
        while !data.is_empty() {
            let (record, rest) = split_record(data).ok_or_else(|| bad("a record has a wrong length"))?;
            data = rest;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(|| bad("a record has no value"))?;
            pax.take(&record[..equals], &record[equals + 1..])?;
        }
        Ok(pax)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key {
            b"path" => self.path = Some(name(value)?),
            b"linkpath" => self.link = Some(name(value)?),
            b"size" => self.size = Some(decimal(value).ok_or_else(|| bad("size"))?),
            b"uid" => self.uid = Some(decimal(value).ok_or_else(|| bad("uid"))?),
            b"gid" => self.gid = Some(decimal(value).ok_or_else(|| bad("gid"))?),
            b"mtime" => self.mtime = Some(time(value).ok_or_else(|| bad("mtime"))?),
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ if key.starts_with(XATTR) => {
                let attribute = name(&key[XATTR.len()..])?;
                self.xattrs.retain(|(known, _)| *known != attribute);
                self.xattrs.push((attribute, value.to_vec()));
            }
            // atime, ctime, uname, gname, comments and vendors' own words change nothing.
            _ => {}
        }
        Ok(())
    }

    /// Whether a global header says something that would change where entries go or how long they are.
    pub(super) fn moves_entries(&self) -> bool {
        self.path.is_some() || self.link.is_some() || self.size.is_some() || self.sparse
    }
}

fn bad(what: &str) -> Error {
    Error::refused(b"", format!("a pax header is malformed: {what}"))
}

/// The text between the length and the newline, and what follows.
fn split_record(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = data.iter().take(12).position(|b| *b == b' ')?;
    let length = usize::try_from(decimal(&data[..space])?).ok()?;
    if data[0] == b'0' || length > data.len() || length < space + 3 || data[length - 1] != b'\n' {
        return None;
    }
    Some((&data[space + 1..length - 1], &data[length..]))
}

fn name(value: &[u8]) -> Result<Vec<u8>> {
    if value.is_empty() || value.contains(&0) {
        return Err(bad("a name is empty or has a NUL in it"));
    }
    Ok(value.to_vec())
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// `1700000000.123456789`, maybe negative; nanoseconds count upwards as in a timespec.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let mut parts = text.splitn(2, |b| *b == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if fraction.len() > 40 || fraction.iter().any(|b| !b.is_ascii_digit()) {
        return None;
    }
    let nanos = (0..9).fold(0, |n, i| n * 10 + fraction.get(i).map_or(0, |digit| u32::from(digit - b'0')));
    Some(match (negative, nanos) {
        (false, _) => (seconds, nanos),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanos),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_whole_or_refused() {
        let pax = Pax::parse(b"12 path=a/b\n21 mtime=1.500000000\n30 SCHILY.xattr.user.x=a=b\nc\xff\n").unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(pax.mtime, Some((1, 500_000_000)));
        assert_eq!(pax.xattrs, [(b"user.x".to_vec(), b"a=b\nc\xff".to_vec())]);
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
            assert!(Pax::parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn times_before_the_epoch() {
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"-3"), Some((-3, 0)));
        assert_eq!(time(b"5."), Some((5, 0)));
        assert_eq!(time(b"99999999999999999999"), None);
        assert_eq!(time(b"1e5"), None);
    }
}
