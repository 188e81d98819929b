//! The files of a tar archive, by name and without unpacking it: where each begins and ends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Take};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cabana_archive::{Kind, Profile, Reader};

use crate::blobs::{Blobs, Partial};
use crate::compression::{self, Ratio, read_error};
use crate::error::{Error, Result};
use crate::stop::Stop;

const MAX_ENTRIES: usize = 100_000;
/// Names are kept in memory.
const MAX_NAMES: usize = 16 << 20;

pub(super) struct ArchiveFiles {
    file: File,
    places: HashMap<Vec<u8>, Place>,
    /// Where a compressed archive was unpacked to.
    _plain: Option<Partial>,
}

enum Place {
    Bytes {
        from: u64,
        length: u64,
    },
    /// `docker save` links layers that are the same; this is the other's name.
    Link(Vec<u8>),
}

impl ArchiveFiles {
    pub(super) fn read(mut file: File, blobs: &Blobs, most: u64, stop: &Stop) -> Result<Self> {
        let mut magic = [0; 2];
        let is_plain = file.read_exact(&mut magic).is_err() || !matches!(magic, [0x1f, 0x8b] | [0x28, 0xb5]);
        file.rewind().map_err(Error::io("rewind the archive"))?;
        let mut plain = None;
        if !is_plain {
            let mut partial = blobs.begin()?;
            let mut reader = compression::open(file, Ratio { factor: 250, free: 256 << 20 })?;
            let mut buffer = vec![0; 256 << 10];
            loop {
                stop.check("reading an archive")?;
                match reader.read(&mut buffer).map_err(read_error)? {
                    0 => break,
                    n if partial.length() + n as u64 > most => {
                        return Err(Error::TooLarge { what: "the archive".to_owned(), limit: most });
                    }
                    n => partial.write(&buffer[..n])?,
                }
            }
            file = partial.reader()?;
            plain = Some(partial);
        }
        let places = index(&file, stop)?;
        Ok(Self { file, places, _plain: plain })
    }

    pub(super) fn open(&self, name: &str) -> Result<Option<Take<File>>> {
        let mut name = clean(name.as_bytes());
        for _ in 0..8 {
            match self.places.get(&name) {
                None => return Ok(None),
                Some(Place::Link(target)) => name = target.clone(),
                Some(Place::Bytes { from, length }) => {
                    // Its own position: readers of the same archive do not disturb each other.
                    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.file));
                    let mut file = File::open(path).map_err(Error::io("open the archive again"))?;
                    file.seek(SeekFrom::Start(*from)).map_err(Error::io("seek in the archive"))?;
                    return Ok(Some(file.take(*length)));
                }
            }
        }
        Err(Error::NotAnImage("its links lead in circles".to_owned()))
    }
}

fn index(file: &File, stop: &Stop) -> Result<HashMap<Vec<u8>, Place>> {
    let position = Arc::new(AtomicU64::new(0));
    let reader = Counting { inner: BufReader::with_capacity(256 << 10, file), position: position.clone() };
    let mut archive = Reader::new(reader, Profile::Layer);
    let mut places = HashMap::new();
    let mut names = 0;
    while let Some(entry) = archive.next_entry()? {
        stop.check("reading an archive")?;
        names += entry.path.len() + entry.link.len();
        if places.len() >= MAX_ENTRIES || names > MAX_NAMES {
            return Err(Error::NotAnImage("it has too many files".to_owned()));
        }
        let place = match entry.kind {
            Kind::File => Place::Bytes { from: position.load(Ordering::Relaxed), length: entry.size },
            Kind::Symlink => {
                let slash = entry.path.iter().rposition(|b| *b == b'/');
                let directory = slash.map_or(&b""[..], |slash| &entry.path[..=slash]);
                Place::Link(clean(&[directory, &entry.link].concat()))
            }
            Kind::HardLink => Place::Link(clean(&entry.link)),
            _ => continue,
        };
        places.insert(clean(&entry.path), place);
    }
    Ok(places)
}

/// Without `.`, with `..` taken back, from the root of the archive. Only ever a key, never a path on disk.
fn clean(name: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join(&b'/')
}

struct Counting<R> {
    inner: R,
    position: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.position.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
