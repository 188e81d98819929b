//! One header block: POSIX ustar, GNU and the oldest form are read; POSIX ustar is written.

use crate::Error;
use crate::number::{octal, put_octal, signed, unsigned};

/// Everything in an archive is a multiple of this.
pub const BLOCK: usize = 512;
/// Names up to this length fit into a header; longer ones go into pax records.
pub(crate) const SHORT: usize = 100;
/// Sizes and times above this go into pax records.
pub(crate) const MAX_OCTAL: u64 = 0o77_777_777_777;
/// The same for owners.
pub(crate) const MAX_OWNER: u64 = 0o7_777_777;

pub(crate) type Block = [u8; BLOCK];

/// What a header says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) flag: u8,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
}

impl Header {
    pub(crate) fn parse(block: &Block) -> Result<Self, Error> {
        let path = text(&block[..100]);
        let bad = |what: &str| Error::invalid(&path, format!("its header is malformed: {what}"));
        let stored = octal(&block[148..156]).ok_or_else(|| bad("checksum"))?;
        if stored != checksum(block) {
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
        // GNU's form has other fields where POSIX has the prefix.
        if (posix || loose) && block[345] != 0 {
            full = text(&block[345..500]);
            full.push(b'/');
            full.extend_from_slice(&path);
        }
        let number = |range: std::ops::Range<usize>, what: &str| unsigned(&block[range]).ok_or_else(|| bad(what));
        Ok(Self {
            link: text(&block[157..257]),
            flag: block[156],
            // In some archives higher bits say the kind of file; the flag counts.
            mode: u32::try_from(number(100..108, "mode")? & 0o7777).map_err(|_| bad("mode"))?,
            uid: number(108..116, "uid")?,
            gid: number(116..124, "gid")?,
            size: number(124..136, "size")?,
            mtime: signed(&block[136..148]).ok_or_else(|| bad("mtime"))?,
            path: full,
        })
    }

    /// Numbers that do not fit must be in pax records: their fields become zero. Names that do not fit are cut.
    pub(crate) fn encode(&self) -> Block {
        let fit = |number: u64, most: u64| if number > most { 0 } else { number };
        let mut block = [0; BLOCK];
        put_text(&mut block[..100], &self.path);
        put_octal(&mut block[100..108], self.mode.into());
        put_octal(&mut block[108..116], fit(self.uid, MAX_OWNER));
        put_octal(&mut block[116..124], fit(self.gid, MAX_OWNER));
        put_octal(&mut block[124..136], fit(self.size, MAX_OCTAL));
        put_octal(&mut block[136..148], fit(u64::try_from(self.mtime).unwrap_or(0), MAX_OCTAL));
        block[156] = self.flag;
        put_text(&mut block[157..257], &self.link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        // The numbers of a device: the only devices that we write are the whiteouts of an overlay, 0/0.
        put_octal(&mut block[329..337], 0);
        put_octal(&mut block[337..345], 0);
        let sum = checksum(&block);
        put_octal(&mut block[148..155], sum);
        block[155] = b' ';
        block
    }
}

/// The text up to the first NUL.
fn text(field: &[u8]) -> Vec<u8> {
    field.split(|b| *b == 0).next().unwrap_or_default().to_vec()
}

fn put_text(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

/// The sum of all bytes, with those of the checksum itself taken as spaces.
fn checksum(block: &Block) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
    sum(&block[..148]) + 8 * u64::from(b' ') + sum(&block[156..])
}
