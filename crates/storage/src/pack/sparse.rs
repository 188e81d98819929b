//! Files with holes: where their data are, and the map that stands before the data in an archive (GNU's sparse format 1.0).

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::header::BLOCK;
use super::text::decimal;

/// A file of more pieces is not packed: its map is held in memory.
pub(super) const MOST_PIECES: usize = 4 << 20;

/// A piece of a file that holds data: where it begins and how long it is.
pub(super) type Piece = (u64, u64);

/// The pieces of a file that hold data; `None` if they are too many.
pub(super) fn pieces(file: impl AsFd, size: u64) -> io::Result<Option<Vec<Piece>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let begin = match seek(&file, SeekFrom::Data(at)) {
            // No data behind here.
            Err(Errno::NXIO) => break,
            begin => begin?,
        };
        if begin >= size {
            break;
        }
        let end = seek(&file, SeekFrom::Hole(begin))?.min(size);
        if end <= begin {
            return Err(io::Error::other("the file changed"));
        }
        if found.len() == MOST_PIECES {
            return Ok(None);
        }
        found.push((begin, end - begin));
        at = end;
    }
    Ok(Some(found))
}

/// The map of a file, in whole blocks.
pub(super) fn encode(pieces: &[Piece], size: u64) -> Vec<u8> {
    // A piece of no length says where the file ends, as others write it.
    let end = pieces.last().is_none_or(|(at, length)| at + length < size).then_some((size, 0));
    let mut map = format!("{}\n", pieces.len() + usize::from(end.is_some())).into_bytes();
    for (at, length) in pieces.iter().copied().chain(end) {
        map.extend_from_slice(format!("{at}\n{length}\n").as_bytes());
    }
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads a map: the pieces, and how many bytes it took. All pieces lie in order within `size`.
pub(super) fn decode(input: &mut impl Read, size: u64) -> io::Result<Result<(Vec<Piece>, u64), &'static str>> {
    let mut numbers = Numbers { block: [0; BLOCK], at: BLOCK, taken: 0 };
    let Some(count) = numbers.next(input)? else { return Ok(Err(DAMAGED)) };
    if count > MOST_PIECES as u64 + 1 {
        return Ok(Err("a file has too many holes"));
    }
    let mut pieces = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let (Some(at), Some(length)) = (numbers.next(input)?, numbers.next(input)?) else { return Ok(Err(DAMAGED)) };
        let Some(next) = at.checked_add(length).filter(|next| at >= end && *next <= size) else {
            return Ok(Err("the pieces of a file are out of order"));
        };
        end = next;
        if length > 0 {
            pieces.push((at, length));
        }
    }
    if numbers.block[numbers.at..].iter().any(|b| *b != 0) {
        return Ok(Err(DAMAGED));
    }
    Ok(Ok((pieces, numbers.taken)))
}

const DAMAGED: &str = "the map of a file with holes is damaged";

/// Numbers, each on a line, over several blocks.
struct Numbers {
    block: [u8; BLOCK],
    at: usize,
    taken: u64,
}

impl Numbers {
    fn next(&mut self, input: &mut impl Read) -> io::Result<Option<u64>> {
        let mut digits = Vec::with_capacity(20);
        loop {
            if self.at == BLOCK {
                input.read_exact(&mut self.block)?;
                self.at = 0;
                self.taken += BLOCK as u64;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => return Ok(decimal(&digits)),
                _ if digits.len() == 20 => return Ok(None),
                _ => digits.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn maps_come_back(gaps in prop::collection::vec((1u64..1 << 40, 1u64..1 << 40), 0..200), tail in 0u64..2) {
            let mut at = 0;
            let mut pieces = Vec::new();
            for (gap, length) in gaps {
                pieces.push((at + gap, length));
                at += gap + length;
            }
            let size = at + tail;
            let map = encode(&pieces, size);
            prop_assert_eq!(map.len() % BLOCK, 0);
            let (read, taken) = decode(&mut map.as_slice(), size).expect("no end").expect("a map");
            prop_assert_eq!(read, pieces);
            prop_assert_eq!(taken, map.len() as u64);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2048), size: u64) {
            let _ = decode(&mut bytes.as_slice(), size);
        }
    }

    #[test]
    fn lying_maps_are_refused() {
        for text in
            ["1\n0\n11\n", "2\n5\n2\n0\n1\n", "1\n18446744073709551615\n2\n", "9999999999\n", "x\n", "1\n1\n1\nx"]
        {
            let mut map = text.as_bytes().to_vec();
            map.resize(BLOCK, 0);
            assert!(decode(&mut map.as_slice(), 10).expect("no end").is_err(), "{text}");
        }
        assert!(decode(&mut b"1\n0".as_slice(), 10).is_err());
    }
}
