//! Searches of the filesystem's metadata trees.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Updater, ioctl, opcode};

/// `struct btrfs_ioctl_search_args` with its key inlined.
#[repr(C)]
struct SearchArgs {
    tree: u64,
    min_object: u64,
    max_object: u64,
    min_offset: u64,
    max_offset: u64,
    min_transaction: u64,
    max_transaction: u64,
    min_type: u32,
    max_type: u32,
    items: u32,
    unused: u32,
    unused_more: [u64; 4],
    buffer: [u8; 3992],
}

const TREE_SEARCH: u32 = opcode::read_write::<SearchArgs>(super::MAGIC, 17);
const HEADER: usize = 32;
const _: () = assert!(size_of::<SearchArgs>() == 4096);

/// Calls `visit(offset, content)` for every item of one object and type. `NotFound` if the tree does not exist.
pub(super) fn each(
    filesystem: BorrowedFd<'_>,
    tree: u64,
    object: u64,
    kind: u32,
    visit: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    each_between(filesystem, tree, object, kind, 0..=u64::MAX, visit)
}

/// The same for a range of offsets.
pub(super) fn each_between(
    filesystem: BorrowedFd<'_>,
    tree: u64,
    object: u64,
    kind: u32,
    offsets: RangeInclusive<u64>,
    mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut from, to) = offsets.into_inner();
    while from <= to {
        let mut args = SearchArgs {
            tree,
            min_object: object,
            max_object: object,
            min_offset: from,
            max_offset: to,
            min_transaction: 0,
            max_transaction: u64::MAX,
            min_type: kind,
            max_type: kind,
            items: 4096,
            unused: 0,
            unused_more: [0; 4],
            buffer: [0; 3992],
        };
        // SAFETY: the opcode reads and writes a `btrfs_ioctl_search_args`.
        unsafe { ioctl(filesystem, Updater::<TREE_SEARCH, _>::new(&mut args)) }?;
        if args.items == 0 {
            return Ok(());
        }
        let mut rest = &args.buffer[..];
        for _ in 0..args.items {
            let (header, after) = rest.split_at_checked(HEADER).ok_or(io::ErrorKind::InvalidData)?;
            let length = u32::from_ne_bytes([header[28], header[29], header[30], header[31]]);
            let (content, after) = after.split_at_checked(length as usize).ok_or(io::ErrorKind::InvalidData)?;
            rest = after;
            from = word(&header[16..])?;
            visit(from, content)?;
        }
        match from.checked_add(1) {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// The first eight bytes as a number in native byte order, as in search headers.
fn word(bytes: &[u8]) -> io::Result<u64> {
    bytes.first_chunk().map(|b| u64::from_ne_bytes(*b)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The n-th eight bytes as a number in on-disk byte order.
pub(super) fn disk_word(item: &[u8], n: usize) -> io::Result<u64> {
    let bytes = item.get(n * 8..).and_then(<[u8]>::first_chunk);
    bytes.map(|b| u64::from_le_bytes(*b)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
