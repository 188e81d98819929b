//! Packing and unpacking real trees as root; and what ordinary tools make of an archive.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabana_storage::pack::{Limits, Packed, Selection, Unpacked, pack, unpack};
use cabana_storage::{Error, Pool, PoolConfig, PoolKind};
use cabana_types::SandboxId;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio_util::sync::CancellationToken;

use crate::tree;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let scratch = tempfile::Builder::new().prefix("cabana-pack-").tempdir().expect("a directory");
        fs::create_dir_all(scratch.path().join("from/upper")).expect("made");
        fs::create_dir_all(scratch.path().join("from/work/work")).expect("made");
        fs::create_dir_all(scratch.path().join("to/upper")).expect("made");
        Self(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn upper(&self, name: &str) -> PathBuf {
        self.path("from/upper").join(name)
    }

    fn pack(&self, selection: &Selection) -> Result<(Packed, Vec<u8>), Error> {
        pack_from(&self.path("from"), selection)
    }

    fn unpack(&self, archive: &[u8]) -> Result<Unpacked, Error> {
        unpack_to(&self.path("to"), archive)
    }
}

fn pack_from(disk: &Path, selection: &Selection) -> Result<(Packed, Vec<u8>), Error> {
    let disk = fs::File::open(disk).expect("a directory");
    let mut archive = Vec::new();
    let packed = pack(&disk, selection, &mut archive, &Limits::default(), &CancellationToken::new())?;
    Ok((packed, archive))
}

fn unpack_to(disk: &Path, archive: &[u8]) -> Result<Unpacked, Error> {
    let disk = fs::File::open(disk).expect("a directory");
    unpack(archive, &disk, &Limits::default(), &CancellationToken::new())
}

fn paths(paths: &[&str]) -> Selection {
    Selection::Paths(paths.iter().map(|p| (*p).to_owned()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_survives(nodes in tree::nodes(), mode in 0..=0o7777u32) {
        let place = Place::new();
        tree::make(&place.path("from/upper"), &nodes);
        fs::set_permissions(place.path("from/upper"), std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
        tree::touch(&place.path("from/upper"), (1_234_567_890, 123_456_789));
        let (packed, archive) = place.pack(&Selection::Everything).expect("packed");
        let unpacked = place.unpack(&archive).expect("unpacked");
        prop_assert_eq!((packed.entries, packed.bytes), (unpacked.entries, unpacked.bytes));
        tree::assert_same(&place.path("from/upper"), &place.path("to/upper"));
        // What came back is packed to the same archive but for the order of names.
        let (again, _) = pack_from(&place.path("to"), &Selection::Everything).expect("packed again");
        prop_assert_eq!((again.entries, again.bytes, again.skipped), (packed.entries, packed.bytes, 0));
    }
}

/// On the filesystem of a real pool.
#[tokio::test(flavor = "multi_thread")]
async fn a_pools_disks_survive() {
    struct Data(tempfile::TempDir);
    impl Drop for Data {
        fn drop(&mut self) {
            let flags = rustix::mount::UnmountFlags::DETACH;
            while rustix::mount::unmount(self.0.path().join("pool"), flags).is_ok() {}
        }
    }
    let data = Data(tempfile::Builder::new().prefix("cabana-pack-pool-").tempdir().expect("a directory"));
    let config = PoolConfig { image_size: Some(2048 << 20), kind: PoolKind::Btrfs };
    let pool = Pool::open(data.0.path(), config).await.expect("a pool");
    let strategy = tree::nodes();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for round in 0..20u8 {
        let (from, to) = (SandboxId::from_random([2 * round; 20]), SandboxId::from_random([2 * round + 1; 20]));
        let disks = (
            pool.create_disk(&from, 512 << 20).await.expect("a disk"),
            pool.create_disk(&to, 512 << 20).await.expect("a disk"),
        );
        let upper = |id: &SandboxId| data.0.path().join("pool/sandboxes").join(id.as_str()).join("upper");
        let nodes = strategy.new_tree(&mut runner).expect("nodes").current();
        tree::make(&upper(&from), &nodes);
        let (limits, cancel) = (Limits::default(), CancellationToken::new());
        let mut archive = Vec::new();
        pack(&disks.0.dir, &Selection::Everything, &mut archive, &limits, &cancel).expect("packed");
        unpack(archive.as_slice(), &disks.1.dir, &limits, &cancel).expect("unpacked");
        tree::assert_same(&upper(&from), &upper(&to));
        pool.delete_disk(&from).await.expect("deleted");
        pool.delete_disk(&to).await.expect("deleted");
    }
    drop(pool);
    Pool::unmount(data.0.path()).await.expect("unmounted");
}

#[test]
fn sockets_are_left_out_and_told() {
    let place = Place::new();
    drop(UnixListener::bind(place.upper("socket")).expect("bound"));
    mknodat(CWD, place.upper("null"), FileType::CharacterDevice, Mode::RUSR, rustix::fs::makedev(1, 3)).expect("made");
    fs::write(place.upper("file"), "data").expect("written");
    let (packed, archive) = place.pack(&Selection::Everything).expect("packed");
    assert_eq!((packed.entries, packed.bytes, packed.skipped), (2, 4, 2));
    let mut skipped = packed.skipped_paths;
    skipped.sort();
    assert_eq!(skipped, ["upper/null", "upper/socket"]);
    place.unpack(&archive).expect("unpacked");
    assert_eq!(fs::read_dir(place.path("to/upper")).expect("listed").count(), 1);
}

#[test]
fn huge_holes_cost_nothing() {
    let place = Place::new();
    let file = fs::File::create(place.upper("huge")).expect("made");
    file.set_len(8 << 40).expect("sized");
    file.write_all_at(b"in the middle", 3 << 40).expect("written");
    let (packed, archive) = place.pack(&Selection::Everything).expect("packed");
    assert!(packed.bytes <= 1 << 16 && archive.len() < 4096, "{} bytes, {} packed", packed.bytes, archive.len());
    place.unpack(&archive).expect("unpacked");
    let back = fs::File::open(place.path("to/upper/huge")).expect("opened");
    assert_eq!(back.metadata().expect("there").len(), 8 << 40);
    assert!(back.metadata().expect("there").blocks() * 512 <= 1 << 16);
    let mut read = [0; 13];
    back.read_exact_at(&mut read, 3 << 40).expect("read");
    assert_eq!(&read, b"in the middle");
}

#[test]
fn deep_trees_survive() {
    let place = Place::new();
    // Deeper than descriptors may be open, and longer than a path may be in one call.
    let mut at = rustix::fs::open(place.path("from/upper"), rustix::fs::OFlags::PATH, Mode::empty()).expect("opened");
    for depth in 0..1500 {
        let name = format!("d{depth}");
        rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU).expect("made");
        at = rustix::fs::openat(&at, name.as_str(), rustix::fs::OFlags::PATH, Mode::empty()).expect("opened");
    }
    let (packed, archive) = place.pack(&Selection::Everything).expect("packed");
    assert_eq!(packed.entries, 1501);
    assert_eq!(place.unpack(&archive).expect("unpacked").entries, 1501);
    let (again, second) = pack_from(&place.path("to"), &Selection::Everything).expect("packed");
    assert_eq!(again, packed);
    assert!(archive == second, "the same tree gives the same archive");
}

#[test]
fn links_are_never_followed() {
    let place = Place::new();
    let outside = place.path("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("secret"), "secret").expect("written");
    symlink(&outside, place.upper("way")).expect("linked");
    symlink("/etc/passwd", place.upper("passwd")).expect("linked");
    symlink(".", place.upper("loop")).expect("linked");
    let (packed, archive) = place.pack(&Selection::Everything).expect("packed");
    assert_eq!((packed.entries, packed.bytes), (4, 0));
    place.unpack(&archive).expect("unpacked");
    tree::assert_same(&place.path("from/upper"), &place.path("to/upper"));
    let (packed, _) = place.pack(&paths(&["way/secret", "loop/loop/passwd", "passwd"])).expect("packed");
    assert_eq!(packed.missing, ["way/secret", "loop/loop/passwd"]);
    assert_eq!(packed.entries, 2);
    // A disk whose upper directory is a link is none.
    fs::rename(place.path("from/upper"), place.path("from/moved")).expect("moved");
    symlink("moved", place.path("from/upper")).expect("linked");
    place.pack(&Selection::Everything).expect_err("a link");
}

#[test]
fn a_selection_keeps_what_it_names() {
    let place = Place::new();
    for directory in ["home/user/artifacts/deep", "home/user/other", "srv/data"] {
        fs::create_dir_all(place.upper(directory)).expect("made");
    }
    for file in
        ["home/user/artifacts/a", "home/user/artifacts/deep/b", "home/user/other/c", "home/user/.bashrc", "srv/data/d"]
    {
        fs::write(place.upper(file), file).expect("written");
    }
    fs::hard_link(place.upper("home/user/other/c"), place.upper("home/user/artifacts/c")).expect("linked");
    mknodat(CWD, place.upper("home/user/artifacts/gone"), FileType::CharacterDevice, Mode::empty(), 0).expect("made");
    tree::set(&place.upper("home/user"), b"user.overlay.opaque", b"y");
    tree::set(&place.upper("home/user"), b"user.e2b.kept", b"yes");
    tree::set(&place.upper("home/user/artifacts"), b"user.overlay.opaque", b"y");
    std::os::unix::fs::chown(place.upper("home/user"), Some(1000), Some(1000)).expect("owned");
    tree::touch(&place.upper("home/user"), (77, 5));
    tree::touch(&place.upper("home"), (78, 6));
    let (packed, archive) = place
        .pack(&paths(&[
            "/home/user/artifacts",
            "home/user/artifacts/deep/b",
            "home/user/missing",
            "srv/data/d",
            "opt/x",
        ]))
        .expect("packed");
    assert_eq!(packed.missing, ["home/user/missing", "opt/x"]);
    place.unpack(&archive).expect("unpacked");
    let before = tree::describe(&place.path("from/upper"));
    let after = tree::describe(&place.path("to/upper"));
    let there: Vec<_> = after.keys().map(|p| p.display().to_string()).collect();
    assert_eq!(
        there,
        [
            "",
            "home",
            "home/user",
            "home/user/artifacts",
            "home/user/artifacts/a",
            "home/user/artifacts/c",
            "home/user/artifacts/deep",
            "home/user/artifacts/deep/b",
            "home/user/artifacts/gone",
            "srv",
            "srv/data",
            "srv/data/d",
        ]
    );
    // The chosen are as they were; of the directories above them, what the overlay made of them is left out.
    for path in ["home", "home/user/artifacts", "home/user/artifacts/a", "home/user/artifacts/deep/b", "srv/data/d"] {
        assert_eq!(before.get(Path::new(path)), after.get(Path::new(path)), "{path}");
    }
    let user = fs::symlink_metadata(place.path("to/upper/home/user")).expect("there");
    assert_eq!((user.uid(), user.mtime(), user.mtime_nsec()), (1000, 77, 5));
    let read = |name: &str| rustix::fs::lgetxattr(place.path("to/upper/home/user"), name, &mut [0u8; 64][..]);
    assert_eq!(read("user.e2b.kept"), Ok(3));
    assert_eq!(read("user.overlay.opaque"), Err(rustix::io::Errno::NODATA));
    // A selection of nothing that is there is an archive all the same.
    let place = Place::new();
    let (packed, archive) = place.pack(&paths(&["nothing/here"])).expect("packed");
    assert_eq!((packed.entries, packed.missing.len()), (1, 1));
    place.unpack(&archive).expect("unpacked");
    let error = place.pack(&paths(&["../from"])).expect_err("outside");
    assert!(matches!(error, Error::Archive { .. }), "{error:?}");
}

#[test]
fn what_could_not_be_unpacked_is_not_packed() {
    let place = Place::new();
    let file = place.upper("file");
    fs::write(&file, "0123456789").expect("written");
    std::os::unix::fs::chown(&file, Some(65_536), Some(0)).expect("owned");
    let error = place.pack(&Selection::Everything).expect_err("an owner");
    assert!(error.to_string().contains("upper/file"), "{error}");
    std::os::unix::fs::chown(&file, Some(65_535), Some(65_535)).expect("owned");
    let disk = fs::File::open(place.path("from")).expect("a directory");
    let limited = |limits: Limits| {
        pack(&disk, &Selection::Everything, std::io::sink(), &limits, &CancellationToken::new()).map(|p| p.entries)
    };
    assert_eq!(limited(Limits { entries: 2, bytes: 10, path: 10 }).expect("packed"), 2);
    for limits in [
        Limits { entries: 1, bytes: 10, path: 10 },
        Limits { entries: 2, bytes: 9, path: 10 },
        Limits { entries: 2, bytes: 10, path: 9 },
    ] {
        assert!(matches!(limited(limits), Err(Error::Archive { .. })), "{limits:?}");
    }
}

/// A person can open an archive with the tools of any system.
#[test]
fn ordinary_tar_opens_it() {
    let place = Place::new();
    let long = "long-".repeat(40);
    fs::create_dir_all(place.upper(&format!("dir/{long}"))).expect("made");
    fs::write(place.upper(&format!("dir/{long}/file")), vec![42; 100_000]).expect("written");
    fs::hard_link(place.upper(&format!("dir/{long}/file")), place.upper("second")).expect("linked");
    symlink("x".repeat(300), place.upper("link")).expect("linked");
    mknodat(CWD, place.upper("gone"), FileType::CharacterDevice, Mode::empty(), 0).expect("made");
    mknodat(CWD, place.upper("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("made");
    let sparse = fs::File::create(place.upper("sparse")).expect("made");
    for at in [1 << 20, 5 << 20, 50 << 20] {
        sparse.write_all_at(&[7; 4096], at).expect("written");
    }
    sparse.set_len(64 << 20).expect("sized");
    drop(sparse);
    tree::set(&place.upper("second"), b"user.e2b.a=b%", b"binary \0\n value");
    tree::set(&place.upper("dir"), b"user.overlay.opaque", b"y");
    std::os::unix::fs::chown(place.upper("second"), Some(1000), Some(65_535)).expect("owned");
    fs::set_permissions(place.upper("second"), std::os::unix::fs::PermissionsExt::from_mode(0o6755)).expect("a mode");
    tree::touch(&place.upper("second"), (-12, 340_000_000));
    tree::touch(&place.upper("dir"), (9_000_000_000, 1));
    let (_, archive) = place.pack(&Selection::Everything).expect("packed");
    fs::write(place.path("disk.tar.zst"), archive).expect("written");
    let tar = Command::new("tar")
        .args(["--zstd", "--warning=no-timestamp", "--xattrs", "--xattrs-include=*", "--same-owner", "-xpf"])
        .arg(place.path("disk.tar.zst"))
        .arg("-C")
        .arg(place.path("to"))
        .output()
        .expect("tar");
    assert!(tar.status.success() && tar.stderr.is_empty(), "{}", String::from_utf8_lossy(&tar.stderr));
    tree::assert_same(&place.path("from/upper"), &place.path("to/upper"));
}
