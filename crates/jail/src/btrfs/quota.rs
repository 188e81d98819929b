//! Disk limits: quota groups of subvolumes.
//!
//! Simple quotas (kernel 6.7) charge an extent to the subvolume that wrote it and have no overhead; regular ones track
//! every reference, and slow down with many snapshots. Limits work the same way in both.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Setter, Updater, ioctl, opcode};

use super::search;

const QUOTA_TREE: u64 = 8;
const QGROUP_STATUS: u32 = 240;
const QGROUP_INFO: u32 = 242;

/// The upper 16 bits of a group's id are its level; subvolumes are at level 0.
const LEVEL_SHIFT: u32 = 48;

const CTL_ENABLE: u64 = 1;
const CTL_ENABLE_SIMPLE: u64 = 4;
const STATUS_ON: u64 = 1;
const STATUS_SIMPLE: u64 = 8;
const LIMIT_MAX_REFERENCED: u64 = 1;
const INHERIT_SET_LIMITS: u64 = 1;

/// `struct btrfs_qgroup_limit`.
#[repr(C)]
struct Limit {
    flags: u64,
    max_referenced: u64,
    max_exclusive: u64,
    reserved_referenced: u64,
    reserved_exclusive: u64,
}

/// `struct btrfs_qgroup_inherit` with an empty list of groups.
#[repr(C)]
pub(super) struct Inherit {
    flags: u64,
    groups: u64,
    referenced_copies: u64,
    exclusive_copies: u64,
    limit: Limit,
}

/// `struct btrfs_ioctl_quota_ctl_args`.
#[repr(C)]
struct ControlArgs {
    command: u64,
    status: u64,
}

/// `struct btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct LimitArgs {
    group: u64,
    limit: Limit,
}

/// `struct btrfs_ioctl_qgroup_create_args`.
#[repr(C)]
struct CreateArgs {
    create: u64,
    group: u64,
}

/// `struct btrfs_ioctl_qgroup_assign_args`.
#[repr(C)]
struct AssignArgs {
    assign: u64,
    member: u64,
    group: u64,
}

const QUOTA_CTL: u32 = opcode::read_write::<ControlArgs>(super::MAGIC, 40);
const QGROUP_ASSIGN: u32 = opcode::write::<AssignArgs>(super::MAGIC, 41);
const QGROUP_CREATE: u32 = opcode::write::<CreateArgs>(super::MAGIC, 42);
/// The header declares "read", but the kernel reads from our memory.
const QGROUP_LIMIT: u32 = opcode::read::<LimitArgs>(super::MAGIC, 43);

impl Limit {
    fn referenced(bytes: u64) -> Self {
        Self {
            flags: LIMIT_MAX_REFERENCED,
            max_referenced: bytes,
            max_exclusive: 0,
            reserved_referenced: 0,
            reserved_exclusive: 0,
        }
    }
}

impl Inherit {
    pub(super) fn limited(bytes: u64) -> Self {
        Self {
            flags: INHERIT_SET_LIMITS,
            groups: 0,
            referenced_copies: 0,
            exclusive_copies: 0,
            limit: Limit::referenced(bytes),
        }
    }
}

/// Kind of quotas of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaState {
    Off,
    Simple,
    /// Regular quota groups.
    Full,
}

/// Usage of a quota group, as of the filesystem's last commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that count against its limit.
    pub referenced: u64,
    /// Bytes that deleting it would free.
    pub exclusive: u64,
}

/// The kind of quotas that is enabled.
pub fn quota_state(filesystem: impl AsFd) -> io::Result<QuotaState> {
    let mut state = QuotaState::Off;
    let read = search::each(filesystem.as_fd(), QUOTA_TREE, 0, QGROUP_STATUS, |_, item| {
        let flags = search::disk_word(item, 2)?;
        state = match (flags & STATUS_ON != 0, flags & STATUS_SIMPLE != 0) {
            (false, _) => QuotaState::Off,
            (true, true) => QuotaState::Simple,
            (true, false) => QuotaState::Full,
        };
        Ok(())
    });
    match read {
        // The quota tree does not exist without quotas.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(QuotaState::Off),
        Err(e) => Err(e),
        Ok(()) => Ok(state),
    }
}

/// Enables quotas, simple ones if the kernel supports them. Existing quotas are not changed.
pub fn enable_quota(filesystem: impl AsFd) -> io::Result<QuotaState> {
    let fd = filesystem.as_fd();
    let state = quota_state(fd)?;
    if state != QuotaState::Off {
        return Ok(state);
    }
    if control(fd, CTL_ENABLE_SIMPLE).is_err() {
        control(fd, CTL_ENABLE)?;
    }
    quota_state(fd)
}

fn control(filesystem: impl AsFd, command: u64) -> io::Result<()> {
    let mut args = ControlArgs { command, status: 0 };
    // SAFETY: the opcode reads and writes a `btrfs_ioctl_quota_ctl_args`.
    unsafe { ioctl(filesystem, Updater::<QUOTA_CTL, _>::new(&mut args)) }?;
    Ok(())
}

/// Limits the referenced bytes of a subvolume; writes beyond the limit fail with `EDQUOT`.
pub fn set_limit(filesystem: impl AsFd, subvolume: u64, bytes: u64) -> io::Result<()> {
    let args = LimitArgs { group: subvolume, limit: Limit::referenced(bytes) };
    // SAFETY: the opcode takes a `btrfs_ioctl_qgroup_limit_args`, which the kernel only reads.
    unsafe { ioctl(filesystem, Setter::<QGROUP_LIMIT, _>::new(args)) }?;
    Ok(())
}

/// The group of level 1 that [`limit_with_nested`] makes for a subvolume.
pub fn group_above(subvolume: u64) -> u64 {
    1 << LEVEL_SHIFT | subvolume
}

/// Limits a subvolume together with all that are created in it, which its own limit does not: they get groups of their own.
/// With simple quotas the kernel makes them members of the groups above their parent's.
pub fn limit_with_nested(filesystem: impl AsFd, subvolume: u64, bytes: u64) -> io::Result<()> {
    let fd = filesystem.as_fd();
    let group = group_above(subvolume);
    let args = CreateArgs { create: 1, group };
    // SAFETY: the opcode takes a `btrfs_ioctl_qgroup_create_args`, which the kernel only reads.
    match unsafe { ioctl(fd, Setter::<QGROUP_CREATE, _>::new(args)) } {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e.into()),
    }
    let args = AssignArgs { assign: 1, member: subvolume, group };
    // SAFETY: the opcode takes a `btrfs_ioctl_qgroup_assign_args`, which the kernel only reads.
    match unsafe { ioctl(fd, Setter::<QGROUP_ASSIGN, _>::new(args)) } {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e.into()),
    }
    set_limit(fd, group, bytes)
}

/// Usage of a subvolume; `None` if it has no quota group.
pub fn usage(filesystem: impl AsFd, subvolume: u64) -> io::Result<Option<Usage>> {
    Ok(qgroups_from(filesystem, subvolume, Some(subvolume))?.pop().map(|(_, usage)| usage))
}

/// The quota groups of all subvolumes by subvolume id, including those of deleted subvolumes.
pub fn qgroups(filesystem: impl AsFd) -> io::Result<Vec<(u64, Usage)>> {
    qgroups_from(filesystem, 0, None)
}

fn qgroups_from(filesystem: impl AsFd, from: u64, only: Option<u64>) -> io::Result<Vec<(u64, Usage)>> {
    let mut found = Vec::new();
    let to = only.unwrap_or((1 << LEVEL_SHIFT) - 1);
    let read = search::each_between(filesystem.as_fd(), QUOTA_TREE, 0, QGROUP_INFO, from..=to, |group, item| {
        let usage = Usage { referenced: search::disk_word(item, 1)?, exclusive: search::disk_word(item, 3)? };
        found.push((group, usage));
        Ok(())
    });
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
        Ok(()) => Ok(found),
    }
}

/// The subvolumes that [`limit_with_nested`] was called for.
pub fn groups_above(filesystem: impl AsFd) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let range = 1 << LEVEL_SHIFT..=(2 << LEVEL_SHIFT) - 1;
    let read = search::each_between(filesystem.as_fd(), QUOTA_TREE, 0, QGROUP_INFO, range, |group, _| {
        found.push(group & ((1 << LEVEL_SHIFT) - 1));
        Ok(())
    });
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
        Ok(()) => Ok(found),
    }
}

/// Removes the quota group of a deleted subvolume. Returns `false` if the kernel is still freeing the subvolume, or if
/// snapshots still reference its data. A missing group counts as removed.
pub fn remove_qgroup(filesystem: impl AsFd, subvolume: u64) -> io::Result<bool> {
    let args = CreateArgs { create: 0, group: subvolume };
    // SAFETY: the opcode takes a `btrfs_ioctl_qgroup_create_args`, which the kernel only reads.
    match unsafe { ioctl(filesystem, Setter::<QGROUP_CREATE, _>::new(args)) } {
        // Without quotas there are no groups either.
        Ok(()) | Err(Errno::NOENT | Errno::NOTCONN) => Ok(true),
        Err(Errno::BUSY) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_those_of_the_kernel() {
        assert_eq!(QUOTA_CTL, 0xc010_9428);
        assert_eq!(QGROUP_ASSIGN, 0x4018_9429);
        assert_eq!(QGROUP_CREATE, 0x4010_942a);
        assert_eq!(QGROUP_LIMIT, 0x8030_942b);
        assert_eq!(size_of::<Inherit>(), 72);
    }
}
