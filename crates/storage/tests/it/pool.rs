//! The pool on a loop image and as plain directories.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabana_jail::btrfs;
use cabana_storage::{Error, Pool, PoolConfig, PoolKind};
use cabana_types::{BuildId, SandboxId};

const MIB: u64 = 1 << 20;

/// A data directory that is unmounted and removed at the end, also of a test that failed.
struct Data(tempfile::TempDir);

impl Data {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("cabana-pool-").tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    async fn open(&self) -> Pool {
        Pool::open(self.path(), config(PoolKind::Btrfs)).await.expect("a pool")
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        while rustix::mount::unmount(self.path().join("pool"), flags).is_ok() {}
    }
}

fn config(kind: PoolKind) -> PoolConfig {
    PoolConfig { image_size: Some(2048 * MIB), kind }
}

fn sandbox(n: u8) -> SandboxId {
    SandboxId::from_random([n; 20])
}

fn build(n: u8) -> BuildId {
    BuildId::from_random([n; 16])
}

/// A path to what a descriptor holds open.
fn path_of(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn open(path: &Path) -> std::fs::File {
    std::fs::File::open(path).expect("a directory")
}

/// The kernel frees deleted subvolumes in the background, after a commit.
fn wait_for(what: &str, filesystem: &Path, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what} did not come");
        btrfs::sync(open(filesystem)).expect("a commit");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn loop_devices_of(image: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/block").expect("block devices");
    let names = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned());
    names
        .filter(|n| {
            std::fs::read_to_string(format!("/sys/class/block/{n}/loop/backing_file"))
                .is_ok_and(|f| f.trim_end() == image.to_string_lossy())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_limited_measured_and_deleted_without_a_trace() {
    let data = Data::new();
    let pool = data.open().await;
    assert!(pool.quotas(), "{}", pool.description());
    let root = data.path().join("pool");
    let before = btrfs::qgroups(open(&root)).expect("quota groups").len();

    let disk = pool.create_disk(&sandbox(1), 64 * MIB).await.expect("a disk");
    assert!(pool.create_disk(&sandbox(1), MIB).await.is_err(), "the disk is there");
    let upper = path_of(&disk.dir).join("upper");
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let found = std::fs::metadata(&upper).expect("upper");
    assert_eq!((found.permissions().mode() & 0o7777, found.uid(), found.gid()), (0o755, 0, 0));
    assert!(path_of(&disk.dir).join("work").is_dir());

    std::fs::write(upper.join("small"), vec![7; 8 << 20]).expect("8 MiB fit");
    let id = btrfs::subvolume_id(open(&root.join("sandboxes").join(sandbox(1).as_str()))).expect("an id");
    wait_for("usage", &root, || btrfs::usage(open(&root), id).expect("usage").is_some_and(|u| u.referenced >= 8 * MIB));
    let used = pool.disk_used(&sandbox(1)).await.expect("a size");
    assert!((8 * MIB..16 * MIB).contains(&used), "{used}");

    // The limit binds when writing, not when it is too late to tell the program.
    let mut large = std::fs::File::create(upper.join("large")).expect("a file");
    let mut written = 0;
    let error = loop {
        match large.write_all(&vec![9; 1 << 20]) {
            Ok(()) => written += MIB,
            Err(error) => break error,
        }
        assert!(written < 64 * MIB, "the limit does not bind");
    };
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::DQUOT.raw_os_error()), "{error}");
    assert!(written > 32 * MIB, "only {written} bytes fitted");
    drop(large);

    // Another sandbox's disk is none of this one's business, and space comes back.
    let other = pool.create_disk(&sandbox(2), 64 * MIB).await.expect("a disk");
    std::fs::write(path_of(&other.dir).join("upper/file"), vec![1; 32 << 20]).expect("32 MiB fit");
    std::fs::remove_file(upper.join("large")).expect("removed");
    wait_for("space", &root, || std::fs::write(upper.join("again"), vec![1; 16 << 20]).is_ok());

    let mut disks = pool.disks().await.expect("disks");
    disks.sort();
    assert_eq!(disks, [sandbox(1), sandbox(2)]);
    drop((disk, other));
    for _ in 0..2 {
        pool.delete_disk(&sandbox(1)).await.expect("deleted");
        pool.delete_disk(&sandbox(2)).await.expect("deleted");
    }
    assert_eq!(pool.disks().await.expect("disks"), []);
    assert!(pool.open_disk(&sandbox(1)).await.expect("an answer").is_none());
    wait_for("the end of the subvolume", &root, || !btrfs::subvolume_exists(open(&root), id).expect("an answer"));
    wait_for("the end of its quota group", &root, || {
        // What an older kernel leaves, the next deletion or start removes.
        btrfs::remove_qgroup(open(&root), id).expect("an answer");
        btrfs::qgroups(open(&root)).expect("quota groups").len() == before
    });

    drop(pool);
    assert!(Pool::unmount(data.path()).await.expect("unmounted"));
    assert!(!Pool::unmount(data.path()).await.expect("nothing to do"));
    // A mount namespace of another process may hold the device a little longer.
    let end = Instant::now() + Duration::from_secs(20);
    while !loop_devices_of(&data.path().join("pool.img")).is_empty() {
        assert!(Instant::now() < end, "the loop device is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_subvolumes_inside_is_deleted() {
    let data = Data::new();
    let pool = data.open().await;
    let disk = pool.create_disk(&sandbox(1), 64 * MIB).await.expect("a disk");
    let upper = path_of(&disk.dir).join("upper");
    btrfs::create_subvolume(open(&upper), "a", None).expect("a subvolume");
    btrfs::create_subvolume(open(&upper.join("a")), "b", None).expect("a subvolume");
    btrfs::snapshot(open(&upper.join("a")), open(&upper.join("a/b")), "c", true).expect("a snapshot");
    pool.delete_disk(&sandbox(1)).await.expect("deleted");
    assert_eq!(pool.disks().await.expect("disks"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_can_be_changed_and_a_snapshot_made() {
    let data = Data::new();
    let pool = data.open().await;
    let _disk = pool.create_disk(&sandbox(1), MIB).await.expect("a disk");
    let sandboxes = open(&data.path().join("pool/sandboxes"));
    let top = open(&data.path().join("pool/sandboxes").join(sandbox(1).as_str()));
    let id = btrfs::subvolume_id(&top).expect("an id");
    btrfs::set_limit(&sandboxes, id, 64 * MIB).expect("a new limit");
    let file = path_of(&top.try_clone().expect("a copy").into()).join("upper/file");
    assert!(!file.exists());
    let path = data.path().join("pool/sandboxes").join(sandbox(1).as_str()).join("upper/file");
    std::fs::write(&path, vec![3; 8 << 20]).expect("8 MiB fit now");
    rustix::fs::syncfs(&sandboxes).expect("a commit");
    btrfs::snapshot(&top, &sandboxes, sandbox(2).as_str(), false).expect("a snapshot");
    let copy = data.path().join("pool/sandboxes").join(sandbox(2).as_str()).join("upper/file");
    assert_eq!(std::fs::metadata(copy).expect("the copy").len(), 8 * MIB);
    pool.delete_disk(&sandbox(1)).await.expect("deleted");
    pool.delete_disk(&sandbox(2)).await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_appears_whole_and_read_only_or_not_at_all() {
    for kind in [PoolKind::Btrfs, PoolKind::Plain] {
        let data = Data::new();
        let pool = Pool::open(data.path(), config(kind)).await.expect("a pool");
        let new = pool.begin_build(&build(1)).await.expect("a build");
        std::fs::write(new.rootfs().join("file"), "content").expect("written");
        assert!(pool.open_build(&build(1)).expect("an answer").is_none());
        assert_eq!(pool.builds().await.expect("builds"), []);
        new.commit().await.expect("committed");
        let rootfs = pool.open_build(&build(1)).expect("an answer").expect("the build");
        assert_eq!(std::fs::read_to_string(path_of(&rootfs).join("file")).expect("read"), "content");
        if kind == PoolKind::Btrfs {
            let error = std::fs::write(path_of(&rootfs).join("file"), "other").expect_err("read-only");
            assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
        // A second build of the same id does not replace the first.
        let again = pool.begin_build(&build(1)).await.expect("a build");
        assert!(again.commit().await.is_err());
        assert_eq!(pool.builds().await.expect("builds"), [build(1)]);

        drop(rootfs);
        pool.delete_build(&build(1)).await.expect("deleted");
        pool.delete_build(&build(1)).await.expect("deleted twice");
        assert!(pool.open_build(&build(1)).expect("an answer").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_builds_are_removed() {
    for kind in [PoolKind::Btrfs, PoolKind::Plain] {
        let data = Data::new();
        let pool = Pool::open(data.path(), config(kind)).await.expect("a pool");
        let templates = data.path().join("pool/templates");
        let count = || std::fs::read_dir(&templates).expect("templates").count();

        let dropped = pool.begin_build(&build(1)).await.expect("a build");
        let path = dropped.rootfs().parent().expect("a parent").to_owned();
        drop(dropped);
        let end = Instant::now() + Duration::from_secs(20);
        while path.exists() {
            assert!(Instant::now() < end, "it is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }

        // Forgotten, as by a server that was killed.
        let forgotten = pool.begin_build(&build(2)).await.expect("a build");
        std::fs::write(forgotten.rootfs().join("file"), "content").expect("written");
        std::mem::forget(forgotten);
        assert_eq!(count(), 1);
        let again = Pool::open(data.path(), config(kind)).await.expect("opened while mounted");
        assert_eq!(count(), 0);
        drop((pool, again));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_outlives_its_server() {
    let data = Data::new();
    let pool = data.open().await;
    let disk = pool.create_disk(&sandbox(1), 64 * MIB).await.expect("a disk");
    std::fs::write(path_of(&disk.dir).join("upper/file"), "content").expect("written");
    drop((pool, disk));

    // Still mounted.
    let pool = data.open().await;
    assert_eq!(loop_devices_of(&data.path().join("pool.img")).len(), 1);
    let read = |disk: cabana_storage::Disk| std::fs::read_to_string(path_of(&disk.dir).join("upper/file"));
    let disk = pool.open_disk(&sandbox(1)).await.expect("an answer").expect("the disk");
    assert_eq!(read(disk).expect("read"), "content");
    drop(pool);

    // Unmounted, as after a reboot.
    assert!(Pool::unmount(data.path()).await.expect("unmounted"));
    let pool = data.open().await;
    assert!(pool.quotas());
    let disk = pool.open_disk(&sandbox(1)).await.expect("an answer").expect("the disk");
    assert_eq!(read(disk).expect("read"), "content");

    drop(pool);

    // Read-only, as the kernel makes it when the disk under it is full.
    let remounted = std::process::Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(data.path().join("pool"))
        .status()
        .expect("mount runs");
    assert!(remounted.success());
    let pool = data.open().await;
    pool.create_disk(&sandbox(2), MIB).await.expect("it is writable again");
    drop(pool);

    // The image was deleted under it: said, not papered over.
    std::fs::remove_file(data.path().join("pool.img")).expect("removed");
    let error = Pool::open(data.path(), config(PoolKind::Auto)).await.expect_err("not our image");
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_the_image_is_made_leaves_nothing_behind() {
    let data = Data::new();
    // Killed while mkfs was running.
    std::fs::write(data.path().join("pool.img.new"), "half").expect("written");
    // Killed between mkfs and mount.
    std::fs::create_dir(data.path().join("pool")).expect("made");
    let pool = data.open().await;
    assert!(pool.quotas());
    assert!(!data.path().join("pool.img.new").exists());
    drop(pool);
    // A disk without its directories: killed in the middle of making it.
    let sandboxes = open(&data.path().join("pool/sandboxes"));
    btrfs::create_subvolume(&sandboxes, sandbox(1).as_str(), Some(MIB)).expect("a subvolume");
    let pool = data.open().await;
    let disk = pool.open_disk(&sandbox(1)).await.expect("an answer").expect("the disk");
    assert!(path_of(&disk.dir).join("upper").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pools_at_once_and_two_starts_at_once() {
    let (one, two) = (Data::new(), Data::new());
    let (a, b, again) = tokio::join!(one.open(), two.open(), one.open());
    for pool in [&a, &b] {
        pool.create_disk(&sandbox(1), MIB).await.expect("a disk");
    }
    assert_eq!(again.disks().await.expect("disks"), [sandbox(1)]);
    assert_eq!(loop_devices_of(&one.path().join("pool.img")).len(), 1);
    a.delete_disk(&sandbox(1)).await.expect("deleted");
    assert_eq!(b.disks().await.expect("disks"), [sandbox(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_btrfs_directories_do() {
    let data = Data::new();
    let pool = Pool::open(data.path(), config(PoolKind::Plain)).await.expect("a pool");
    assert!(!pool.quotas());
    let disk = pool.create_disk(&sandbox(1), MIB).await.expect("a disk");
    let upper = path_of(&disk.dir).join("upper");
    std::fs::create_dir(upper.join("inner")).expect("made");
    std::fs::write(upper.join("inner/file"), vec![5; 4 << 20]).expect("written");
    std::os::unix::fs::symlink("/", upper.join("inner/link")).expect("linked");
    rustix::fs::syncfs(open(data.path())).expect("flushed");
    let used = pool.disk_used(&sandbox(1)).await.expect("a size");
    assert!((4 * MIB..5 * MIB).contains(&used), "{used}");
    // A plain pool with something in it stays one, and is not hidden under an image.
    let auto = Pool::open(data.path(), config(PoolKind::Auto)).await.expect("a pool");
    assert_eq!(auto.disks().await.expect("disks"), [sandbox(1)]);
    assert!(Pool::open(data.path(), config(PoolKind::Btrfs)).await.is_err());
    pool.delete_disk(&sandbox(1)).await.expect("deleted");
    pool.delete_disk(&sandbox(1)).await.expect("deleted twice");
    assert_eq!(pool.disks().await.expect("disks"), []);
    assert!(Path::new("/usr").is_dir());
}

/// The kernel by itself frees what was deleted half a minute later.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_is_soon_free() {
    let data = Data::new();
    let pool = data.open().await;
    let root = data.path().join("pool");
    let before = btrfs::qgroups(open(&root)).expect("quota groups").len();
    for n in 0..20 {
        let disk = pool.create_disk(&sandbox(n), 64 * MIB).await.expect("a disk");
        std::fs::write(path_of(&disk.dir).join("upper/file"), vec![1; 1 << 20]).expect("written");
    }
    btrfs::sync(open(&root)).expect("a commit");
    for n in 0..20 {
        pool.delete_disk(&sandbox(n)).await.expect("deleted");
    }
    let end = Instant::now() + Duration::from_secs(20);
    while btrfs::qgroups(open(&root)).expect("quota groups").len() > before {
        assert!(Instant::now() < end, "what was deleted is not free after 20 s");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn making_and_deleting_disks_is_quick_and_leaves_nothing() {
    const CYCLES: u32 = 200;
    let data = Data::new();
    let pool = data.open().await;
    let root = data.path().join("pool");
    let before = btrfs::qgroups(open(&root)).expect("quota groups").len();
    let (mut create, mut delete) = (Vec::new(), Vec::new());
    for n in 0..CYCLES {
        let id = sandbox(u8::try_from(n % 30).expect("small"));
        let start = Instant::now();
        let disk = pool.create_disk(&id, 64 * MIB).await.expect("a disk");
        create.push(start.elapsed());
        std::fs::write(path_of(&disk.dir).join("upper/file"), "content").expect("written");
        drop(disk);
        let start = Instant::now();
        pool.delete_disk(&id).await.expect("deleted");
        delete.push(start.elapsed());
    }
    for (name, times) in [("create", &mut create), ("delete", &mut delete)] {
        times.sort();
        let (middle, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        eprintln!("{name}: median {middle:?}, 99th percentile {most:?}");
    }
    wait_for("the end of all quota groups", &root, || {
        btrfs::qgroups(open(&root)).expect("quota groups").len() == before
            // An older kernel leaves them to the next start.
            || btrfs::qgroups(open(&root)).expect("quota groups").iter().all(|(id, _)| {
                btrfs::subvolume_exists(open(&root), *id).expect("an answer")
                    || btrfs::remove_qgroup(open(&root), *id).expect("an answer")
            })
    });
}
