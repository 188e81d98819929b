//! `POST /read`: lines of a text, an image, or all bytes of a file.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools::{Content, Inspected, Read, ReadAnswer, ReadWhat};
use cabana_types::tool::ToolErrorCode as Code;
use sha2::{Digest as _, Sha256};

use super::lines::{Range, Splitter};
use super::place::Place;
use super::refuse::{self, Refused, about, plain};
use super::{Cancel, media};
use crate::open::{self, Readable};

/// How much is looked at to tell a text from a binary file.
const HEAD: usize = 8 << 10;
const BUFFER: usize = 256 << 10;
/// Upper bounds of what the host may ask for: the answer is made in memory.
const MAX_BYTES: u64 = 32 << 20;
const MAX_LINES: u64 = 100_000;

/// Reads a file.
pub(crate) fn read(request: &Read, place: &Place, cancel: &Cancel) -> Result<ReadAnswer, Refused> {
    let path = place.resolve(&request.path)?;
    let file = open::readable(&path).map_err(|e| refuse::not_readable(&path, &e))?;
    let (size, content) = match request.what {
        ReadWhat::Lines { start, end, max_lines, max_bytes, max_line, max_image } => {
            let end = end.unwrap_or(u64::MAX);
            if start == 0 || end < start {
                return Err(plain(
                    Code::InvalidArguments,
                    "lines are numbered from 1, and the last must not be before the first",
                ));
            }
            let range = Range {
                start,
                end,
                max_lines: max_lines.min(MAX_LINES),
                max_bytes: max_bytes.min(MAX_BYTES),
                max_line: max_line.min(MAX_BYTES),
            };
            lines(file, &path, range, max_image.min(MAX_BYTES), cancel)?
        }
        ReadWhat::Bytes { max } => bytes(file, &path, max.min(MAX_BYTES), cancel)?,
    };
    Ok(ReadAnswer { path: path.to_string_lossy().into_owned(), size, content })
}

fn lines(
    mut file: Readable,
    path: &Path,
    range: Range,
    max_image: u64,
    cancel: &Cancel,
) -> Result<(u64, Content), Refused> {
    let failed = |cause: io::Error| refuse::io("read", path, &cause);
    let mut buffer = vec![0; BUFFER];
    let mut filled = fill(&mut file, &mut buffer, HEAD).map_err(failed)?;
    let head = buffer.get(..filled.min(HEAD)).unwrap_or_default();
    let image = media::image(head);
    let media_type = media::of(head);
    let is_binary = image.is_some() || head.contains(&0);
    if let (Some(media_type), true) = (image, file.size <= max_image) {
        let mut data = buffer.get(..filled).unwrap_or_default().to_vec();
        read_up_to(&mut file, &mut data, max_image + 1, cancel).map_err(failed)?;
        cancel.check()?;
        let size = data.len() as u64;
        if size <= max_image {
            return Ok((size, Content::Image { media_type: media_type.to_owned(), data: STANDARD.encode(data) }));
        }
    }
    if is_binary {
        let why = format!("is not a text: {} bytes of {media_type}", file.size);
        let mut refused = about(Code::BinaryFile, path, &why);
        refused.size = Some(file.size);
        refused.media_type = Some(media_type.to_owned());
        return Err(refused);
    }
    let mut splitter = Splitter::new(range);
    let mut size = 0;
    while filled > 0 {
        cancel.check()?;
        size += filled as u64;
        splitter.push(buffer.get(..filled).unwrap_or_default());
        filled = fill(&mut file, &mut buffer, 1).map_err(failed)?;
    }
    splitter.end();
    let total = splitter.total();
    Ok((size, Content::Lines { lines: splitter.lines, total, truncated: splitter.truncated }))
}

/// Looks at the content of a file that is open; one of up to `most` bytes gets a digest.
pub(super) fn inspect(mut file: Readable, most: u64, cancel: &Cancel) -> io::Result<Inspected> {
    let mut data = vec![0; HEAD];
    let filled = fill(&mut file, &mut data, HEAD)?;
    data.truncate(filled);
    let image = media::image(&data);
    let binary = image.is_some() || data.contains(&0);
    let media_type = binary.then(|| media::of(&data).to_owned());
    let most = most.min(MAX_BYTES);
    let sha256 = match file.size <= most {
        true => {
            read_up_to(&mut file, &mut data, most + 1, cancel)?;
            (data.len() as u64 <= most && !cancel.is_set()).then(|| sha256(&data))
        }
        false => None,
    };
    Ok(Inspected { binary, media_type, sha256 })
}

fn bytes(mut file: Readable, path: &Path, max: u64, cancel: &Cancel) -> Result<(u64, Content), Refused> {
    let mut data = Vec::new();
    if file.size <= max {
        read_up_to(&mut file, &mut data, max + 1, cancel).map_err(|e| refuse::io("read", path, &e))?;
        cancel.check()?;
    }
    let size = file.size.max(data.len() as u64);
    if size > max {
        let mut refused = about(Code::TooLarge, path, &format!("has {size} bytes; at most {max} can be read"));
        refused.size = Some(size);
        return Err(refused);
    }
    let metadata = file.file.metadata().map_err(|e| refuse::io("read", path, &e))?;
    let sha256 = sha256(&data);
    let mode = metadata.permissions().mode() & 0o7777;
    Ok((data.len() as u64, Content::Bytes { data: STANDARD.encode(&data), sha256, mode }))
}

/// Reads until the buffer has `least` bytes, or the file ends.
fn fill(file: &mut Readable, buffer: &mut [u8], least: usize) -> io::Result<usize> {
    let mut filled = 0;
    while filled < least {
        match file.file.read(buffer.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

fn read_up_to(file: &mut Readable, data: &mut Vec<u8>, max: u64, cancel: &Cancel) -> io::Result<()> {
    while (data.len() as u64) < max && !cancel.is_set() {
        let wanted = (max - data.len() as u64).min(BUFFER as u64);
        if (&mut file.file).take(wanted).read_to_end(data)? == 0 {
            break;
        }
    }
    Ok(())
}

/// The SHA-256 of a file in hexadecimal.
pub(crate) fn digest(path: &Path, cancel: &Cancel) -> Result<String, Refused> {
    let mut file = open::readable(path).map_err(|e| refuse::not_readable(path, &e))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        cancel.check()?;
        match fill(&mut file, &mut buffer, 1).map_err(|e| refuse::io("read", path, &e))? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// The SHA-256 of some bytes in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
