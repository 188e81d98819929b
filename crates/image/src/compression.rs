//! Decompresses layers: gzip, zstd or plain tar, detected by their first bytes because media types are unreliable. The
//! output is limited relative to the input, against decompression bombs.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Limit of zstd's window, 2²⁷ bytes as in its own tools, to bound memory.
const WINDOW_LOG: u32 = 27;

/// Limit of decompression.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// Output bytes per input byte.
    pub factor: u64,
    /// Output bytes that are always allowed.
    pub free: u64,
}

/// The decompressed bytes of `reader`. IO errors may carry this crate's error: see [`read_error`].
pub(crate) fn open<'a, R: Read + Send + 'a>(mut reader: R, ratio: Ratio) -> Result<Box<dyn Read + Send + 'a>> {
    let mut magic = [0; 6];
    let mut have = 0;
    while have < magic.len() {
        match reader.read(&mut magic[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Io { action: "read the archive", source }),
        }
    }
    let taken = Arc::new(AtomicU64::new(0));
    let input = Counting { inner: Cursor::new(magic[..have].to_vec()).chain(reader), taken: taken.clone() };
    let input = BufReader::with_capacity(128 << 10, input);
    let inner: Box<dyn Read + Send + 'a> = match &magic[..have] {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(Error::io("read zstd"))?;
            decoder.window_log_max(WINDOW_LOG).map_err(Error::io("read zstd"))?;
            Box::new(decoder)
        }
        [b'B', b'Z', b'h', ..] => {
            return Err(Error::refused(b"", "it is compressed with bzip2; gzip and zstd are taken"));
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            return Err(Error::refused(b"", "it is compressed with xz; gzip and zstd are taken"));
        }
        _ => return Ok(Box::new(input)),
    };
    Ok(Box::new(Bounded { inner, taken, given: 0, ratio }))
}

/// Extracts this crate's error from an IO error.
pub(crate) fn read_error(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(inner) => inner,
        Err(source) => match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::refused(b"", "it ends too early"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Error::refused(b"", format!("its compression is corrupt: {source}"))
            }
            // zstd has no error kind for corrupt data.
            io::ErrorKind::Other => Error::refused(b"", format!("it cannot be read: {source}")),
            _ => Error::Io { action: "read the archive", source },
        },
    }
}

struct Counting<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

struct Bounded<R> {
    inner: R,
    taken: Arc<AtomicU64>,
    given: u64,
    ratio: Ratio,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.given += n as u64;
        let fair = self.taken.load(Ordering::Relaxed).saturating_mul(self.ratio.factor);
        if self.given > fair.max(self.ratio.free) {
            let reason = format!("it grows more than {} times by decompression", self.ratio.factor);
            return Err(io::Error::other(Error::refused(b"", reason)));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const RATIO: Ratio = Ratio { factor: 100, free: 1 << 20 };

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        open(bytes, RATIO)?.read_to_end(&mut out).map_err(read_error)?;
        Ok(out)
    }

    #[test]
    fn formats_are_detected_by_their_bytes() {
        let text = b"a text that is a little longer".repeat(50);
        assert_eq!(read(&text).unwrap(), text);
        assert_eq!(read(&gzip(&text)).unwrap(), text);
        let two = [gzip(&text[..100]), gzip(&text[100..])].concat();
        assert_eq!(read(&two).unwrap(), text, "several gzip members are one stream");
        assert_eq!(read(&zstd::encode_all(&text[..], 3).unwrap()).unwrap(), text);
        assert_eq!(read(b"").unwrap(), b"");
        assert_eq!(read(b"x").unwrap(), b"x");
        assert!(read(b"BZh91AY").unwrap_err().to_string().contains("bzip2"));
        assert!(read(b"\xfd7zXZ\0...").unwrap_err().to_string().contains("xz"));
    }

    #[test]
    fn bombs_are_refused_early() {
        let zeros = vec![0; 64 << 20];
        for bomb in [gzip(&zeros), zstd::encode_all(&zeros[..], 19).unwrap()] {
            let mut reader = open(&bomb[..], RATIO).unwrap();
            let mut seen = 0;
            let mut buffer = vec![0; 64 << 10];
            let error = loop {
                match reader.read(&mut buffer) {
                    Ok(0) => panic!("the bomb went off"),
                    Ok(n) => seen += n,
                    Err(error) => break read_error(error),
                }
            };
            assert!(error.to_string().contains("grows more than 100 times"), "{error}");
            assert!(seen <= (bomb.len() * 100).max(1 << 20), "{seen}");
        }
    }

    #[test]
    fn corrupt_streams_are_refused() {
        let mut bytes = gzip(&b"0123456789".repeat(1000));
        bytes.truncate(bytes.len() - 4);
        assert!(matches!(read(&bytes).unwrap_err(), Error::Refused { .. }));
        let mut bytes = zstd::encode_all(&b"0123456789".repeat(1000)[..], 3).unwrap();
        bytes.truncate(bytes.len() - 2);
        assert!(matches!(read(&bytes).unwrap_err(), Error::Refused { .. }));
        // A window of 2 GiB is asked for.
        assert!(matches!(read(b"\x28\xb5\x2f\xfd\x00\xa8\x00\x00\x00\x00\x00").unwrap_err(), Error::Refused { .. }));
    }
}
