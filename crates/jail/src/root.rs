//! A sandbox's root filesystem: an overlay of the shared template and its own disk, mounted in its own user namespace.
//! Everything is done by descriptor with the new mount API, so that a hostile image cannot redirect a mount.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::error::{During, Error};
use crate::kernel;

/// Flags of filesystems without programs and devices.
pub(crate) const INERT: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV).union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// An idmapped copy of the mount at a directory. Ids on disk stay unshifted, so that a disk can move between id ranges
/// and templates can be shared.
pub(crate) fn idmapped(dir: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(dir, "", flags).during("clone the mount of a layer")?;
    kernel::set_mount_attributes(tree.as_fd(), libc::MOUNT_ATTR_NODEV, false, Some(user_namespace))
        .during("map the ids of a layer")?;
    Ok(tree)
}

/// Mounts the overlay. `template` and `disk` are idmapped mounts; called inside the sandbox's user and mount
/// namespaces.
pub(crate) fn overlay(template: BorrowedFd<'_>, disk: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    use std::os::fd::AsRawFd;
    let (lower, disk) = (template.as_raw_fd(), disk.as_raw_fd());
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).during("open an overlay")?;
    // Layers are named by descriptor, so that host paths do not show up in the mount table inside.
    let options = [
        ("source", "cabana".to_owned()),
        ("lowerdir", format!("/proc/self/fd/{lower}")),
        ("upperdir", format!("/proc/self/fd/{disk}/upper")),
        ("workdir", format!("/proc/self/fd/{disk}/work")),
    ];
    for (key, value) in &options {
        fsconfig_set_string(&context, *key, value.as_str()).during("configure the overlay")?;
    }
    fsconfig_set_flag(&context, "userxattr").during("configure the overlay's attributes")?;
    fsconfig_create(&context).during("make the overlay")?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NODEV).during("mount the overlay")
}

/// A new filesystem that needs no device, not attached yet.
pub(crate) fn filesystem(
    kind: &'static str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Error> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).during(kind)?;
    for (key, value) in options {
        if value.is_empty() {
            fsconfig_set_flag(&context, *key).during(kind)?;
        } else {
            fsconfig_set_string(&context, *key, *value).during(kind)?;
        }
    }
    fsconfig_create(&context).during(kind)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).during(kind)
}

/// Attaches a mount to the directory or file behind a descriptor.
pub(crate) fn attach(mount: impl AsFd, target: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", target, "", flags)
}

/// A copy of the mount tree at a path, to be attached elsewhere.
pub(crate) fn copy_tree(dir: impl AsFd, path: &str, recursive: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if path.is_empty() {
        flags |= OpenTreeFlags::AT_EMPTY_PATH;
    }
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(dir, path, flags)
}

/// Makes a mount read-only, recursively.
pub(crate) fn make_read_only(mount: impl AsFd) -> Result<(), Errno> {
    kernel::set_mount_attributes(mount.as_fd(), libc::MOUNT_ATTR_RDONLY, true, None)
}

/// A directory directly below another one; created if it is missing, and replaces anything else of that name (such as a
/// link in the image that would lead elsewhere).
pub(crate) fn directory(parent: impl AsFd, name: &'static str) -> Result<OwnedFd, Error> {
    let open =
        || openat(&parent, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Ok(fd) => return Ok(fd),
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) => {
            unlinkat(&parent, name, AtFlags::empty()).during("replace a directory of the image")?
        }
        Err(error) => return Err(error).during(name),
    }
    mkdirat(&parent, name, Mode::from_raw_mode(0o755)).during(name)?;
    open().during(name)
}

/// A regular file directly below a directory, as a mount point; created empty if it is missing or something else.
pub(crate) fn file(parent: impl AsFd, name: &'static str) -> Result<OwnedFd, Error> {
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(fd) = openat(&parent, name, path, Mode::empty()) {
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&fd).during(name)?.st_mode);
        if kind.is_file() {
            return Ok(fd);
        }
        let flags = if kind.is_dir() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(&parent, name, flags).during("replace a file of the image")?;
    }
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(&parent, name, create, Mode::from_raw_mode(0o644)).during(name)?;
    openat(&parent, name, path, Mode::empty()).during(name)
}

/// A directory at any depth of the image; links are followed within the root only.
pub(crate) fn within(root: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    beneath::open(root, path, flags, Mode::empty(), Resolve::InRoot)
}

/// A directory at an absolute path of the image; links are followed within the root only, and missing directories are
/// created.
pub(crate) fn directory_at(root: impl AsFd, path: &str) -> Result<OwnedFd, Error> {
    const STEP: &str = "make the target of a mount";
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if !path.starts_with('/') || names.is_empty() || names.iter().any(|name| matches!(*name, "." | "..")) {
        return Err(Error::Step { step: STEP, source: Errno::INVAL });
    }
    let mut current = within(&root, ".").during(STEP)?;
    let mut prefix = String::new();
    for name in names {
        prefix = format!("{prefix}/{name}");
        current = match within(&root, &prefix) {
            Err(Errno::NOENT) => {
                mkdirat(&current, name, Mode::from_raw_mode(0o755)).during(STEP)?;
                within(&root, &prefix).during(STEP)?
            }
            other => other.during(STEP)?,
        };
    }
    Ok(current)
}
