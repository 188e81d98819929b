//! Layers and what is made of them.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cabana_storage::{Disk, Pool, PoolConfig, PoolKind, Tree};
use cabana_types::{BuildId, SandboxId};

const MIB: u64 = 1 << 20;
/// What the layers of the tests may take.
const LIMIT: u64 = 16 * MIB;

struct Data(tempfile::TempDir);

impl Data {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("cabana-layers-").tempdir().expect("a directory"))
    }

    async fn open(&self, kind: PoolKind) -> Pool {
        Pool::open(self.0.path(), PoolConfig { image_size: Some(1024 * MIB), kind }).await.expect("a pool")
    }

    fn layers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path().join("pool/layers")).expect("layers");
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        while rustix::mount::unmount(self.0.path().join("pool"), flags).is_ok() {}
    }
}

fn layer(key: &str) -> Tree {
    Tree::Layer(key.to_owned())
}

fn root_of(disk: &Disk) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", disk.dir.as_raw_fd()))
}

fn text(root: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(root.join(name)).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_kept_and_becomes_a_build() {
    let data = Data::new();
    let pool = data.open(PoolKind::Btrfs).await;
    let first = pool.begin_layer("first", None, LIMIT).await.expect("a layer");
    std::fs::write(first.rootfs().join("a"), "1").expect("written");
    assert!(!pool.has_tree(&layer("first")).await, "it is not there before it is whole");
    first.commit().await.expect("committed");
    assert!(pool.has_tree(&layer("first")).await);

    // What the host changes, and what a sandbox changes.
    let copied = pool.begin_layer("copied", Some(&layer("first")), LIMIT).await.expect("a copy");
    std::fs::write(copied.rootfs().join("b"), "2").expect("written");
    copied.commit().await.expect("committed");
    let id = SandboxId::from_random([1; 20]);
    let disk = pool.disk_from_tree(&layer("copied"), &id, 64 * MIB).await.expect("a disk");
    assert_eq!(text(&root_of(&disk), "a").as_deref(), Some("1"));
    std::fs::write(root_of(&disk).join("c"), "3").expect("written");
    std::fs::remove_file(root_of(&disk).join("a")).expect("removed");
    drop(disk);
    pool.layer_from_disk(&id, "run").await.expect("kept");
    pool.layer_from_disk(&id, "run").await.expect("kept twice");
    pool.delete_disk(&id).await.expect("deleted");

    let build = BuildId::from_random([2; 16]);
    let new = pool.begin_build_from(&build, &layer("run")).await.expect("begun");
    new.commit().await.expect("built");
    let again = pool.begin_build_from(&build, &layer("run")).await.expect("begun");
    assert!(again.commit().await.is_err(), "a build is never replaced");
    for key in ["first", "copied", "run"] {
        pool.delete_layer(key).await.expect("deleted");
    }
    pool.delete_layer("run").await.expect("deleted twice");
    assert_eq!(pool.layers().await.expect("layers"), Vec::<String>::new());
    let root = data.0.path().join("pool/templates").join(build.as_str()).join("rootfs");
    assert_eq!((text(&root, "a"), text(&root, "b"), text(&root, "c")), (None, Some("2".into()), Some("3".into())));
    assert!(std::fs::write(root.join("d"), "").is_err(), "a build cannot be changed");
    assert!(pool.open_build(&build).expect("opened").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_finished_goes() {
    let data = Data::new();
    let pool = data.open(PoolKind::Btrfs).await;
    let new = pool.begin_layer("one", None, LIMIT).await.expect("a layer");
    std::mem::forget(new);
    assert_eq!(data.layers().len(), 1);
    drop(pool);
    let pool = data.open(PoolKind::Btrfs).await;
    assert_eq!(data.layers(), Vec::<String>::new());
    // Two that come to the same: the first stays.
    let (one, two) = (
        pool.begin_layer("same", None, LIMIT).await.expect("one"),
        pool.begin_layer("same", None, LIMIT).await.expect("two"),
    );
    std::fs::write(one.rootfs().join("who"), "one").expect("written");
    one.commit().await.expect("committed");
    two.commit().await.expect("committed");
    let root = data.0.path().join("pool/layers/same/rootfs");
    assert_eq!(text(&root, "who").as_deref(), Some("one"));
    for wrong in ["", "..", "a/b", "A", ".new-x"] {
        assert!(pool.begin_layer(wrong, None, LIMIT).await.is_err(), "{wrong:?}");
    }
    assert!(pool.begin_layer("x", Some(&layer("missing")), LIMIT).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_directories_cannot_copy() {
    let data = Data::new();
    let pool = data.open(PoolKind::Plain).await;
    pool.begin_layer("first", None, LIMIT).await.expect("a layer").commit().await.expect("committed");
    let error = pool.begin_layer("second", Some(&layer("first")), LIMIT).await.expect_err("copied");
    assert!(cabana_types::error::chain(&error).contains("btrfs"), "{error}");
}

/// Writes until it fails, and returns the bytes that were written.
fn fill(file: PathBuf) -> (u64, std::io::Error) {
    let mut file = std::fs::File::create(file).expect("a file");
    let mut written = 0;
    loop {
        match std::io::Write::write_all(&mut file, &[1; 1 << 20]) {
            Ok(()) => written += MIB,
            Err(error) => return (written, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unpacked_has_a_limit() {
    let data = Data::new();
    let pool = data.open(PoolKind::Btrfs).await;
    if !pool.quotas() {
        return;
    }
    pool.begin_layer("first", None, LIMIT).await.expect("a layer").commit().await.expect("committed");
    let scratch = pool.begin_scratch(LIMIT).await.expect("scratch");
    let copy = pool.begin_layer("copy", Some(&layer("first")), LIMIT).await.expect("a copy");
    for tree in [scratch, copy] {
        let (written, error) = fill(tree.rootfs().join("file"));
        assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded, "{error}");
        assert!((LIMIT..8 * LIMIT).contains(&written), "{} MiB", written / MIB);
    }
    drop(pool);
    // Dropped trees are removed; those of a killed server by the next start.
    let names = data.open(PoolKind::Btrfs).await.layers().await.expect("layers");
    assert_eq!(names, ["first"]);
}

/// Everything stops before the pool is full: bytes that were written count, also before the kernel has flushed them.
#[tokio::test(flavor = "multi_thread")]
async fn unflushed_bytes_count_as_used() {
    let data = Data::new();
    let pool = data.open(PoolKind::Btrfs).await;
    let least = |pool: &Pool| pool.space_inside().levels().expect("levels").iter().map(|l| l.free).min().expect("two");
    let before = least(&pool);
    let scratch = pool.begin_scratch(1024 * MIB).await.expect("scratch");
    std::fs::write(scratch.rootfs().join("file"), vec![1; 256 << 20]).expect("written");
    let taken = before.saturating_sub(least(&pool));
    assert!(taken >= 250 * MIB, "{} MiB are seen of 256", taken / MIB);
    // Half of what is left, twice.
    let some = pool.space_inside().reserve((least(&pool) - 600 * MIB) / 2 + 200 * MIB).expect("there is space");
    let refused = pool.space_inside().reserve(least(&pool) / 2).expect_err("none is left");
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    drop(some);
}

/// The root of a build step is the filesystem itself: subvolumes that it could create there count for its limit.
#[tokio::test(flavor = "multi_thread")]
async fn nested_subvolumes_count_for_the_limit_of_a_build_step() {
    let data = Data::new();
    let pool = data.open(PoolKind::Btrfs).await;
    if pool.description() != "btrfs with simple quotas" {
        return;
    }
    pool.begin_layer("first", None, LIMIT).await.expect("a layer").commit().await.expect("committed");
    let id = SandboxId::from_random([7; 20]);
    let disk = pool.disk_from_tree(&layer("first"), &id, LIMIT).await.expect("a disk");
    let root = std::fs::File::open(root_of(&disk)).expect("open");
    cabana_jail::btrfs::create_subvolume(&root, "nested", None).expect("nested");
    let (written, error) = fill(root_of(&disk).join("nested/file"));
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded, "{error}");
    assert!(written <= LIMIT, "{} MiB", written / MIB);
    drop((root, disk));
    // Its limit can be changed and it can be removed although it is full, and its group with it.
    pool.resize_disk(&id, LIMIT / 2).await.expect("smaller than what it has");
    pool.resize_disk(&id, LIMIT).await.expect("its own again");
    pool.delete_disk(&id).await.expect("removed");
    assert_eq!(pool.disks().await.expect("disks"), []);
    let top = std::fs::File::open(data.0.path().join("pool")).expect("open");
    let gone = || cabana_jail::btrfs::groups_above(&top).expect("groups").is_empty();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !gone() && std::time::Instant::now() < end {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(gone(), "the group is left");
}
