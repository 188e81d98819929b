//! Limits of what sandboxes read from and write to the pool's disk, where the machine offers them. Nothing is made for
//! them unless the operator sets one: on version 1 they cost every sandbox a further cgroup.
//!
//! Version 2 counts every write with the sandbox that caused it. Version 1 does so only for reads and for writes that a
//! program waits for (`fsync`, direct writes); what the kernel writes back later counts for nobody.

use std::fs;
use std::path::{Path, PathBuf};

use cabana_types::{Fact, SandboxId};

use super::{Cgroups, at, make, totals};
use crate::Error;

/// The version 1 controller.
pub(super) const BLKIO: &str = "blkio";

/// Files that hold the weight of a group, by version. `bfq` has its own, and the plain ones belong to other schedulers.
const WEIGHTS_V1: [&str; 2] = ["blkio.bfq.weight", "blkio.weight"];
const WEIGHTS_V2: [&str; 2] = ["io.bfq.weight", "io.weight"];

/// The operator's limits; 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// Share of all sandboxes together, from 1 to 1000. Other groups of the machine have 100.
    pub weight: u32,
    /// Bytes that one sandbox reads and writes per second.
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Operations of one sandbox per second.
    pub read_operations: u64,
    pub write_operations: u64,
}

impl IoLimits {
    /// Whether there are any.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn rates(&self) -> [u64; 4] {
        [self.read_bytes, self.write_bytes, self.read_operations, self.write_operations]
    }

    fn has_rates(&self) -> bool {
        self.rates() != [0; 4]
    }

    /// Files and contents that limit one sandbox on a device.
    fn files(&self, unified: bool, device: &str) -> Vec<(&'static str, String)> {
        if unified {
            let most = ["rbps", "wbps", "riops", "wiops"].into_iter().zip(self.rates()).filter(|(_, rate)| *rate > 0);
            let line = most.fold(device.to_owned(), |line, (key, rate)| format!("{line} {key}={rate}"));
            return vec![("io.max", line)];
        }
        let names = [
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
        ];
        let set = names.into_iter().zip(self.rates()).filter(|(_, rate)| *rate > 0);
        set.map(|(name, rate)| (name, format!("{device} {rate}"))).collect()
    }
}

/// Limits that hold for every sandbox, and the device that they are about.
#[derive(Debug, Clone)]
pub(super) struct Io {
    limits: IoLimits,
    device: String,
}

impl Cgroups {
    /// Limits reads and writes of sandboxes that are created from now on. `pool` is where their disks are. Returns what
    /// this machine does not offer.
    pub fn limit_io(&mut self, limits: IoLimits, pool: &Path) -> Vec<Error> {
        if limits.is_none() {
            return Vec::new();
        }
        let mut errors = Vec::new();
        if !self.unified && !self.homes.iter().any(|(controller, _)| controller == BLKIO) {
            match mounted_v1().map(|root| root.join(self.name())) {
                Some(home) => match make(&home) {
                    Ok(()) => self.homes.push((BLKIO.to_owned(), home)),
                    Err(error) => errors.push(error),
                },
                None => errors.push(Error::Unsupported("the cgroup controller `blkio` is not mounted".to_owned())),
            }
        }
        let key = if self.unified { "" } else { BLKIO };
        let Some(home) = self.homes.iter().find(|(c, _)| c == key).map(|(_, home)| home.clone()) else { return errors };
        if limits.weight > 0
            && let Err(error) = set_weight(&home, self.unified, limits.weight)
        {
            errors.push(error);
        }
        if limits.has_rates() {
            match device_of(pool) {
                Some(device) => self.io = Some(Io { limits, device }),
                None => errors.push(Error::Unsupported(format!("{} is on no disk of its own", pool.display()))),
            }
        }
        errors
    }

    /// Limits a new sandbox.
    pub(super) fn limit_io_of(&self, id: &SandboxId) -> Result<(), Error> {
        let Some(io) = &self.io else { return Ok(()) };
        let Some(dir) = self.dir(id, BLKIO) else { return Ok(()) };
        for (file, content) in io.limits.files(self.unified, &io.device) {
            let path = dir.join(file);
            fs::write(&path, content).map_err(at("write", &path))?;
        }
        Ok(())
    }

    /// The name of our directories.
    fn name(&self) -> PathBuf {
        let name = self.homes.first().and_then(|(_, home)| home.file_name());
        name.map(PathBuf::from).unwrap_or_default()
    }
}

/// Our directory of version 1 that an earlier server left with sandboxes in it.
pub(super) fn left_v1(name: &str) -> Option<PathBuf> {
    mounted_v1().map(|root| root.join(name)).filter(|home| home.is_dir())
}

fn mounted_v1() -> Option<PathBuf> {
    v1_mount(&fs::read_to_string("/proc/self/mountinfo").ok()?)
}

fn v1_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let is_ours = right.next() == Some("cgroup") && right.nth(1)?.split(',').any(|option| option == BLKIO);
        is_ours.then(|| left.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Sets the weight in every file that this kernel has.
fn set_weight(home: &Path, unified: bool, weight: u32) -> Result<(), Error> {
    let mut found = false;
    for file in if unified { WEIGHTS_V2 } else { WEIGHTS_V1 } {
        let path = home.join(file);
        match fs::write(&path, weight.to_string()) {
            Ok(()) => found = true,
            Err(error) if totals::is_absent(error.kind()) => {}
            Err(error) => return Err(at("write", &path)(error)),
        }
    }
    if found { Ok(()) } else { Err(Error::Unsupported("this kernel has no weights for disks".to_owned())) }
}

/// The disk that holds a path, as `major:minor`: limits are set on whole disks, not on partitions.
fn device_of(path: &Path) -> Option<String> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let path = path.ancestors().find_map(|above| above.canonicalize().ok())?;
    let (device, source) = mount_of(&mountinfo, &path)?;
    let device = match device.starts_with("0:") {
        false => device,
        // btrfs has a number of its own; its mount names the device.
        true => {
            let device = rustix::fs::stat(&source).ok()?.st_rdev;
            format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
        }
    };
    let sys = Path::new("/sys/dev/block").join(&device).canonicalize().ok()?;
    if !sys.join("partition").exists() {
        return Some(device);
    }
    fs::read_to_string(sys.parent()?.join("dev")).ok().map(|text| text.trim().to_owned())
}

/// Number and source of the mount that holds a path: of the last one at the longest directory.
fn mount_of(mountinfo: &str, path: &Path) -> Option<(String, String)> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ');
        let (device, point) = (left.nth(2)?, left.nth(1)?);
        path.starts_with(point).then_some((point.len(), device, right.split(' ').nth(1)?))
    });
    mounts.max_by_key(|(length, ..)| *length).map(|(_, device, source)| (device.to_owned(), source.to_owned()))
}

/// Whether disks can be limited on this machine, for `cabana doctor`.
pub fn fact(pool: &Path) -> Fact {
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers");
    let controllers = fs::read_to_string(unified).unwrap_or_default();
    let version = match (controllers.split_ascii_whitespace().any(|name| name == "io"), mounted_v1()) {
        (true, _) => Some(2),
        (false, Some(_)) => Some(1),
        (false, None) => None,
    };
    let device = device_of(pool);
    let scheduler = device.as_ref().and_then(|device| {
        let text = fs::read_to_string(format!("/sys/dev/block/{device}/queue/scheduler")).ok()?;
        Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
    });
    described(version, device.as_deref(), scheduler.as_deref())
}

fn described(version: Option<u8>, device: Option<&str>, scheduler: Option<&str>) -> Fact {
    let (ok, detail) = match (version, device) {
        (None, _) => (false, "cannot be limited: the cgroup controller for disks is missing".to_owned()),
        (_, None) => (false, "cannot be limited: the pool is on no disk".to_owned()),
        (Some(version), Some(device)) => {
            let writes =
                if version == 1 { ", except for what the kernel writes back later (cgroup version 1)" } else { "" };
            let weight = match scheduler {
                Some("bfq") => "weights work (bfq)".to_owned(),
                scheduler => format!("weights need the scheduler bfq, not {}", scheduler.unwrap_or("none")),
            };
            (true, format!("reads and writes on {device} can be limited{writes}; {weight}"))
        }
    };
    let remedy = (!ok).then(|| "boot with cgroup version 2 and its controller io (docs/hardening.md)".to_owned());
    Fact { name: "disk bandwidth", ok, required: false, detail, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
35 30 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
40 22 0:40 / /var/lib/cabana/pool rw - btrfs /dev/loop3 rw,noatime
";

    #[test]
    fn the_mount_of_a_path_is_the_longest() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(of("/var/lib/cabana/pool/disks"), ("0:40".into(), "/dev/loop3".into()));
        assert_eq!(of("/var/lib/cabana/pool2"), ("254:0".into(), "/dev/vda".into()));
        assert_eq!(v1_mount(MOUNTS), Some("/sys/fs/cgroup/blkio".into()));
        assert_eq!(v1_mount("1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), None);
    }

    #[test]
    fn only_what_is_set_is_written() {
        let limits = IoLimits { read_bytes: 7, write_operations: 9, ..IoLimits::default() };
        assert_eq!(limits.files(true, "7:3"), [("io.max", "7:3 rbps=7 wiops=9".to_owned())]);
        let files = limits.files(false, "7:3");
        assert_eq!(files[0], ("blkio.throttle.read_bps_device", "7:3 7".to_owned()));
        assert_eq!(files[1], ("blkio.throttle.write_iops_device", "7:3 9".to_owned()));
        assert_eq!(files.len(), 2);
        assert!(IoLimits::default().is_none() && !limits.is_none());
        assert!(!IoLimits { weight: 50, ..IoLimits::default() }.has_rates());
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(described(Some(2), Some("254:0"), Some("bfq")).ok);
        assert!(described(Some(1), Some("254:0"), None).detail.contains("version 1"));
        for fact in [described(None, Some("254:0"), None), described(Some(2), None, None)] {
            assert!(!fact.ok && fact.remedy.is_some() && !fact.required);
        }
    }

    #[test]
    fn the_disk_of_the_root_is_found() {
        let device = device_of(Path::new("/does/not/exist"));
        assert!(
            device.is_none_or(|device| device.split_once(':').is_some_and(|(major, _)| major.parse::<u32>().is_ok()))
        );
    }
}
