//! A read-only `/sys` that shows a few facts about the processors, and the sandbox's own cgroups. Facts are copies: the
//! real files would show the host's devices and network interfaces, and be shared by all sandboxes.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::error::{During, Error};
use crate::plan::CgroupDir;
use crate::root::{INERT, attach, copy_tree, directory, file, filesystem, make_read_only};

/// Directories and the files that are copied from each. `online` is here for a sandbox without facts of its own.
const COPIED: [(&[&str], &[&str]); 2] = [
    (&["devices", "system", "cpu"], &["kernel_max", "online", "possible", "present"]),
    (&["kernel", "mm", "transparent_hugepage"], &["enabled", "hpage_pmd_size"]),
];

/// Contents of the host's files, in the order of [`COPIED`]; `None` for what this kernel does not have.
pub(crate) struct HostFacts(Vec<Option<String>>);

impl HostFacts {
    /// Reads them. They do not change while the machine runs, or do not matter.
    pub(crate) fn read() -> Self {
        let names = COPIED.iter().flat_map(|(dir, names)| names.iter().map(move |name| (dir.join("/"), name)));
        Self(names.map(|(dir, name)| std::fs::read_to_string(format!("/sys/{dir}/{name}")).ok()).collect())
    }
}

/// Mounts `/sys` with `cpus` processors. `online` is the file that lists them.
pub(crate) fn mount(
    root: BorrowedFd<'_>,
    cgroups: &[CgroupDir],
    facts: &HostFacts,
    cpus: u32,
    online: Option<BorrowedFd<'_>>,
) -> Result<(), Error> {
    let target = directory(root, "sys")?;
    let sys = filesystem("tmpfs", &[("mode", "0755"), ("size", "64k"), ("nr_inodes", "128")], INERT)?;
    attach(&sys, &target).during("attach /sys")?;
    let mut facts = facts.0.iter();
    for (path, names) in COPIED {
        let place = below(&sys, path)?;
        for name in names {
            match (facts.next(), online) {
                (_, Some(online)) if *name == "online" => {
                    attach(online, file(&place, name)?).during("show the processors")?
                }
                (Some(Some(content)), _) => write(&place, name, content)?,
                _ => {}
            }
        }
    }
    // Programs count them.
    let place = below(&sys, COPIED[0].0)?;
    for number in 0..cpus {
        mkdirat(&place, format!("cpu{number}"), Mode::from_raw_mode(0o755)).during("show a processor")?;
    }
    for cgroup in cgroups.iter().filter(|c| c.visible) {
        let host = cgroup.path.to_string_lossy();
        match shown_name(&cgroup.shown_as) {
            Some("") => show(&sys, &["fs", "cgroup"], &host)?,
            Some(name) => show(&sys, &["fs", "cgroup", name], &host)?,
            None => {}
        }
    }
    // Last, and only for this mount: the mounts below it are read-only already.
    crate::kernel::set_mount_attributes(sys.as_fd(), MountAttrFlags::MOUNT_ATTR_RDONLY.bits().into(), false, None)
        .during("make /sys read-only")
}

fn shown_name(name: &str) -> Option<&'static str> {
    ["", "cpu", "cpuacct", "memory", "pids"].into_iter().find(|known| *known == name)
}

fn below(sys: impl AsFd, path: &[&'static str]) -> Result<std::os::fd::OwnedFd, Error> {
    let mut place = directory(&sys, path[0])?;
    for name in &path[1..] {
        place = directory(&place, name)?;
    }
    Ok(place)
}

fn write(place: impl AsFd, name: &str, content: &str) -> Result<(), Error> {
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(place, name, create, Mode::from_raw_mode(0o444)).during("make a file of /sys")?;
    rustix::io::write(file, content.as_bytes()).map(drop).during("write a file of /sys")
}

fn show(sys: impl AsFd, path: &[&'static str], host: &str) -> Result<(), Error> {
    let copy = match copy_tree(CWD, host, false) {
        Ok(copy) => copy,
        // Not every kernel has every part.
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error).during("open a part of the host's /sys"),
    };
    make_read_only(&copy).during("make a part of /sys read-only")?;
    attach(&copy, below(sys, path)?).during("show a part of /sys")
}
