//! One entry: its header with the pax records in front of it.

use crate::header::{Header, MAX_OCTAL, MAX_OWNER, SHORT};
use crate::number::Time;
use crate::padding;
use crate::pax::Records;

/// The records of one entry of a disk take no more than this.
pub(crate) const MAX_RECORDS: usize = 16 << 20;

/// An extended attribute: name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A further name of an earlier entry.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A device. On a disk only the whiteouts of an overlay: a character device 0/0 that marks a name as removed.
    Device,
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
}

/// One entry. Names are bytes as they stand in the archive: the reader has only checked that they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Its name. Directories of a disk have no slash at the end; those of a layer have what the archive says.
    pub path: Vec<u8>,
    /// Where a symbolic link points to, or the path that a hard link is another name of.
    pub link: Vec<u8>,
    /// Permissions with set-uid, set-gid and sticky bits.
    pub mode: u32,
    /// The numeric owner.
    pub uid: u64,
    /// The numeric group.
    pub gid: u64,
    /// When its content was modified.
    pub mtime: Time,
    /// Bytes of content that follow, without padding.
    pub size: u64,
    /// The size of a sparse file. Its content is then a map and the pieces that hold data.
    pub full_size: Option<u64>,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
}

impl Entry {
    /// An entry without content, owned by root, of 1970.
    pub fn new(kind: Kind, path: impl Into<Vec<u8>>, mode: u32) -> Self {
        Self {
            kind,
            path: path.into(),
            link: Vec::new(),
            mode,
            uid: 0,
            gid: 0,
            mtime: Time::default(),
            size: 0,
            full_size: None,
            xattrs: Vec::new(),
        }
    }

    /// The bytes in front of its content: POSIX headers, and pax records only for what does not fit into them. `None` if the attributes are
    /// too large to be read again.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut name = self.path.clone();
        if self.kind == Kind::Directory && !name.ends_with(b"/") {
            name.push(b'/');
        }
        let size = if self.kind == Kind::File { self.size } else { 0 };
        let seconds = u64::try_from(self.mtime.seconds).ok().filter(|seconds| *seconds <= MAX_OCTAL);
        let above = |number: u64, most: u64| (number > most).then_some(number);
        let records = Records {
            path: (name.len() > SHORT || self.full_size.is_some()).then(|| name.clone()),
            link: (self.link.len() > SHORT).then(|| self.link.clone()),
            size: above(size, MAX_OCTAL),
            uid: above(self.uid, MAX_OWNER),
            gid: above(self.gid, MAX_OWNER),
            mtime: (self.mtime.nanoseconds != 0 || seconds.is_none()).then_some(self.mtime),
            full_size: self.full_size,
            xattrs: self.xattrs.clone(),
            sparse: false,
        };
        let records = records.encode();
        if records.len() > MAX_RECORDS {
            return None;
        }
        if self.full_size.is_some() {
            // Programs that do not know sparse files unpack the map and the pieces under this name.
            let file = name.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
            name.splice(file..file, *b"GNUSparseFile.0/");
        }
        let mut bytes = Vec::new();
        if !records.is_empty() {
            let size = records.len() as u64;
            let path = b"PaxHeaders/records".to_vec();
            bytes.extend(Header { path, flag: b'x', mode: 0o644, size, ..Header::default() }.encode());
            bytes.extend(records);
            bytes.resize(bytes.len() + padding(size), 0);
        }
        let flag = match self.kind {
            Kind::File => b'0',
            Kind::HardLink => b'1',
            Kind::Symlink => b'2',
            Kind::Device => b'3',
            Kind::Directory => b'5',
            Kind::Fifo => b'6',
        };
        let header = Header {
            path: name,
            link: if self.link.len() > SHORT { Vec::new() } else { self.link.clone() },
            flag,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            size,
            mtime: self.mtime.seconds,
        };
        bytes.extend(header.encode());
        Some(bytes)
    }
}
