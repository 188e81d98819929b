//! A read-only `/sys` that shows only the processors and the sandbox's own cgroups: the real one would show the host's
//! network interfaces and devices.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::error::{During, Error};
use crate::plan::CgroupDir;
use crate::root::{INERT, attach, copy_tree, directory, filesystem, make_read_only};

/// Parts of the host's `/sys` that are shown.
const SHOWN: [&[&str]; 2] = [&["devices", "system", "cpu"], &["kernel", "mm", "transparent_hugepage"]];

/// Mounts `/sys`. The host's must still be visible.
pub(crate) fn mount(root: BorrowedFd<'_>, cgroups: &[CgroupDir]) -> Result<(), Error> {
    let target = directory(root, "sys")?;
    let sys = filesystem("tmpfs", &[("mode", "0755"), ("size", "64k"), ("nr_inodes", "64")], INERT)?;
    attach(&sys, &target).during("attach /sys")?;
    for path in SHOWN {
        show(&sys, path, &format!("/sys/{}", path.join("/")))?;
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

fn show(sys: impl AsFd, path: &[&'static str], host: &str) -> Result<(), Error> {
    let copy = match copy_tree(CWD, host, false) {
        Ok(copy) => copy,
        // Not every kernel has every part.
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error).during("open a part of the host's /sys"),
    };
    let mut place = directory(&sys, path[0])?;
    for name in &path[1..] {
        place = directory(&place, name)?;
    }
    make_read_only(&copy).during("make a part of /sys read-only")?;
    attach(&copy, &place).during("show a part of /sys")
}
