//! What a sandbox is told of its machine: files that stand in its `/proc` and `/sys` instead of the host's. Programs size
//! themselves by them, and the host's would tell what its neighbours do.
//!
//! The host writes them before the launch, and again whenever it samples the usage of the sandbox: nothing inside is
//! woken for it, and a frozen sandbox stays so. A rewrite keeps the length, so that a reader sees the old or the new.

mod text;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cabana_jail::cgroup::Usage;
use cabana_types::SandboxId;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use self::text::{Load, View};
use super::at;
use crate::Error;

/// The files: what they are called in `/proc`, and `online` in `/sys/devices/system/cpu`. Whether each tells only how many
/// processors there are.
const FILES: [(&str, bool); 6] =
    [("cpuinfo", true), ("loadavg", false), ("meminfo", false), ("online", true), ("stat", false), ("vmstat", false)];

/// Of the tmpfs: six pages for each sandbox, more where there are many processors.
const OPTIONS: &std::ffi::CStr = c"mode=0711,size=256m,nr_inodes=0";

/// The facts of all sandboxes.
pub(super) struct Facts {
    dir: PathBuf,
    /// The host's `/proc/cpuinfo`.
    cpuinfo: String,
    /// Since when clocks inside count, where they are the host's.
    host_boot: Option<SystemTime>,
    last: Mutex<HashMap<SandboxId, Last>>,
}

/// What the files of a sandbox were last written with.
struct Last {
    at: Instant,
    cpu_usec: u64,
    load: Load,
    cpus: u32,
}

impl Facts {
    /// Mounts a tmpfs for the files, unless an earlier server did. The mount table of a sandbox tells the place of each of
    /// them in its filesystem, so that must not be a path of the host.
    pub(super) fn open(run_dir: &Path) -> Result<Self, Error> {
        let dir = run_dir.join("facts");
        match fs::DirBuilder::new().mode(0o711).create(&dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at("create", &dir)(error)),
            _ => {}
        }
        let device = |path: &Path| fs::metadata(path).map(|about| about.dev()).map_err(at("look up", path));
        if device(&dir)? == device(run_dir)? {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("tmpfs", &dir, "tmpfs", flags, OPTIONS)
                .map_err(|error| at("mount a tmpfs on", &dir)(error.into()))?;
        }
        Ok(Self::new(dir))
    }

    /// Removes the tmpfs, unless a sandbox has files in it.
    pub(super) fn close(&self) {
        if fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_none()) {
            let _ = unmount(&self.dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
            let _ = fs::remove_dir(&self.dir);
        }
    }

    fn new(dir: PathBuf) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let uptime = Duration::from_secs(text::uptime().unwrap_or_default());
        let host_boot = (!cabana_jail::machine::has_own_clock()).then(|| SystemTime::now() - uptime);
        Self { dir, cpuinfo, host_boot, last: Mutex::default() }
    }

    fn place(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(id.as_str())
    }

    /// Creates the files of a sandbox that is about to start, and opens their directory.
    pub(super) fn create(&self, id: &SandboxId, cpus: u32, memory: u64) -> Result<OwnedFd, Error> {
        let place = self.place(id);
        match fs::create_dir(&place) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at("create", &place)(error)),
            _ => {}
        }
        let view = View { cpus, memory, usage: Usage::default(), up: Duration::ZERO, boot: self.boot(Duration::ZERO) };
        for ((name, _), content) in FILES.iter().zip(self.texts(&view, &Load::default())) {
            let path = place.join(name);
            let file = File::options().write(true).create(true).truncate(true).mode(0o444).open(&path);
            file.and_then(|file| file.write_all_at(content.as_bytes(), 0)).map_err(at("write", &path))?;
        }
        self.lock().insert(id.clone(), Last { at: Instant::now(), cpu_usec: 0, load: Load::default(), cpus });
        File::open(&place).map(OwnedFd::from).map_err(at("open", &place))
    }

    /// Rewrites the files with the present use. `started` is when its first process was, in ticks since boot. Best effort:
    /// sandboxes of earlier versions have no files.
    pub(super) fn update(&self, id: &SandboxId, limits: (u32, u64), usage: Usage, started: Option<u64>) {
        let place = self.place(id);
        let (Some(started), true) = (started, place.exists()) else { return };
        let up = text::uptime_since(started).unwrap_or_default();
        let (cpus, memory) = limits;
        let (load, cpus_changed) = self.sample(id, usage.cpu_usec, usage.pids, cpus);
        let view = View { cpus, memory, usage, up, boot: self.boot(up) };
        for ((name, of_cpus), content) in FILES.iter().zip(self.texts(&view, &load)) {
            // Programs may watch it.
            if *of_cpus && !cpus_changed {
                continue;
            }
            let Ok(file) = File::options().write(true).open(place.join(name)) else { continue };
            let _ = file.write_all_at(content.as_bytes(), 0);
            // Only after a change of its processors.
            if file.metadata().is_ok_and(|found| found.len() != content.len() as u64) {
                let _ = file.set_len(content.len() as u64);
            }
        }
    }

    fn texts(&self, view: &View, load: &Load) -> [String; 6] {
        let (cpuinfo, online) = (text::cpuinfo(&self.cpuinfo, view.cpus), text::online(view.cpus));
        [cpuinfo, load.text(), view.meminfo(), online, view.stat(), text::VMSTAT.to_owned()]
    }

    fn boot(&self, up: Duration) -> SystemTime {
        self.host_boot.unwrap_or_else(|| SystemTime::now() - up)
    }

    /// The load of a sandbox, and whether the number of its processors is another than before.
    fn sample(&self, id: &SandboxId, cpu_usec: u64, pids: u64, cpus: u32) -> (Load, bool) {
        let mut all = self.lock();
        let now = Instant::now();
        // Of a sandbox that an earlier server started, nothing is known.
        let first = || Last { at: now, cpu_usec, load: Load::default(), cpus: 0 };
        let last = all.entry(id.clone()).or_insert_with(first);
        last.load.add(now - last.at, cpu_usec.saturating_sub(last.cpu_usec), pids);
        let cpus_changed = last.cpus != cpus;
        (last.at, last.cpu_usec, last.cpus) = (now, cpu_usec, cpus);
        (last.load, cpus_changed)
    }

    /// Removes the files of a sandbox, if there are any.
    pub(super) fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        self.lock().remove(id);
        let place = self.place(id);
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(at("remove", &place)(error)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_length_and_go_with_the_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        let facts = Facts::new(dir.path().to_owned());
        let id = SandboxId::from_random([7; 20]);
        drop(facts.create(&id, 2, 1 << 30).unwrap());
        let read = |name: &str| fs::read_to_string(facts.place(&id).join(name)).unwrap();
        let before: Vec<usize> = FILES.map(|(name, _)| read(name).len()).to_vec();
        let usage =
            Usage { cpu_usec: 123_456_789, system_usec: 999_999, pids: 77, memory: 1 << 29, cache: 5 << 20, shared: 9 };
        facts.update(&id, (2, 1 << 30), usage, Some(1));
        assert_eq!(FILES.map(|(name, _)| read(name).len()).to_vec(), before);
        assert!(read("meminfo").contains("524288 kB"), "{}", read("meminfo"));
        facts.update(&id, (1, 1 << 30), usage, Some(1));
        assert_eq!(read("online"), "0\n", "after a change of its processors");
        facts.remove(&id).unwrap();
        facts.remove(&id).unwrap();
        facts.update(&id, (2, 1 << 30), usage, Some(1));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
