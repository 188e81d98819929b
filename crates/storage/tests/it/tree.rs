//! Random trees as a sandbox's disk may hold them, and a full description of a tree to compare it with another.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, SeekFrom, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chownat, lgetxattr,
    llistxattr, lsetxattr, mknodat, seek, utimensat,
};
use sha2::{Digest, Sha256};

const LARGE: usize = 64 << 10;

/// What to make.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Directory {
        opaque: bool,
        default_list: bool,
    },
    File(Vec<u8>),
    /// Gaps and lengths in units of 4 KiB, and how many bytes follow the last.
    Sparse(Vec<(u8, u8)>, u32),
    Symlink(Vec<u8>),
    Link(Index),
    Fifo,
    Whiteout,
    /// A whiteout that is a file.
    AttributeWhiteout,
    Socket,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    parent: Index,
    name: Vec<u8>,
    what: What,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, u32),
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    access_list: bool,
    capability: bool,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let plain = "[a-z0-9._=% \n-]{1,12}".prop_map(String::into_bytes);
    let wild = prop::collection::vec((1..=255u8).prop_filter("no slash", |b| *b != b'/'), 1..40);
    let long = prop::collection::vec(b'a'..=b'z', 200..=255);
    prop_oneof![6 => plain, 2 => wild, 1 => long].prop_filter("a name", |n| n != b"." && n != b"..")
}

fn what() -> impl Strategy<Value = What> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    prop_oneof![
        6 => (any::<bool>(), any::<bool>()).prop_map(|(opaque, default_list)| What::Directory { opaque, default_list }),
        6 => bytes(6000).prop_map(What::File),
        1 => (200_000..700_000usize, any::<u8>()).prop_map(|(size, byte)| What::File(vec![byte; size])),
        2 => (prop::collection::vec((0..40u8, 1..4u8), 0..5), 0..100_000u32).prop_map(|(p, tail)| What::Sparse(p, tail)),
        3 => prop::collection::vec((1..=255u8).boxed(), 1..300).prop_map(What::Symlink),
        4 => any::<Index>().prop_map(What::Link),
        1 => Just(What::Fifo),
        2 => Just(What::Whiteout),
        1 => Just(What::AttributeWhiteout),
        1 => Just(What::Socket),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let attribute = ("(e2b\\.[a-z]{1,8}|[a-z=%]{1,20}|overlay\\.origin)", prop::collection::vec(any::<u8>(), 0..300))
        .prop_map(|(name, value)| (format!("user.{name}").into_bytes(), value));
    let id = || prop_oneof![Just(0u32), Just(1000), 0..=65_535u32];
    let time = (-2_000_000_000i64..8_000_000_000, prop_oneof![Just(0u32), 0..1_000_000_000u32]);
    let place = (any::<Index>(), name(), what());
    (place, 0..=0o7777u32, (id(), id()), time, prop::collection::vec(attribute, 0..4), any::<bool>(), any::<bool>())
        .prop_map(|((parent, name, what), mode, owner, mtime, attributes, access_list, capability)| Node {
            parent,
            name,
            what,
            mode,
            owner,
            mtime,
            attributes,
            access_list,
            capability,
        })
}

pub(crate) fn nodes() -> impl Strategy<Value = Vec<Node>> {
    prop::collection::vec(node(), 0..60)
}

/// A template's tree, and what a sandbox did to it: both with so few names that they meet often.
pub(crate) fn layers() -> impl Strategy<Value = (Vec<Node>, Vec<Node>)> {
    let few = |node: Node| Node { name: vec![b'a' + node.name[0] % 4], ..node };
    // What the overlay says of files is not said in a template.
    let lower = move |mut node: Node| {
        match &mut node.what {
            What::Directory { opaque, .. } => *opaque = false,
            what @ (What::Whiteout | What::AttributeWhiteout) => *what = What::Fifo,
            _ => {}
        }
        node.attributes.retain(|(name, _)| !name.starts_with(b"user.overlay."));
        few(node)
    };
    // A whiteout that is a file cannot be made from inside.
    let upper = move |mut node: Node| {
        if let what @ What::AttributeWhiteout = &mut node.what {
            *what = What::Whiteout;
        }
        few(node)
    };
    let some = || prop::collection::vec(node(), 0..60);
    (some(), some())
        .prop_map(move |(under, over)| (under.into_iter().map(lower).collect(), over.into_iter().map(upper).collect()))
}

/// An access list in the kernel's form: the owner may all, `user` may read, others nothing.
pub(crate) fn access_list(user: u32) -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, may, id) in [(1u16, 7u16, u32::MAX), (2, 4, user), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&may.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    list
}

/// `cap_net_raw+ep` in the kernel's form.
pub(crate) fn capability() -> Vec<u8> {
    [0x0200_0001u32, 1 << 13, 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect()
}

pub(crate) fn set(path: &Path, name: &[u8], value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty())
        .unwrap_or_else(|e| panic!("{} of {path:?}: {e}", String::from_utf8_lossy(name)));
}

pub(crate) fn touch(path: &Path, (seconds, nanoseconds): (i64, u32)) {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
}

/// Makes a tree below `top`, which exists. Names that are taken already are left out.
pub(crate) fn make(top: &Path, nodes: &[Node]) {
    let mut directories = vec![top.to_owned()];
    let mut others: Vec<PathBuf> = Vec::new();
    let mut times = Vec::new();
    let mut lists = Vec::new();
    for node in nodes {
        let path = node.parent.get(&directories).join(OsStr::from_bytes(&node.name));
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        let (mut attributes, mut modes) = (false, true);
        match &node.what {
            What::Directory { opaque, default_list } => {
                fs::create_dir(&path).expect("made");
                if *opaque {
                    set(&path, b"user.overlay.opaque", b"y");
                }
                if *default_list {
                    lists.push(path.clone());
                }
                directories.push(path.clone());
                attributes = true;
            }
            What::File(data) => {
                fs::write(&path, data).expect("written");
                attributes = true;
            }
            What::Sparse(pieces, tail) => {
                let file = fs::File::create(&path).expect("made");
                let mut at = 0;
                for (gap, length) in pieces {
                    at += u64::from(*gap) * 4096;
                    file.write_all_at(&vec![*length; usize::from(*length) * 4096], at).expect("written");
                    at += u64::from(*length) * 4096;
                }
                file.set_len(at + u64::from(*tail)).expect("sized");
                attributes = true;
            }
            What::Symlink(target) => {
                symlink(OsStr::from_bytes(target), &path).expect("linked");
                modes = false;
            }
            What::Link(other) => {
                if !others.is_empty() {
                    fs::hard_link(other.get(&others), &path).expect("linked");
                }
                continue;
            }
            What::Fifo => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).expect("made"),
            What::Whiteout => mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).expect("made"),
            What::AttributeWhiteout => {
                fs::write(&path, "").expect("written");
                set(&path, b"user.overlay.whiteout", b"");
                attributes = true;
            }
            What::Socket => {
                // The path may be too long for a socket: bind it elsewhere and move it.
                let short = top.join(".s");
                drop(UnixListener::bind(&short).expect("bound"));
                fs::rename(&short, &path).expect("moved");
                continue;
            }
        }
        let (uid, gid) = (Uid::from_raw(node.owner.0), Gid::from_raw(node.owner.1));
        chownat(CWD, &path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).expect("owned");
        if modes {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(node.mode)).expect("a mode");
            if node.access_list && !matches!(node.what, What::Whiteout) {
                set(&path, b"system.posix_acl_access", &access_list(1000));
            }
        }
        if attributes {
            for (name, value) in &node.attributes {
                set(&path, name, value);
            }
            if node.capability && path.is_file() {
                set(&path, b"security.capability", &capability());
            }
        }
        if !path.is_dir() || path.is_symlink() {
            others.push(path.clone());
        }
        times.push((path, node.mtime));
    }
    for path in lists {
        set(&path, b"system.posix_acl_default", &access_list(2000));
    }
    // Innermost first: making something in a directory changes its time.
    times.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
    for (path, time) in times {
        touch(&path, time);
    }
}

/// All that can be said about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    device: u64,
    /// Its size and digest, or where a link points to.
    content: String,
    /// Where data begin and end, of files that are not so small that filesystems keep them elsewhere.
    pieces: Vec<(u64, u64)>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Its first name, if it has several in the tree.
    first: Option<PathBuf>,
}

/// Describes a tree, but for sockets.
pub(crate) fn describe(top: &Path) -> BTreeMap<PathBuf, Described> {
    let mut found = BTreeMap::new();
    let mut inodes: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        // An overlay lists names that it does not show: what is removed in a directory that lies over nothing.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let kind = meta.file_type();
        if kind.is_socket() {
            continue;
        }
        let (mut content, mut pieces) = (String::new(), Vec::new());
        if kind.is_dir() {
            left.extend(fs::read_dir(&path).expect("listed").map(|e| e.expect("an entry").path()));
        } else if kind.is_symlink() {
            content = format!("{:?}", fs::read_link(&path).expect("read"));
        } else if kind.is_file() {
            let bytes = fs::read(&path).expect("read");
            content = format!("{} {:x}", bytes.len(), Sha256::digest(&bytes));
            let file = fs::File::open(&path).expect("opened");
            let mut at = 0;
            while let (true, Ok(begin)) = (bytes.len() > LARGE, seek(&file, SeekFrom::Data(at))) {
                at = seek(&file, SeekFrom::Hole(begin)).expect("an end");
                pieces.push((begin, at));
            }
        }
        let relative = path.strip_prefix(top).expect("below").to_owned();
        if !kind.is_dir() {
            inodes.entry(meta.ino()).or_default().push(relative.clone());
        }
        let described = Described {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            device: meta.rdev(),
            content,
            pieces,
            attributes: attributes(&path),
            first: None,
        };
        found.insert(relative, described);
    }
    for mut names in inodes.into_values().filter(|names| names.len() > 1) {
        names.sort();
        for name in &names {
            found.get_mut(name).expect("described").first = Some(names[0].clone());
        }
    }
    found
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 1 << 16];
    let length = llistxattr(path, names.as_mut_slice()).expect("listed");
    let names = names[..length].split(|b| *b == 0).filter(|n| !n.is_empty());
    let mut value = vec![0; 1 << 16];
    names
        .map(|name| {
            let length = lgetxattr(path, name, value.as_mut_slice()).expect("read");
            (name.to_vec(), value[..length].to_vec())
        })
        .collect()
}

/// Says how two trees differ, if they do.
pub(crate) fn assert_same(before: &Path, after: &Path) {
    let (mut before, mut after) = (describe(before), describe(after));
    for (path, described) in &before {
        assert_eq!(after.remove(path).as_ref(), Some(described), "{path:?}");
    }
    assert_eq!(after.into_keys().collect::<Vec<_>>(), Vec::<PathBuf>::new());
    before.clear();
}
