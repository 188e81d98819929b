//! Finding the holes of sparse files.

use std::io;
use std::os::fd::AsFd;

use cabana_archive::sparse::{MAX_PIECES, Piece};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// The pieces of a file that hold data; `None` if they are too many.
pub(super) fn pieces(file: impl AsFd, size: u64) -> io::Result<Option<Vec<Piece>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let begin = match seek(&file, SeekFrom::Data(at)) {
            // No data after this offset.
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
        if found.len() == MAX_PIECES {
            return Ok(None);
        }
        found.push((begin, end - begin));
        at = end;
    }
    Ok(Some(found))
}
