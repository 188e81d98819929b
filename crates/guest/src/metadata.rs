//! Metadata that clients attach to files, stored in extended attributes `user.e2b.<key>`.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use http::HeaderMap;
use rustix::fs::XattrFlags;

use crate::error::Problem;

const PREFIX: &str = "user.e2b.";
const HEADER_PREFIX: &str = "x-metadata-";
const MAX_KEY: usize = 246;
const MAX_TOTAL: usize = 4096;
const MAX_LIST: usize = 64 << 10;

pub(crate) type Metadata = HashMap<String, String>;

/// Parses the metadata headers of an upload.
pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Metadata, Problem> {
    let mut pairs = Metadata::new();
    let mut total = 0;
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(HEADER_PREFIX) else { continue };
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Problem::bad_request(format!("metadata key must have 1 to {MAX_KEY} bytes")));
        }
        let printable = value.to_str().ok().filter(|v| v.bytes().all(|b| (0x20..0x7f).contains(&b)));
        let value = printable
            .ok_or_else(|| Problem::bad_request(format!("metadata value of '{key}' must be printable ASCII")))?;
        total += key.len() + value.len();
        if total > MAX_TOTAL {
            return Err(Problem::bad_request(format!("metadata must have at most {MAX_TOTAL} bytes")));
        }
        pairs.insert(key.to_owned(), value.to_owned());
    }
    Ok(pairs)
}

/// The metadata of a file; empty if the filesystem has no extended attributes.
pub(crate) fn read(path: &Path) -> Metadata {
    let mut list = Vec::with_capacity(1024);
    loop {
        match rustix::fs::listxattr(path, rustix::buffer::spare_capacity(&mut list)) {
            Ok(_) => break,
            Err(rustix::io::Errno::RANGE) if list.capacity() < MAX_LIST => list.reserve(list.capacity() * 4),
            Err(_) => return Metadata::new(),
        }
    }
    let mut pairs = Metadata::new();
    for name in keys(&list) {
        let mut value = Vec::with_capacity(MAX_TOTAL);
        if rustix::fs::getxattr(path, name, rustix::buffer::spare_capacity(&mut value)).is_ok()
            && let (Some(key), Ok(value)) = (name.strip_prefix(PREFIX), String::from_utf8(value))
        {
            pairs.insert(key.to_owned(), value);
        }
    }
    pairs
}

/// Replaces the metadata of an open file.
pub(crate) fn replace(fd: impl AsFd, pairs: &Metadata) -> io::Result<()> {
    let mut list = Vec::with_capacity(MAX_LIST);
    if rustix::fs::flistxattr(&fd, rustix::buffer::spare_capacity(&mut list)).is_ok() {
        for name in keys(&list) {
            rustix::fs::fremovexattr(&fd, name)?;
        }
    }
    for (key, value) in pairs {
        rustix::fs::fsetxattr(&fd, format!("{PREFIX}{key}"), value.as_bytes(), XattrFlags::empty())?;
    }
    Ok(())
}

fn keys(list: &[u8]) -> impl Iterator<Item = &str> {
    list.split(|b| *b == 0).filter_map(|name| std::str::from_utf8(name).ok()).filter(|name| name.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked() {
        let headers = |name: &str, value: &str| {
            let mut map = HeaderMap::new();
            map.insert(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
            map
        };
        let pairs = from_headers(&headers("X-Metadata-Author", "me & you")).unwrap();
        assert_eq!(pairs.get("author").unwrap(), "me & you");
        assert!(from_headers(&headers("X-Other", "é")).unwrap().is_empty());
        assert!(from_headers(&headers("X-Metadata-a", "é")).is_err());
        assert!(from_headers(&headers("X-Metadata-a", &"x".repeat(5000))).is_err());
        assert!(from_headers(&headers(&format!("X-Metadata-{}", "k".repeat(247)), "x")).is_err());
    }

    #[test]
    fn pairs_are_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pairs = |key: &str| Metadata::from([(key.to_owned(), "value".to_owned())]);
        if replace(file.as_file(), &pairs("one")).is_err() {
            return; // a filesystem without user attributes
        }
        replace(file.as_file(), &pairs("two")).unwrap();
        assert_eq!(read(file.path()), pairs("two"));
    }
}
