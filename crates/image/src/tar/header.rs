//! One 512-byte header of a tar archive: POSIX ustar, GNU and the oldest form, read strictly.

use crate::error::{Error, Result};

/// What a block of 512 bytes says.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) flag: u8,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) size: u64,
    pub(super) mtime: i64,
}

pub(super) type Block = [u8; 512];

pub(super) fn parse(block: &Block) -> Result<Header> {
    let path = text(&block[..100]);
    let bad = |what: &str| Error::refused(&path, format!("its header is malformed: {what}"));
    let stored = octal(&block[148..156]).ok_or_else(|| bad("checksum"))?;
    if stored != sum(block) {
        return Err(bad("the checksum is wrong"));
    }
    let posix = &block[257..265] == b"ustar\x0000";
    let gnu = &block[257..265] == b"ustar  \0";
    // Some writers leave the version out.
    let loose = &block[257..263] == b"ustar\0";
    let v7 = block[257..265].iter().all(|b| *b == 0);
    if !posix && !gnu && !loose && !v7 {
        return Err(bad("it is of no known form"));
    }
    let mut full = path.clone();
    // GNU's form has other things where POSIX has the prefix.
    if (posix || loose) && block[345] != 0 {
        full = text(&block[345..500]);
        full.push(b'/');
        full.extend_from_slice(&path);
    }
    let number = |range: std::ops::Range<usize>, what: &str| unsigned(&block[range]).ok_or_else(|| bad(what));
    Ok(Header {
        link: text(&block[157..257]),
        flag: block[156],
        // Higher bits say the kind of file in some archives; the flag is what counts.
        mode: u32::try_from(number(100..108, "mode")? & 0o7777).map_err(|_| bad("mode"))?,
        uid: number(108..116, "uid")?,
        gid: number(116..124, "gid")?,
        size: number(124..136, "size")?,
        mtime: signed(&block[136..148]).ok_or_else(|| bad("mtime"))?,
        path: full,
    })
}

/// Up to the first NUL.
fn text(field: &[u8]) -> Vec<u8> {
    field.split(|b| *b == 0).next().unwrap_or_default().to_vec()
}

fn sum(block: &Block) -> u64 {
    block.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { u64::from(b' ') } else { u64::from(*b) }).sum()
}

fn unsigned(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 == 0 { octal(field) } else { u64::try_from(binary(field)?).ok() }
}

fn signed(field: &[u8]) -> Option<i64> {
    if field[0] & 0x80 == 0 { i64::try_from(octal(field)?).ok() } else { binary(field) }
}

/// Digits with spaces before and spaces or NULs behind; an empty field is zero.
fn octal(field: &[u8]) -> Option<u64> {
    let start = field.iter().position(|b| *b != b' ').unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(|b| matches!(b, b' ' | 0)).unwrap_or(digits.len());
    if digits[end..].iter().any(|b| !matches!(b, b' ' | 0)) {
        return None;
    }
    digits[..end].iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// GNU's base-256 form: two's complement behind a marking bit.
fn binary(field: &[u8]) -> Option<i64> {
    let negative = field[0] & 0x40 != 0;
    let first = if negative { i64::from(field[0] | 0x80) - 256 } else { i64::from(field[0] & 0x3f) };
    field[1..].iter().try_fold(first, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_forms() {
        assert_eq!(octal(b"0000644\0"), Some(0o644));
        assert_eq!(octal(b"   644 \0"), Some(0o644));
        assert_eq!(octal(b"\0\0\0\0"), Some(0));
        assert_eq!(octal(b"77777777777\0"), Some(0o77_777_777_777));
        for bad in [&b"64x\0"[..], b"6 4\0", b"-1\0\0", b"8\0\0\0"] {
            assert_eq!(octal(bad), None);
        }
        assert_eq!(unsigned(&[0x80, 0, 0, 0, 0, 0, 1, 0]), Some(256));
        assert_eq!(unsigned(&[0xff; 8]), None, "no negative sizes");
        assert_eq!(signed(&[0xff; 12]), Some(-1));
        assert_eq!(unsigned(&[0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
