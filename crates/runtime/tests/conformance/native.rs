//! The native backend under test: a pool and a network of its own, a small root filesystem of the host's programs, and the real guest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_runtime::Isolations;
use cabana_runtime::host::{Host, HostConfig};
use cabana_runtime::native::{Native, NativeConfig};
use cabana_storage::{Pool, PoolConfig, PoolKind};
use cabana_supervisor::Supervisor;
use cabana_types::{BuildId, SandboxId};

use crate::fixture::{Fixture, World};

/// Programs of the root filesystem.
const PROGRAMS: [&str; 3] = ["/bin/sh", "/usr/bin/tail", "/bin/sleep"];
/// How long slots may take to be released in the background.
const SETTLED: Duration = Duration::from_secs(10);

pub(crate) struct NativeWorld {
    host: Option<Arc<Host>>,
    pool: Pool,
    data: Data,
}

/// A data directory that is unmounted and removed at the end, also of a suite that failed.
struct Data(tempfile::TempDir);

impl Data {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        while rustix::mount::unmount(self.path().join("pool"), flags).is_ok() {}
    }
}

pub(crate) async fn fixture() -> Fixture {
    assert!(rustix::process::getuid().is_root(), "this test needs root");
    let data = Data(tempfile::Builder::new().prefix("cabana-conformance-").tempdir().unwrap());
    let config = PoolConfig { image_size: Some(2 << 30), kind: PoolKind::Auto };
    let pool = Pool::open(data.path(), config).await.unwrap();
    let build = BuildId::from_random([1; 16]);
    make_build(&pool, &build).await;
    let (host, isolations) = open(data.path(), &pool).await;
    Fixture { isolations, world: World::Native(NativeWorld { host: Some(host), pool, data }), build }
}

async fn open(data: &Path, pool: &Pool) -> (Arc<Host>, Isolations) {
    let config = HostConfig {
        data_dir: data.to_owned(),
        spare_slots: 1,
        resolvers: Vec::new(),
        bounds: Default::default(),
        policies: Default::default(),
        reserved_memory: 0,
        io: Default::default(),
        supervisor: Supervisor::new(),
    };
    let host = Arc::new(Host::open(config, Arc::new(pool.clone())).await.unwrap());
    let config = NativeConfig { program: example("conformance_launcher"), guest: Some(example("conformance_guest")) };
    let native = Native::open(&config, Arc::clone(&host)).unwrap();
    (host, Isolations::new(Arc::new(native), Arc::new(pool.clone())))
}

fn example(name: &str) -> PathBuf {
    // target/<profile>/deps/conformance-… and target/<profile>/examples/…
    let profile = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    profile.join("examples").join(name)
}

/// The programs with their libraries, including those of the guest.
async fn make_build(pool: &Pool, build: &BuildId) {
    let new = pool.begin_build(build).await.unwrap();
    let root = new.rootfs().to_owned();
    for dir in ["etc", "tmp", "root"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
    let mut files: BTreeSet<String> = PROGRAMS.iter().map(ToString::to_string).collect();
    for program in PROGRAMS.map(PathBuf::from).into_iter().chain([example("conformance_guest")]) {
        let needed = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(needed.stdout).unwrap();
        files.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned));
    }
    for file in files {
        let place = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&file, place).unwrap();
    }
    new.commit().await.unwrap();
}

impl NativeWorld {
    /// Sandboxes keep running; a new server opens everything again.
    pub(crate) async fn restart(&mut self, before: Isolations) -> Isolations {
        let old = self.host.take().unwrap();
        old.close().await.unwrap();
        drop(before);
        // The old one holds the lease of the addresses until it is gone.
        assert!(Arc::into_inner(old).is_some(), "something still holds the old host");
        let (host, isolations) = open(self.data.path(), &self.pool).await;
        self.host = Some(host);
        isolations
    }

    pub(crate) fn kill(&self, id: &SandboxId) {
        let record = fs::read_to_string(self.run_dir().join(format!("sandboxes/{id}.json"))).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let pid = i32::try_from(record["process"]["pid"].as_i64().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    fn instance(&self) -> String {
        let text = fs::read_to_string(self.data.path().join("instance.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["name"].as_str().unwrap().to_owned()
    }

    fn run_dir(&self) -> PathBuf {
        Path::new("/run/cabana").join(self.instance())
    }

    /// Records and sockets, cgroups, disks and snapshots.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = names("run", &self.run_dir().join("sandboxes"));
        for tree in subdirectories(Path::new("/sys/fs/cgroup")) {
            let ours = tree.join(format!("cabana-{}", self.instance()));
            // Our own directory is not below itself.
            let inside = subdirectories(&ours).into_iter().filter(|path| *path != ours);
            found.extend(inside.map(|path| format!("cgroup {}", path.display())));
        }
        for shelf in ["sandboxes", "snapshots"] {
            found.extend(names(shelf, &self.data.path().join("pool").join(shelf)));
        }
        found
    }

    /// The same, and slots that are not released in time.
    pub(crate) async fn leftovers(&self) -> Vec<String> {
        let mut found = self.files();
        let begun = Instant::now();
        loop {
            let slots = self.host.as_ref().unwrap().slots();
            if slots.used + slots.dying == 0 {
                break;
            }
            if begun.elapsed() > SETTLED {
                found.push(format!("{slots:?}"));
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        found
    }

    pub(crate) async fn close(self, isolations: Isolations) {
        let run_dir = self.run_dir();
        self.host.as_ref().unwrap().close().await.unwrap();
        drop(isolations);
        drop(self.host);
        assert!(!run_dir.exists(), "{} is left: {:?}", run_dir.display(), names("run", &run_dir));
        self.pool.close().await;
        drop(self.pool);
        assert!(Pool::unmount(self.data.path()).await.unwrap());
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let below =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    below.chain([dir.to_owned()]).collect()
}

fn names(kind: &str, dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| format!("{kind} {}", entry.file_name().to_string_lossy())).collect()
}
