//! Laying disks over trees, as root: what comes of it is what the kernel's overlay shows of the two.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use cabana_storage::pack::{Limits, Merged, merge};
use cabana_storage::{Error, Pool, PoolConfig, PoolKind, Tree};
use cabana_types::{BuildId, SandboxId, TemplateId};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, IFlags, Mode, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tokio_util::sync::CancellationToken;

use crate::tree;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let scratch = tempfile::Builder::new().prefix("cabana-merge-").tempdir().expect("a directory");
        for name in ["disk/upper", "root", "seen"] {
            fs::create_dir_all(scratch.path().join(name)).expect("made");
        }
        Self(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn merge(&self, limits: &Limits) -> Result<Merged, Error> {
        let open = |name| fs::File::open(self.path(name)).expect("a directory");
        merge(open("disk"), open("root"), limits, &CancellationToken::new())
    }
}

/// What the kernel shows of a disk over a tree, while it is held.
struct Shown(PathBuf);

impl Shown {
    fn new(upper: &Path, root: &Path, at: PathBuf) -> Self {
        let options = format!("lowerdir={}:{},userxattr", upper.display(), root.display());
        let options = std::ffi::CString::new(options).expect("text");
        mount("overlay", &at, "overlay", MountFlags::RDONLY, options.as_c_str()).expect("mounted");
        Self(at)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_merged_tree_matches_the_overlay((under, over) in tree::layers(), mode in 0..=0o7777u32) {
        let place = Place::new();
        let (upper, root, before) = (place.path("disk/upper"), place.path("root"), place.path("before"));
        tree::make(&root, &under);
        fs::create_dir(&before).expect("made");
        tree::make(&before, &under);
        tree::make(&upper, &over);
        fs::set_permissions(&upper, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
        tree::touch(&upper, (1_234_567_890, 123_456_789));
        place.merge(&Limits::default()).expect("merged");
        let shown = Shown::new(&upper, &before, place.path("seen"));
        tree::assert_same(&shown.0, &root);
    }
}

#[test]
fn what_shows_through_and_what_does_not() {
    let place = Place::new();
    let (upper, root) = (place.path("disk/upper"), place.path("root"));
    for name in ["kept/deep", "emptied/inner/more", "gone/a/b", "turned"] {
        fs::create_dir_all(root.join(name)).expect("made");
    }
    for name in ["kept/old", "emptied/old", "emptied/inner/more/old", "gone/a/b/old", "turned/old", "file", "socket"] {
        fs::write(root.join(name), "old").expect("written");
    }
    symlink("/etc", root.join("link")).expect("linked");

    fs::create_dir_all(upper.join("kept")).expect("made");
    fs::create_dir_all(upper.join("emptied")).expect("made");
    tree::set(&upper.join("emptied"), b"user.overlay.opaque", b"y");
    fs::write(upper.join("emptied/new"), "new").expect("written");
    fs::hard_link(upper.join("emptied/new"), upper.join("kept/same")).expect("linked");
    for gone in ["gone", "kept/old"] {
        mknodat(CWD, upper.join(gone), FileType::CharacterDevice, Mode::empty(), 0).expect("made");
    }
    fs::write(upper.join("turned"), "a file now").expect("written");
    fs::create_dir(upper.join("file")).expect("made");
    // The template's link must not be followed.
    fs::create_dir(upper.join("link")).expect("made");
    fs::write(upper.join("link/inside"), "x").expect("written");
    drop(std::os::unix::net::UnixListener::bind(upper.join("socket")).expect("bound"));

    let merged = place.merge(&Limits::default()).expect("merged");
    assert_eq!((merged.skipped, merged.skipped_paths), (1, vec!["socket".to_owned()]));
    let names = |path: &str| {
        let mut names: Vec<_> =
            fs::read_dir(root.join(path)).expect("there").map(|e| e.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["emptied", "file", "kept", "link", "turned"]);
    assert_eq!(names("emptied"), ["new"]);
    assert_eq!(names("kept"), ["deep", "same"]);
    assert_eq!(fs::read_to_string(root.join("turned")).expect("read"), "a file now");
    assert_eq!(names("link"), ["inside"]);
    assert!(!Path::new("/etc/inside").exists());
    let inode = |path: &str| fs::metadata(root.join(path)).expect("there").ino();
    assert_eq!(inode("emptied/new"), inode("kept/same"), "two names of one file");
}

#[test]
fn bounds_and_cancelling() {
    let place = Place::new();
    for number in 0..20 {
        fs::write(place.path("disk/upper").join(number.to_string()), "x").expect("written");
    }
    let few = Limits { entries: 10, ..Limits::default() };
    assert!(matches!(place.merge(&few), Err(Error::Archive { .. })));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let open = |name| fs::File::open(place.path(name)).expect("a directory");
    let ended = merge(open("disk"), open("root"), &Limits::default(), &cancelled);
    assert!(matches!(ended, Err(Error::Cancelled)));
}

/// A sandbox can make directories deeper than any stack or table of descriptors, and take them away again.
#[test]
fn however_deep() {
    const DEPTH: usize = 5000;
    const BYTES: usize = 2 * DEPTH + "upper".len();
    let place = Place::new();
    let deepen = |top: PathBuf| {
        let mut here = std::os::fd::OwnedFd::from(fs::File::open(top).expect("a directory"));
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("made");
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            here = rustix::fs::openat(&here, "d", flags, Mode::empty()).expect("opened");
        }
    };
    deepen(place.path("disk/upper"));
    let less = place.merge(&Limits { path: BYTES - 1, ..Limits::default() });
    assert!(less.is_err_and(|e| e.to_string().contains("longer than")), "how deep it goes is bounded");
    assert_eq!(place.merge(&Limits { path: BYTES, ..Limits::default() }).expect("merged").entries, DEPTH as u64);
    fs::rename(place.path("disk/upper"), place.path("deep")).expect("moved");
    fs::create_dir(place.path("disk/upper")).expect("made");
    mknodat(CWD, place.path("disk/upper/d"), FileType::CharacterDevice, Mode::empty(), 0).expect("made");
    place.merge(&Limits::default()).expect("merged");
    assert_eq!(fs::read_dir(place.path("root")).expect("there").count(), 0);
    // The standard library's way to remove a tree would not come to the end of it.
    let mut command = std::process::Command::new("rm");
    assert!(command.arg("-rf").arg(place.path("deep")).status().expect("run").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_becomes_a_tree_of_its_own() {
    let data = Place::new();
    let config = PoolConfig { image_size: Some(1 << 30), kind: PoolKind::Btrfs };
    let pool = Pool::open(data.0.path(), config).await.expect("a pool");
    let _mounted = Shown(data.path("pool"));
    let (build, id, snapshot) =
        (BuildId::from_random([1; 16]), SandboxId::from_random([2; 20]), TemplateId::from_random([3; 20]));
    let new = pool.begin_build(&build).await.expect("begun");
    fs::write(new.rootfs().join("old"), "old").expect("written");
    fs::create_dir(new.rootfs().join("odd")).expect("made");
    let odd = fs::File::open(new.rootfs().join("odd")).expect("there");
    rustix::fs::ioctl_setflags(&odd, IFlags::NOCOW).expect("a flag");
    new.commit().await.expect("built");
    pool.create_disk(&id, 64 << 20).await.expect("a disk");
    let upper = data.path("pool").join("sandboxes").join(id.as_str()).join("upper");
    fs::write(upper.join("large"), vec![7; 8 << 20]).expect("written");
    // Written in place, and in a directory of the template that makes all files so: their contents are shared all the same.
    let in_place = fs::File::create(upper.join("in-place")).expect("made");
    rustix::fs::ioctl_setflags(&in_place, IFlags::NOCOW).expect("a flag");
    in_place.write_all_at(&vec![8; 8 << 20], 0).expect("written");
    fs::create_dir(upper.join("odd")).expect("made");
    fs::write(upper.join("odd/usual"), vec![9; 8 << 20]).expect("written");
    fs::write(upper.join("old"), "new").expect("written");
    pool.take_snapshot(&id, &snapshot).await.expect("taken");
    fs::write(upper.join("old"), "later").expect("written");

    let cancel = CancellationToken::new();
    let merge = async |snapshot: &TemplateId, key: &str| {
        pool.layer_from_snapshot(snapshot, &build, key, Limits { bytes: 1 << 20, ..Limits::default() }, &cancel).await
    };
    merge(&snapshot, "merged").await.expect("merged, and nothing was copied");
    merge(&snapshot, "merged").await.expect("the first stays");
    pool.delete_disk(&id).await.expect("deleted");
    pool.delete_snapshot(&snapshot).await.expect("deleted");
    pool.delete_build(&build).await.expect("deleted");
    let root = data.path("pool").join("layers/merged/rootfs");
    assert_eq!(fs::read_to_string(root.join("old")).expect("read"), "new");
    for (name, byte) in [("large", 7), ("in-place", 8), ("odd/usual", 9)] {
        assert_eq!(fs::read(root.join(name)).expect("read"), vec![byte; 8 << 20], "{name}");
    }
    assert!(pool.has_tree(&Tree::Layer("merged".to_owned())).await);

    let missing = TemplateId::from_random([4; 20]);
    assert!(merge(&missing, "none").await.is_err());
    // What was begun is removed in the background.
    let layers = || fs::read_dir(data.path("pool").join("layers")).expect("layers").count();
    for _ in 0..1000 {
        if layers() == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(layers(), 1);
}
