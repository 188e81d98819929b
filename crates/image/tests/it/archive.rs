//! Writes tar archives byte by byte, so that tests can write wrong ones too.

use std::io::Write;

/// One entry to write. Fields go into the header as they are.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) path: Vec<u8>,
    pub(crate) flag: u8,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: u64,
    pub(crate) content: Vec<u8>,
    /// What the header says in place of the content's length.
    pub(crate) size: Option<u64>,
    pub(crate) pax: Vec<(Vec<u8>, Vec<u8>)>,
}

pub(crate) fn item(path: impl AsRef<[u8]>, flag: u8) -> Item {
    Item {
        path: path.as_ref().to_vec(),
        flag,
        link: Vec::new(),
        mode: if flag == b'5' { 0o755 } else { 0o644 },
        uid: 0,
        gid: 0,
        mtime: 1_700_000_000,
        content: Vec::new(),
        size: None,
        pax: Vec::new(),
    }
}

pub(crate) fn file(path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    Item { content: content.as_ref().to_vec(), ..item(path, b'0') }
}

pub(crate) fn directory(path: impl AsRef<[u8]>) -> Item {
    item(path, b'5')
}

pub(crate) fn symlink(path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Item {
    Item { link: target.as_ref().to_vec(), mode: 0o777, ..item(path, b'2') }
}

pub(crate) fn hard_link(path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Item {
    Item { link: target.as_ref().to_vec(), ..item(path, b'1') }
}

impl Item {
    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn owner(mut self, uid: u64, gid: u64) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }

    pub(crate) fn size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    pub(crate) fn pax(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.pax.push((key.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }
}

/// A whole archive with its end.
pub(crate) fn tar(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        write_item(&mut out, item);
    }
    out.extend_from_slice(&[0; 1024]);
    out
}

pub(crate) fn write_item(out: &mut Vec<u8>, item: &Item) {
    if !item.pax.is_empty() {
        let records: Vec<u8> = item.pax.iter().flat_map(|(key, value)| record(key, value)).collect();
        raw_block(out, b'x', &records);
    }
    if item.path.len() > 100 {
        raw_block(out, b'L', &[&item.path[..], b"\0"].concat());
    }
    if item.link.len() > 100 {
        raw_block(out, b'K', &[&item.link[..], b"\0"].concat());
    }
    out.extend_from_slice(&header(item));
    padded(out, &item.content);
}

/// An entry of any type with content, for the headers about headers.
pub(crate) fn raw_block(out: &mut Vec<u8>, flag: u8, content: &[u8]) {
    out.extend_from_slice(&header(&Item { content: content.to_vec(), ..item("about-the-next", flag) }));
    padded(out, content);
}

pub(crate) fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

fn padded(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
}

pub(crate) fn header(item: &Item) -> [u8; 512] {
    let mut block = [0; 512];
    let put = |block: &mut [u8; 512], at: usize, limit: usize, bytes: &[u8]| {
        let n = bytes.len().min(limit);
        block[at..at + n].copy_from_slice(&bytes[..n]);
    };
    put(&mut block, 0, 100, &item.path);
    put(&mut block, 100, 8, format!("{:07o}\0", item.mode).as_bytes());
    number(&mut block[108..116], item.uid);
    number(&mut block[116..124], item.gid);
    number(&mut block[124..136], item.size.unwrap_or(item.content.len() as u64));
    number(&mut block[136..148], item.mtime);
    block[156] = item.flag;
    put(&mut block, 157, 100, &item.link);
    put(&mut block, 257, 8, b"ustar\x0000");
    checksum(&mut block);
    block
}

pub(crate) fn checksum(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u64 = block[..512].iter().map(|b| u64::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn number(field: &mut [u8], value: u64) {
    let digits = format!("{value:0width$o}\0", width = field.len() - 1);
    if digits.len() == field.len() {
        field.copy_from_slice(digits.as_bytes());
    } else {
        field.fill(0);
        field[0] = 0x80;
        let bytes = value.to_be_bytes();
        let n = bytes.len().min(field.len() - 1);
        let at = field.len() - n;
        field[at..].copy_from_slice(&bytes[8 - n..]);
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
