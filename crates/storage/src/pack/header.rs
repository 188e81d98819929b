//! One header block of an archive: POSIX ustar as we write it. Whatever we would not have written is refused.

use super::text::octal;

/// Everything in an archive is a multiple of this.
pub(super) const BLOCK: usize = 512;
/// Names that fit into a header block; longer ones go into records.
pub(super) const SHORT: usize = 100;
/// Sizes and times above this go into records.
pub(super) const OCTAL_MOST: u64 = 0o777_7777_7777;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    /// Another name of an entry that came before.
    Link,
    Symlink,
    /// A character device 0/0: in an overlay's upper directory it says that a name is gone.
    Whiteout,
    Directory,
    Fifo,
    /// Records about the entry that follows.
    Records,
}

impl Kind {
    const ALL: [(Self, u8); 7] = [
        (Self::File, b'0'),
        (Self::Link, b'1'),
        (Self::Symlink, b'2'),
        (Self::Whiteout, b'3'),
        (Self::Directory, b'5'),
        (Self::Fifo, b'6'),
        (Self::Records, b'x'),
    ];

    fn letter(self) -> u8 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(b'0', |(_, letter)| *letter)
    }

    fn of(letter: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == letter).map(|(kind, _)| *kind)
    }
}

/// The fields that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// At most [`SHORT`] bytes.
    pub(super) name: Vec<u8>,
    /// At most [`SHORT`] bytes.
    pub(super) link: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) mtime: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..self.name.len()].copy_from_slice(&self.name);
        put(&mut block[100..108], self.mode.into());
        put(&mut block[108..116], self.uid.into());
        put(&mut block[116..124], self.gid.into());
        put(&mut block[124..136], self.size);
        put(&mut block[136..148], self.mtime);
        block[156] = self.kind.letter();
        block[157..157 + self.link.len()].copy_from_slice(&self.link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        put(&mut block[329..337], 0);
        put(&mut block[337..345], 0);
        let sum = checksum(&block);
        put(&mut block[148..155], sum);
        block[155] = b' ';
        block
    }

    /// `None` for the block of zeros that ends an archive.
    pub(super) fn decode(block: &[u8; BLOCK]) -> Result<Option<Self>, &'static str> {
        if block.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        if &block[257..265] != b"ustar\x0000" {
            return Err("a block is not a header");
        }
        if octal(&block[148..154]) != Some(checksum(block)) {
            return Err("a header is damaged");
        }
        let kind = Kind::of(block[156]).ok_or("an entry is of a kind that is never packed")?;
        let number = |from: usize, to: usize| octal(&block[from..to - 1]).ok_or("a number in a header is damaged");
        let small = |from, to| number(from, to).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let header = Self {
            kind,
            name: text(&block[..100]),
            link: text(&block[157..257]),
            mode: small(100, 108)?,
            uid: small(108, 116)?,
            gid: small(116, 124)?,
            size: number(124, 136)?,
            mtime: number(136, 148)?,
        };
        // Devices other than 0/0, names of users, prefixes of names: there are many ways to say more than we do.
        if header.encode() != *block {
            return Err("a header is not spelled as we spell it");
        }
        Ok(Some(header))
    }
}

/// Octal digits that fill a field but for its last byte, a zero.
fn put(field: &mut [u8], number: u64) {
    let width = field.len() - 1;
    let digits = format!("{number:0width$o}");
    field[..width].copy_from_slice(&digits.as_bytes()[digits.len() - width..]);
}

/// The text before the first zero.
fn text(field: &[u8]) -> Vec<u8> {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    field[..end].to_vec()
}

/// The sum of all bytes, those of the sum itself taken as blanks.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
    sum(&block[..148]) + 8 * u64::from(b' ') + sum(&block[156..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_header() -> impl Strategy<Value = Header> {
        let name = || prop::collection::vec(1..=255u8, 0..=SHORT);
        let kind = (0..Kind::ALL.len()).prop_map(|i| Kind::ALL[i].0);
        let numbers = (0..=0o7777u32, 0..=65_535u32, 0..=65_535u32, 0..=OCTAL_MOST, 0..=OCTAL_MOST);
        (kind, name(), name(), numbers).prop_map(|(kind, name, link, (mode, uid, gid, size, mtime))| Header {
            kind,
            name,
            link,
            mode,
            uid,
            gid,
            size,
            mtime,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in any_header()) {
            prop_assert_eq!(Header::decode(&header.encode()), Ok(Some(header)));
        }

        #[test]
        fn one_changed_byte_is_noticed(header in any_header(), at in 0..BLOCK, by in 1..=255u8) {
            let mut block = header.encode();
            block[at] = block[at].wrapping_add(by);
            prop_assert!(Header::decode(&block).is_err());
        }

        #[test]
        fn any_block_is_survived(bytes in prop::collection::vec(any::<u8>(), BLOCK)) {
            let _ = Header::decode(bytes.as_slice().try_into().expect("a block"));
        }
    }

    #[test]
    fn zeros_are_the_end() {
        assert_eq!(Header::decode(&[0; BLOCK]), Ok(None));
    }
}
