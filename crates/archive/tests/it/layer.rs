//! Archives for others: what is written is read.

use std::io::{Read, Write};

use cabana_archive::{Entry, Kind, Profile, Reader, Time, Writer};
use proptest::prelude::*;

fn entry() -> impl Strategy<Value = (Entry, Vec<u8>)> {
    let kind = prop::sample::select(vec![Kind::File, Kind::Directory, Kind::Symlink, Kind::HardLink, Kind::Fifo]);
    let name = prop_oneof!["[a-z\u{e9}\n]{1,20}(/[a-z]{1,9}){0,3}", "[a-z]{90,130}", "[a-z]{1,9}(/[a-z]{60}){3}"];
    let xattrs = prop::collection::btree_map("user\\.[a-z]{1,5}", prop::collection::vec(any::<u8>(), 0..9), 0..2);
    let numbers =
        (0_u32..0o10000, any::<u32>(), any::<u32>(), -5_000_000_000_i64..50_000_000_000, 0_u32..1_000_000_000);
    (name, kind, "[a-z/.]{1,150}", numbers, xattrs, prop::collection::vec(any::<u8>(), 0..1500)).prop_map(
        |(path, kind, link, (mode, uid, gid, seconds, nanoseconds), xattrs, content)| {
            let content = if kind == Kind::File { content } else { Vec::new() };
            let is_link = matches!(kind, Kind::Symlink | Kind::HardLink);
            let entry = Entry {
                link: if is_link { link.into_bytes() } else { Vec::new() },
                uid: uid.into(),
                gid: gid.into(),
                size: content.len() as u64,
                mtime: Time { seconds, nanoseconds },
                xattrs: xattrs.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect(),
                ..Entry::new(kind, path.into_bytes(), mode)
            };
            (entry, content)
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in prop::collection::vec(entry(), 0..6)) {
        let mut writer = Writer::new(Vec::new());
        for (entry, content) in &entries {
            writer.append(entry, &mut &content[..]).unwrap();
        }
        let bytes = writer.finish().unwrap();
        prop_assert_eq!(bytes.len() % 512, 0);
        let mut reader = Reader::new(&bytes[..], Profile::Layer);
        for (entry, content) in &entries {
            let mut read = reader.next_entry().unwrap().unwrap();
            if entry.kind == Kind::Directory {
                prop_assert_eq!(read.path.pop(), Some(b'/'));
            }
            let mut found = Vec::new();
            reader.content().read_to_end(&mut found).unwrap();
            prop_assert_eq!(&found, content);
            prop_assert_eq!(&read, entry);
        }
        prop_assert!(reader.next_entry().unwrap().is_none());
    }
}

#[test]
fn content_must_be_as_long_as_announced() {
    let entry = Entry { size: 10, ..Entry::new(Kind::File, b"x", 0o644) };
    assert!(Writer::new(Vec::new()).append(&entry, &mut &b"short"[..]).is_err());
    let mut writer = Writer::new(Vec::new());
    assert!(writer.begin(&entry).expect("memory"));
    assert!(writer.write_all(b"0123456789").is_ok() && writer.write_all(b"x").is_err());
}

#[test]
fn what_is_not_read_is_skipped() {
    let mut writer = Writer::new(Vec::new());
    for name in [b"a", b"b"] {
        writer.append(&Entry { size: 700, ..Entry::new(Kind::File, name, 0o644) }, &mut &[7; 700][..]).expect("memory");
    }
    let bytes = writer.finish().expect("memory");
    let mut reader = Reader::new(&bytes[..], Profile::Layer);
    for name in [b"a", b"b"] {
        let entry = reader.next_entry().expect("readable").expect("an entry");
        assert_eq!(entry.path, name);
        reader.content().read_exact(&mut [0; 10]).expect("content");
    }
    assert!(reader.next_entry().expect("readable").is_none());
    assert!(reader.into_inner().is_empty());
}
