//! Our own archives: what is written is read, and nothing else is.

use std::io::Read;

use cabana_archive::{BLOCK, Entry, Error, Kind, Profile, Reader, Time, Writer, padding, sparse};
use proptest::prelude::*;

use crate::read_all;

/// Written by the version that introduced the format. It must stay readable, because cold storage has such archives.
const FORMAT_1: &[u8] = include_bytes!("../disk-format-1.tar");

fn any_entry() -> impl Strategy<Value = Entry> {
    let bytes = |least, most| prop::collection::vec(1..=255u8, least..most);
    let kinds = [Kind::File, Kind::HardLink, Kind::Symlink, Kind::Device, Kind::Directory, Kind::Fifo];
    let kind = prop::sample::select(kinds.to_vec());
    let xattrs = prop::collection::btree_map(bytes(1, 40), bytes(0, 500), 0..4);
    let time = (-(1i64 << 40)..1 << 40, prop_oneof![Just(0), 0..1_000_000_000u32])
        .prop_map(|(seconds, nanoseconds)| Time { seconds, nanoseconds });
    let sizes = (prop_oneof![0..100u64, 0..=i64::MAX as u64], prop::option::of(any::<u64>()));
    let owner = (0..=0o7777u32, 0..65_536u64, 0..65_536u64);
    (kind, bytes(1, 300), bytes(1, 300), owner, time, sizes, xattrs).prop_map(
        |(kind, mut path, link, (mode, uid, gid), mtime, (size, full_size), xattrs)| {
            let (is_file, is_link) = (kind == Kind::File, matches!(kind, Kind::HardLink | Kind::Symlink));
            // A slash at the end is how directories are marked.
            if path.ends_with(b"/") {
                path.push(b'x');
            }
            Entry {
                kind,
                path,
                link: if is_link { link } else { Vec::new() },
                mode,
                uid,
                gid,
                mtime,
                size: if is_file { size } else { 0 },
                full_size: full_size.filter(|_| is_file),
                xattrs: if is_link { Vec::new() } else { xattrs.into_iter().collect() },
            }
        },
    )
}

fn first(bytes: &[u8]) -> Result<Option<Entry>, Error> {
    Reader::new(bytes, Profile::Disk).next_entry()
}

proptest! {
    #[test]
    fn what_is_written_is_read(entry in any_entry()) {
        let bytes = entry.encode().expect("small");
        prop_assert_eq!(bytes.len() % BLOCK, 0);
        prop_assert_eq!(first(&bytes).expect("our own"), Some(entry));
    }

    #[test]
    fn a_cut_is_noticed(entry in any_entry(), at: prop::sample::Index) {
        let mut bytes = entry.encode().expect("small");
        bytes.truncate(at.index(bytes.len()));
        prop_assert!(first(&bytes).is_err());
    }

    #[test]
    fn one_changed_byte_of_a_header_is_noticed(entry in any_entry(), at in 0..BLOCK, by in 1..=255u8) {
        let mut bytes = entry.encode().expect("small");
        let last = bytes.len() - BLOCK;
        bytes[last + at] = bytes[last + at].wrapping_add(by);
        prop_assert!(first(&bytes).is_err());
    }

    #[test]
    fn any_block_is_survived(bytes in prop::collection::vec(any::<u8>(), BLOCK..3 * BLOCK)) {
        let _ = first(&bytes);
    }
}

#[test]
fn the_end_is_the_end() {
    let mut bytes = Writer::new(Vec::new()).finish().expect("memory");
    assert!(read_all(&bytes, Profile::Disk).expect("whole").is_empty());
    assert!(read_all(&bytes[..BLOCK], Profile::Disk).is_err());
    assert!(read_all(&[], Profile::Disk).is_err());
    bytes.push(0);
    assert!(read_all(&bytes, Profile::Disk).is_err());
    bytes[BLOCK] = 1;
    assert!(read_all(&bytes, Profile::Disk).is_err());
}

#[test]
fn headers_without_an_entry_are_refused() {
    for flag in *b"xgLK" {
        let mut header = Entry::new(Kind::File, b"name", 0o644).encode().expect("small");
        set_flag(&mut header, flag);
        let bytes = [header, vec![0; 2 * BLOCK]].concat();
        assert!(read_all(&bytes, Profile::Disk).is_err(), "{}", char::from(flag));
    }
}

/// Changes the type of an entry and makes the checksum right again.
fn set_flag(header: &mut [u8], flag: u8) {
    header[156] = flag;
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// An entry with foreign records.
fn with_records(records: &[u8]) -> Vec<u8> {
    let mut header = Entry { size: records.len() as u64, ..Entry::new(Kind::File, b"PaxHeaders/records", 0o644) }
        .encode()
        .expect("small");
    set_flag(&mut header, b'x');
    let fill = vec![0; padding(records.len() as u64)];
    [header, records.to_vec(), fill, Entry::new(Kind::File, b"upper/a", 0o644).encode().expect("small")].concat()
}

fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let digits = (rest + 2).to_string().len();
    format!("{} {key}={value}\n", rest + digits)
}

#[test]
fn records_that_are_never_written_are_refused() {
    first(&with_records(record("mtime", "0.5").as_bytes())).expect("as we spell it");
    for text in [
        "",
        "-",
        ".",
        "1.",
        ".5",
        "+1",
        "1e3",
        "1.0000000001",
        "99999999999999999999",
        "1 ",
        "--1",
        "0.50",
        "00.5",
        "0.",
        "0.5000000001",
    ] {
        assert!(first(&with_records(record("mtime", text).as_bytes())).is_err(), "{text}");
    }
    let bad: [&[u8]; 10] = [
        b"11 path=ab\n11 path=ab\n",
        b"11 path=ab\n",
        b"12 atime=12\n",
        b"99 path=ab\n",
        b"5 x\n",
        b" path=ab\n",
        b"26 GNU.sparse.realsize=12\n",
        b"24 SCHILY.xattr.a%b=12\n",
        b"11 path=abc",
        b"12 mtime=0.5\n12 mtime=0.5\n",
    ];
    for records in bad {
        assert!(first(&with_records(records)).is_err(), "{}", records.escape_ascii());
    }
}

#[test]
fn padding_must_be_zeros() {
    let mut writer = Writer::new(Vec::new());
    writer.append(&Entry { size: 3, ..Entry::new(Kind::File, b"a", 0o644) }, &mut &b"abc"[..]).expect("memory");
    let mut bytes = writer.finish().expect("memory");
    read_all(&bytes, Profile::Disk).expect("our own");
    bytes[BLOCK + 3] = 1;
    assert!(read_all(&bytes, Profile::Disk).is_err());
}

#[test]
fn archives_of_the_first_version_are_read_and_written_the_same() {
    let mut reader = Reader::new(FORMAT_1, Profile::Disk);
    let mut writer = Writer::new(Vec::new());
    let mut kinds = Vec::new();
    while let Some(entry) = reader.next_entry().expect("readable") {
        let mut content = Vec::new();
        reader.content().read_to_end(&mut content).expect("content");
        kinds.push(entry.kind);
        match &entry.path[..] {
            b"upper/file" => {
                assert_eq!((content.as_slice(), entry.uid, entry.gid), (&b"hello world"[..], 1000, 65_535))
            }
            b"upper/attributes" => assert_eq!(entry.xattrs[1], (b"user.a=b%c".to_vec(), b"x=y\n".to_vec())),
            b"upper/dir/sparse" => {
                assert_eq!(entry.full_size, Some(1 << 30));
                let (pieces, map) = sparse::decode(&mut content.as_slice(), 1 << 30).expect("a map");
                assert_eq!((pieces, map), (vec![(4096, 5), (1 << 20, 3)], BLOCK as u64));
            }
            _ => {}
        }
        writer.append(&entry, &mut content.as_slice()).expect("memory");
    }
    use Kind::{Device, Directory, Fifo, File, HardLink, Symlink};
    assert_eq!(kinds, [Directory, File, File, Directory, Symlink, Symlink, HardLink, Device, Fifo, File, File]);
    assert!(writer.finish().expect("memory") == FORMAT_1);
}
