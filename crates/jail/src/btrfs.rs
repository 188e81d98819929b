//! btrfs ioctls: subvolumes, snapshots and disk limits. Descriptors must be open for reading (`O_PATH` does not support
//! ioctls), and names must be single path components.

mod quota;
mod search;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Getter, NoArg, Setter, Updater, ioctl, opcode};

pub use quota::{
    QuotaState, Usage, enable_quota, group_above, groups_above, limit_with_nested, qgroups, quota_state, remove_qgroup,
    set_limit, usage,
};

const MAGIC: u8 = 0x94;
/// The inode number of every subvolume's top directory.
const FIRST_FREE_OBJECTID: u64 = 256;
const ROOT_TREE: u64 = 1;
const ROOT_ITEM: u32 = 132;
const ROOT_REF: u32 = 156;

const FLAG_READ_ONLY: u64 = 1 << 1;
const FLAG_QGROUP_INHERIT: u64 = 1 << 2;
const FLAG_SPEC_BY_ID: u64 = 1 << 4;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArgs {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`, with the first of the unions as fields.
#[repr(C)]
struct VolumeArgsV2 {
    fd: i64,
    transaction: u64,
    flags: u64,
    inherit_size: u64,
    inherit: *const quota::Inherit,
    unused: [u64; 2],
    /// The name, or for [`FLAG_SPEC_BY_ID`] the id of the subvolume in the first eight bytes.
    name: [u8; 4040],
}

/// `struct btrfs_ioctl_ino_lookup_args`.
#[repr(C)]
struct InodeLookupArgs {
    tree: u64,
    object: u64,
    name: [u8; 4080],
}

const SYNC: u32 = opcode::none(MAGIC, 8);
const SNAP_DESTROY: u32 = opcode::write::<VolumeArgs>(MAGIC, 15);
const INO_LOOKUP: u32 = opcode::read_write::<InodeLookupArgs>(MAGIC, 18);
const SNAP_CREATE_V2: u32 = opcode::write::<VolumeArgsV2>(MAGIC, 23);
const START_SYNC: u32 = opcode::read::<u64>(MAGIC, 24);
const SUBVOL_CREATE_V2: u32 = opcode::write::<VolumeArgsV2>(MAGIC, 24);
const SUBVOL_GETFLAGS: u32 = opcode::read::<u64>(MAGIC, 25);
const SUBVOL_SETFLAGS: u32 = opcode::write::<u64>(MAGIC, 26);
const SNAP_DESTROY_V2: u32 = opcode::write::<VolumeArgsV2>(MAGIC, 63);

const _: () = assert!(size_of::<VolumeArgs>() == 4096 && size_of::<VolumeArgsV2>() == 4096);

impl VolumeArgsV2 {
    fn named(name: &str) -> io::Result<Self> {
        Ok(Self {
            fd: 0,
            transaction: 0,
            flags: 0,
            inherit_size: 0,
            inherit: std::ptr::null(),
            unused: [0; 2],
            name: component(name)?,
        })
    }
}

/// Converts a name to the kernel's format. Only a single path component is accepted, because the kernel would interpret
/// anything else as a path.
fn component<const N: usize>(name: &str) -> io::Result<[u8; N]> {
    let bytes = name.as_bytes();
    let plain = !bytes.is_empty() && bytes.len() <= 255 && !bytes.iter().any(|b| *b == b'/' || *b == 0);
    if !plain || name == "." || name == ".." {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a single path component"));
    }
    let mut field = [0; N];
    field[..bytes.len()].copy_from_slice(bytes);
    Ok(field)
}

/// Whether the descriptor (of any kind) is on a btrfs filesystem.
pub fn is_btrfs(fd: impl AsFd) -> io::Result<bool> {
    const BTRFS_SUPER_MAGIC: i64 = 0x9123_683e;
    Ok(rustix::fs::fstatfs(fd)?.f_type == BTRFS_SUPER_MAGIC)
}

/// Creates an empty subvolume, optionally with a limit on its referenced bytes, which is set atomically. The limit
/// needs quotas to be enabled.
pub fn create_subvolume(parent: impl AsFd, name: &str, limit: Option<u64>) -> io::Result<()> {
    let mut args = VolumeArgsV2::named(name)?;
    let inherit = limit.map(quota::Inherit::limited);
    if let Some(inherit) = &inherit {
        args.flags = FLAG_QGROUP_INHERIT;
        args.inherit_size = size_of::<quota::Inherit>() as u64;
        args.inherit = inherit;
    }
    // SAFETY: the opcode takes a `btrfs_ioctl_vol_args_v2`, which the kernel only reads; `inherit` outlives the call,
    // has the size given in `inherit_size`, and is null if the flag that makes the kernel read it is not set.
    unsafe { ioctl(parent, Setter::<SUBVOL_CREATE_V2, _>::new(args)) }?;
    Ok(())
}

/// Creates a snapshot of the subvolume whose top directory is `source`.
pub fn snapshot(source: impl AsFd, parent: impl AsFd, name: &str, read_only: bool) -> io::Result<()> {
    let mut args = VolumeArgsV2::named(name)?;
    args.fd = i64::from(source.as_fd().as_raw_fd());
    args.flags = if read_only { FLAG_READ_ONLY } else { 0 };
    // SAFETY: the opcode takes a `btrfs_ioctl_vol_args_v2`, which the kernel only reads; no flag makes it read
    // `inherit`; the descriptor in it is borrowed for the whole call.
    unsafe { ioctl(parent, Setter::<SNAP_CREATE_V2, _>::new(args)) }?;
    Ok(())
}

/// Makes a subvolume read-only.
pub fn set_readonly(subvolume: impl AsFd) -> io::Result<()> {
    let fd = subvolume.as_fd();
    // SAFETY: the opcode writes one u64.
    let flags = unsafe { ioctl(fd, Getter::<SUBVOL_GETFLAGS, u64>::new()) }?;
    // SAFETY: the opcode reads one u64.
    unsafe { ioctl(fd, Setter::<SUBVOL_SETFLAGS, u64>::new(flags | FLAG_READ_ONLY)) }?;
    Ok(())
}

/// The id of the subvolume that contains the directory.
pub fn subvolume_id(directory: impl AsFd) -> io::Result<u64> {
    let mut args = InodeLookupArgs { tree: 0, object: FIRST_FREE_OBJECTID, name: [0; 4080] };
    // SAFETY: the opcode reads and writes a `btrfs_ioctl_ino_lookup_args`.
    unsafe { ioctl(directory, Updater::<INO_LOOKUP, _>::new(&mut args)) }?;
    Ok(args.tree)
}

/// Deletes a subvolume and those nested in it. The directory is gone at once; the kernel frees the space in the
/// background. Works for subvolumes that are read-only or in use.
pub fn delete_subvolume(parent: impl AsFd, name: &str) -> io::Result<()> {
    let parent = parent.as_fd();
    match destroy(parent, name) {
        Err(e) if e.raw_os_error() == Some(Errno::NOTEMPTY.raw_os_error()) => {}
        done => return done,
    }
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let subvolume = openat(parent, name, flags, Mode::empty())?;
    delete_nested(parent, subvolume_id(&subvolume)?)?;
    drop(subvolume);
    destroy(parent, name)
}

fn destroy(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let args = VolumeArgs { fd: 0, name: component(name)? };
    // SAFETY: the opcode takes a `btrfs_ioctl_vol_args`, which the kernel only reads.
    unsafe { ioctl(parent, Setter::<SNAP_DESTROY, _>::new(args)) }?;
    Ok(())
}

fn destroy_by_id(filesystem: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let mut name = [0; 4040];
    name[..8].copy_from_slice(&id.to_ne_bytes());
    let args = VolumeArgsV2 {
        fd: 0,
        transaction: 0,
        flags: FLAG_SPEC_BY_ID,
        inherit_size: 0,
        inherit: std::ptr::null(),
        unused: [0; 2],
        name,
    };
    // SAFETY: the opcode takes a `btrfs_ioctl_vol_args_v2`, which the kernel only reads; with this flag it reads an id
    // in place of the name, and no pointer.
    unsafe { ioctl(filesystem, Setter::<SNAP_DESTROY_V2, _>::new(args)) }?;
    Ok(())
}

/// Deletes the subvolumes nested in `top`, deepest first, by id: nothing inside is opened by name.
fn delete_nested(filesystem: BorrowedFd<'_>, top: u64) -> io::Result<()> {
    let mut found = vec![top];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        search::each(filesystem, ROOT_TREE, parent, ROOT_REF, |child, _| {
            found.push(child);
            Ok(())
        })?;
        next += 1;
    }
    for id in found.into_iter().skip(1).rev() {
        destroy_by_id(filesystem, id)?;
    }
    Ok(())
}

/// Writes everything to disk, which also makes the kernel start freeing deleted subvolumes.
pub fn sync(filesystem: impl AsFd) -> io::Result<()> {
    // SAFETY: the opcode takes no argument.
    unsafe { ioctl(filesystem, NoArg::<SYNC>::new()) }?;
    Ok(())
}

/// Starts a transaction commit without waiting and without writing file data. It makes the kernel free deleted
/// subvolumes now; otherwise it does so about 30 seconds later.
pub fn start_commit(filesystem: impl AsFd) -> io::Result<()> {
    // SAFETY: the opcode writes the transaction id, a `u64`, into the getter's own buffer.
    unsafe { ioctl(filesystem, Getter::<START_SYNC, u64>::new()) }?;
    Ok(())
}

/// Whether a subvolume exists, or is deleted but not yet freed.
pub fn subvolume_exists(filesystem: impl AsFd, id: u64) -> io::Result<bool> {
    let mut found = false;
    search::each(filesystem.as_fd(), ROOT_TREE, id, ROOT_ITEM, |_, _| {
        found = true;
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_components_are_names() {
        for bad in ["", ".", "..", "a/b", "/", "a\0b", &"x".repeat(256)] {
            assert!(component::<4040>(bad).is_err(), "{bad:?}");
        }
        let name = component::<4088>("sandbox-1").expect("a good name");
        assert_eq!(&name[..10], b"sandbox-1\0");
    }

    #[test]
    fn opcodes_are_those_of_the_kernel() {
        // As printed by a C program that includes <linux/btrfs.h>.
        assert_eq!(SYNC, 0x9408);
        assert_eq!(SNAP_DESTROY, 0x5000_940f);
        assert_eq!(INO_LOOKUP, 0xd000_9412);
        assert_eq!(SNAP_CREATE_V2, 0x5000_9417);
        assert_eq!(SUBVOL_CREATE_V2, 0x5000_9418);
        assert_eq!(SUBVOL_GETFLAGS, 0x8008_9419);
        assert_eq!(SUBVOL_SETFLAGS, 0x4008_941a);
        assert_eq!(SNAP_DESTROY_V2, 0x5000_943f);
    }
}
