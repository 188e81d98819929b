//! The map in front of the content of a sparse file (GNU's format 1.0): which pieces of it hold data.

use std::io::Read;

use crate::Error;
use crate::header::BLOCK;
use crate::number::decimal;

/// A file of more pieces is not packed: its map is held in memory.
pub const MAX_PIECES: usize = 4 << 20;

/// A piece of a file that holds data: offset and length.
pub type Piece = (u64, u64);

/// The map of a file, in whole blocks.
pub fn encode(pieces: &[Piece], size: u64) -> Vec<u8> {
    // A piece without length says where the file ends, as others write it.
    let end = pieces.last().is_none_or(|(at, length)| at + length < size).then_some((size, 0));
    let mut map = format!("{}\n", pieces.len() + usize::from(end.is_some())).into_bytes();
    for (at, length) in pieces.iter().copied().chain(end) {
        map.extend_from_slice(format!("{at}\n{length}\n").as_bytes());
    }
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads a map: the pieces, and how many bytes it took. All pieces lie in order within `size`.
pub fn decode(input: &mut impl Read, size: u64) -> Result<(Vec<Piece>, u64), Error> {
    let mut numbers = Numbers { input, block: [0; BLOCK], at: BLOCK, taken: 0 };
    let count = numbers.next()?;
    if count > MAX_PIECES as u64 + 1 {
        return Err(Error::invalid(b"", "a file has too many holes"));
    }
    let mut pieces = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let (at, length) = (numbers.next()?, numbers.next()?);
        let Some(next) = at.checked_add(length).filter(|next| at >= end && *next <= size) else {
            return Err(Error::invalid(b"", "the pieces of a file are out of order"));
        };
        end = next;
        if length > 0 {
            pieces.push((at, length));
        }
    }
    if numbers.block[numbers.at..].iter().any(|b| *b != 0) {
        return Err(damaged());
    }
    Ok((pieces, numbers.taken))
}

fn damaged() -> Error {
    Error::invalid(b"", "the map of a file with holes is damaged")
}

/// Numbers, each on a line, over several blocks.
struct Numbers<'a, R> {
    input: &'a mut R,
    block: [u8; BLOCK],
    at: usize,
    taken: u64,
}

impl<R: Read> Numbers<'_, R> {
    fn next(&mut self) -> Result<u64, Error> {
        let mut digits = Vec::with_capacity(20);
        loop {
            if self.at == BLOCK {
                self.input.read_exact(&mut self.block)?;
                self.at = 0;
                self.taken += BLOCK as u64;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => return decimal(&digits).ok_or_else(damaged),
                _ if digits.len() == 20 => return Err(damaged()),
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
            let (read, taken) = decode(&mut map.as_slice(), size).expect("a map");
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
            assert!(matches!(decode(&mut map.as_slice(), 10), Err(Error::Invalid { .. })), "{text}");
        }
        assert!(matches!(decode(&mut b"1\n0".as_slice(), 10), Err(Error::Io(_))));
    }
}
