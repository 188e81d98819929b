//! Tests: malicious archives. Each is refused, and nothing outside of the disk's `upper` changes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use cabana_archive::{BLOCK, Entry, Kind, padding};
use tokio_util::sync::CancellationToken;

use super::{Limits, Selection, pack, unpack};
use crate::Error;

fn entry(kind: Kind, path: &str) -> Entry {
    Entry::new(kind, path, 0o755)
}

fn upper() -> Entry {
    entry(Kind::Directory, "upper")
}

fn link(kind: Kind, path: &str, target: &str) -> Entry {
    Entry { link: target.as_bytes().to_vec(), ..entry(kind, path) }
}

/// A file with `data`.
fn file(path: &str, data: &[u8]) -> (Entry, Vec<u8>) {
    (Entry { size: data.len() as u64, ..entry(Kind::File, path) }, data.to_vec())
}

fn bare(entries: Vec<Entry>) -> Vec<(Entry, Vec<u8>)> {
    entries.into_iter().map(|entry| (entry, Vec::new())).collect()
}

fn tar(entries: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (entry, data) in entries {
        out.extend(entry.encode().expect("small"));
        out.extend_from_slice(data);
        out.resize(out.len() + padding(data.len() as u64), 0);
    }
    out.extend([0; 2 * BLOCK]);
    out
}

fn zstd(tar: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.include_checksum(true).expect("a checksum");
    encoder.write_all(tar).expect("memory");
    encoder.finish().expect("memory")
}

/// A disk in a directory that must stay as it is.
struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::Builder::new().prefix("cabana-hostile-").tempdir().expect("a directory");
        fs::create_dir_all(scratch.path().join("disk/upper")).expect("made");
        fs::create_dir(scratch.path().join("victim")).expect("made");
        fs::write(scratch.path().join("victim/file"), "untouched").expect("written");
        Self { scratch }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path().join(name)
    }

    fn victim(&self) -> String {
        self.path("victim").display().to_string()
    }

    fn unpack_with(&self, archive: &[u8], limits: &Limits) -> Result<super::Unpacked, Error> {
        let disk = fs::File::open(self.path("disk")).expect("a directory");
        let result = unpack(archive, &disk, limits, &CancellationToken::new());
        self.check();
        result
    }

    fn unpack(&self, entries: &[(Entry, Vec<u8>)]) -> Result<super::Unpacked, Error> {
        self.unpack_with(&zstd(&tar(entries)), &Limits::default())
    }

    fn check(&self) {
        let names = |path: &Path| -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(path)
                .expect("listed")
                .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(self.scratch.path()), ["disk", "victim"]);
        assert_eq!(names(&self.path("disk")), ["upper"]);
        assert_eq!(names(&self.path("victim")), ["file"]);
        assert_eq!(fs::read_to_string(self.path("victim/file")).expect("read"), "untouched");
        let found = fs::metadata(self.path("victim/file")).expect("there");
        assert_eq!((found.nlink(), found.mode() & 0o7777, found.uid()), (1, 0o644, 0));
    }
}

fn refuse(what: &str, entries: Vec<Entry>) {
    let error = Place::new().unpack(&bare(entries)).expect_err(what);
    assert!(matches!(error, Error::Archive { .. } | Error::Path { .. }), "{what}: {error:?}");
}

#[test]
fn paths_cannot_leave() {
    for path in [
        "/etc/x",
        "..",
        "../victim/x",
        "upper/../../victim/x",
        "upper/./x",
        "upper//x",
        "victim/x",
        "work/x",
        "upperx",
        "",
        "/",
        "upper/",
    ] {
        for kind in [Kind::File, Kind::Directory, Kind::Fifo, Kind::Device] {
            refuse(path, vec![upper(), entry(kind, path)]);
        }
        refuse(path, vec![upper(), link(Kind::Symlink, path, "x")]);
        refuse(path, vec![upper(), entry(Kind::File, "upper/a"), link(Kind::HardLink, path, "upper/a")]);
        refuse(path, vec![upper(), link(Kind::HardLink, "upper/b", if path.is_empty() { "x" } else { path })]);
    }
    let long = format!("upper/{}", "x".repeat(256));
    refuse("a long name", vec![upper(), entry(Kind::File, &long)]);
    refuse("a zero", vec![upper(), entry(Kind::File, "upper/a\0b")]);
}

#[test]
fn links_lead_nowhere() {
    let place = Place::new();
    let (victim, inside) = (place.victim(), link(Kind::Symlink, "upper/l", "../../victim"));
    for way in [link(Kind::Symlink, "upper/l", &victim), inside, link(Kind::Symlink, "upper/l", "d")] {
        let directory = entry(Kind::Directory, "upper/d");
        refuse("a file behind a link", vec![upper(), directory.clone(), way.clone(), entry(Kind::File, "upper/l/new")]);
        refuse("a directory in place of a link", vec![upper(), way.clone(), entry(Kind::Directory, "upper/l")]);
        refuse("a file in place of a link", vec![upper(), way.clone(), entry(Kind::File, "upper/l")]);
        refuse("a name behind a link", vec![upper(), way.clone(), link(Kind::HardLink, "upper/n", "upper/l/file")]);
    }
    let file_link = link(Kind::Symlink, "upper/l", &format!("{victim}/file"));
    refuse("writing through a link", vec![upper(), file_link, entry(Kind::File, "upper/l")]);
    let outside = format!("{victim}/file");
    for target in
        [outside.as_str(), "../victim/file", "upper/../../victim/file", "/etc/passwd", "upper/missing", "upper"]
    {
        refuse(target, vec![upper(), link(Kind::HardLink, "upper/n", target)]);
    }
    refuse(
        "a directory's other name",
        vec![upper(), entry(Kind::Directory, "upper/d"), link(Kind::HardLink, "upper/n", "upper/d")],
    );
    // A second name of a link is one of the link, not of what it points to.
    let second = [upper(), link(Kind::Symlink, "upper/l", &outside), link(Kind::HardLink, "upper/n", "upper/l")];
    assert_eq!(place.unpack(&bare(second.to_vec())).expect("harmless").entries, 3);
    assert!(fs::symlink_metadata(place.path("disk/upper/n")).expect("there").is_symlink());
}

#[test]
fn nothing_is_made_twice_or_out_of_order() {
    for kind in [Kind::File, Kind::Directory, Kind::Fifo, Kind::Device] {
        refuse("twice", vec![upper(), entry(Kind::File, "upper/a"), entry(kind, "upper/a")]);
    }
    refuse("the top twice", vec![upper(), upper()]);
    refuse("no top", vec![entry(Kind::File, "upper/a")]);
    refuse("a file as top", vec![entry(Kind::File, "upper")]);
    refuse("a link as top", vec![link(Kind::Symlink, "upper", "../victim")]);
    refuse("an orphan", vec![upper(), entry(Kind::File, "upper/d/a")]);
    refuse("a file as directory", vec![upper(), entry(Kind::File, "upper/d"), entry(Kind::File, "upper/d/a")]);
    let (d, e) = (entry(Kind::Directory, "upper/d"), entry(Kind::Directory, "upper/e"));
    refuse("coming back", vec![upper(), d, e, entry(Kind::File, "upper/d/a")]);
    refuse("nothing", vec![]);
}

#[test]
fn a_disk_that_is_not_empty_is_left_alone() {
    let place = Place::new();
    fs::write(place.path("disk/upper/old"), "old").expect("written");
    place.unpack(&bare(vec![upper(), entry(Kind::File, "upper/old")])).expect_err("not empty");
    assert_eq!(fs::read_to_string(place.path("disk/upper/old")).expect("read"), "old");
    let place = Place::new();
    fs::remove_dir(place.path("disk/upper")).expect("removed");
    symlink("../victim", place.path("disk/upper")).expect("linked");
    place.unpack(&bare(vec![upper(), entry(Kind::File, "upper/a")])).expect_err("a link");
}

#[test]
fn owners_modes_and_attributes_are_checked() {
    refuse("an owner", vec![Entry { uid: 65_536, ..upper() }]);
    refuse("a group", vec![upper(), Entry { gid: 100_000, ..entry(Kind::File, "upper/a") }]);
    refuse("a mode", vec![upper(), Entry { mode: 0o10_000, ..entry(Kind::File, "upper/a") }]);
    for name in
        ["trusted.overlay.opaque", "security.selinux", "security.evm", "btrfs.compression", "user.", "", "user.a\0b"]
    {
        let attributes = vec![(name.as_bytes().to_vec(), b"y".to_vec())];
        refuse(name, vec![upper(), Entry { xattrs: attributes, ..entry(Kind::File, "upper/a") }]);
    }
    let twice = vec![(b"user.a".to_vec(), b"1".to_vec()), (b"user.a".to_vec(), b"2".to_vec())];
    refuse("an attribute twice", vec![upper(), Entry { xattrs: twice, ..entry(Kind::File, "upper/a") }]);
}

/// Puts something into the header of the second entry and makes its sum right again.
fn change(mut tar: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    let header = &mut tar[BLOCK..2 * BLOCK];
    header[at..at + bytes.len()].copy_from_slice(bytes);
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar
}

#[test]
fn kinds_and_fields_that_are_never_packed_are_refused() {
    let plain = tar(&bare(vec![upper(), entry(Kind::Device, "upper/a")]));
    let place = Place::new();
    place.unpack_with(&zstd(&change(plain.clone(), 156, b"3")), &Limits::default()).expect("unchanged");
    for kind in b"47gLKSDMVX\0" {
        Place::new().unpack_with(&zstd(&change(plain.clone(), 156, &[*kind])), &Limits::default()).expect_err("a kind");
    }
    for (at, bytes) in [
        (329, b"0000010".as_slice()), // a device's numbers
        (337, b"0000003"),
        (345, b"../../victim"), // the prefix of a name
        (265, b"root"),
        (257, b"ustar  \0"),
        (124, b"\x80\0\0\0\0\0\0\0\0\0\0\x01"), // a size in binary
        (100, b"-000001"),
    ] {
        Place::new().unpack_with(&zstd(&change(plain.clone(), at, bytes)), &Limits::default()).expect_err("a field");
    }
}

#[test]
fn limits_hold() {
    let refuse = |what: &str, entries: &[(Entry, Vec<u8>)], limits: Limits| {
        let error = Place::new().unpack_with(&zstd(&tar(entries)), &limits).expect_err(what);
        assert!(matches!(error, Error::Archive { .. }), "{what}: {error:?}");
    };
    let top = (upper(), Vec::new());
    let entries: Vec<_> =
        std::iter::once(top.clone()).chain((0..5).map(|i| file(&format!("upper/{i}"), b""))).collect();
    refuse("entries", &entries, Limits { entries: 5, ..Limits::default() });
    Place::new().unpack_with(&zstd(&tar(&entries)), &Limits { entries: 6, ..Limits::default() }).expect("six");
    // 64 MiB of zeros are a few kilobytes.
    let bomb = [top.clone(), file("upper/zeros", &vec![0; 64 << 20])];
    let packed = zstd(&tar(&bomb));
    assert!(packed.len() < 64 << 10);
    let place = Place::new();
    place.unpack_with(&packed, &Limits { bytes: 1 << 20, ..Limits::default() }).expect_err("bytes");
    assert_eq!(fs::metadata(place.path("disk/upper/zeros")).expect("there").len(), 0);
    refuse("a path", &[top.clone(), file("upper/long-name", b"")], Limits { path: 10, ..Limits::default() });
    let attributes = vec![(b"user.a".to_vec(), vec![0; 4000])];
    let heavy = Entry { xattrs: attributes, ..entry(Kind::File, "upper/a") };
    refuse("attributes", &[top, (heavy, Vec::new())], Limits { bytes: 4000, ..Limits::default() });
}

#[test]
fn lying_sizes_are_refused() {
    let top = (upper(), Vec::new());
    for (full_size, map, stored) in [
        (100u64, "1\n0\n50\n", 512 + 49u64), // less than the map says
        (100, "1\n0\n50\n", 512 + 51),
        (10, "1\n0\n50\n", 512 + 50),
        (100, "2\n20\n10\n0\n10\n", 512 + 20),
        (u64::MAX, "0\n", 512), // no file can be so large
        (100, "1\n0\n18446744073709551615\n", 512),
        (100, "99999999\n", 512),
        (100, "nonsense", 512),
    ] {
        let mut data = map.as_bytes().to_vec();
        data.resize(512, 0);
        data.resize(usize::try_from(stored).expect("small"), b'x');
        let sparse = Entry { size: stored, full_size: Some(full_size), ..entry(Kind::File, "upper/s") };
        Place::new().unpack(&[top.clone(), (sparse, data)]).expect_err(map);
    }
    // A size that promises more than comes.
    let promised = Entry { size: 1 << 40, ..entry(Kind::File, "upper/a") };
    Place::new().unpack(&[top, (promised, b"little".to_vec())]).expect_err("a promise");
}

#[test]
fn every_cut_is_noticed() {
    let entries =
        [(upper(), Vec::new()), file("upper/a", b"some data"), file(&format!("upper/{}", "n".repeat(200)), b"x")];
    let tar = tar(&entries);
    for cut in (0..tar.len()).step_by(64) {
        Place::new().unpack_with(&zstd(&tar[..cut]), &Limits::default()).expect_err("a cut");
    }
    let archive = zstd(&tar);
    for cut in 0..archive.len() {
        Place::new().unpack_with(&archive[..cut], &Limits::default()).expect_err("a cut");
    }
    for more in [b"x".to_vec(), archive.clone(), b"\x50\x2a\x4d\x18\0\0\0\0".to_vec()] {
        let longer = [archive.clone(), more].concat();
        Place::new().unpack_with(&longer, &Limits::default()).expect_err("more");
    }
    let longer = [tar, vec![0; 512]].concat();
    Place::new().unpack_with(&zstd(&longer), &Limits::default()).expect_err("more blocks");
}

#[test]
fn every_changed_byte_is_noticed() {
    let archive = zstd(&tar(&[(upper(), Vec::new()), file("upper/a", b"some data")]));
    for at in 0..archive.len() {
        let mut changed = archive.clone();
        changed[at] ^= 1 << (at % 8);
        let place = Place::new();
        // A change that only makes the window larger changes nothing of what comes out.
        if place.unpack_with(&changed, &Limits::default()).is_ok() {
            assert_eq!(fs::read(place.path("disk/upper/a")).expect("read"), b"some data", "byte {at}");
        }
    }
}

#[test]
fn a_window_that_takes_much_memory_is_refused() {
    let tar = tar(&[(upper(), Vec::new()), file("upper/a", &vec![7; 1 << 20])]);
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.window_log(27).expect("a window");
    encoder.write_all(&tar).expect("memory");
    let archive = encoder.finish().expect("memory");
    Place::new().unpack_with(&archive, &Limits::default()).expect_err("a window");
}

#[test]
fn cancelling_stops_both() {
    let place = Place::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let disk = fs::File::open(place.path("disk")).expect("a directory");
    let archive = zstd(&tar(&[(upper(), Vec::new())]));
    let unpacked = unpack(archive.as_slice(), &disk, &Limits::default(), &cancel);
    assert!(matches!(unpacked, Err(Error::Cancelled)));
    let packed = pack(&disk, &Selection::Everything, std::io::sink(), &Limits::default(), &cancel);
    assert!(matches!(packed, Err(Error::Cancelled)));
}
