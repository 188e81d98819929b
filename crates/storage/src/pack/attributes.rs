//! Extended attributes that belong to a sandbox's files: those of its users and of the overlay (`user.`), capabilities and access lists.
//! Others belong to the machine (labels, filesystem properties) and are not packed.

use std::os::fd::{AsFd, AsRawFd};

use cabana_archive::Xattr;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr, setxattr};
use rustix::io::Errno;

use super::refused;
use crate::Error;

/// The access list that new files in a directory get.
pub(super) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// Prefix of the overlay's own attributes. Those that a sandbox's users gave such a name have it twice.
const OVERLAY: &[u8] = b"user.overlay.";
/// The kernel's own limits.
const LONGEST_NAME: usize = 255;
const MOST_NAMES: usize = 64 << 10;
/// Enough for almost every file.
const FEW_NAMES: usize = 1 << 10;
pub(super) const LONGEST_VALUE: usize = 64 << 10;

/// The attributes of a file, without those that the overlay uses itself.
pub(super) struct Overlay {
    pub(super) attributes: Vec<Xattr>,
    /// The directory hides everything that the template has in it.
    pub(super) opaque: bool,
}

impl Overlay {
    pub(super) fn split(attributes: Vec<Xattr>, path: &[u8]) -> Result<Self, Error> {
        let (mut own, mut opaque) = (Vec::new(), false);
        for (name, value) in attributes {
            match name.strip_prefix(OVERLAY) {
                None => own.push((name, value)),
                Some(rest) if rest.starts_with(b"overlay.") => own.push((name, value)),
                Some(b"opaque") => opaque |= value == b"y",
                // The content is elsewhere, under another name. Our overlays are mounted without these features.
                Some(b"redirect" | b"metacopy") => return Err(refused(path, "its contents are not on this disk")),
                Some(_) => {}
            }
        }
        Ok(Self { attributes: own, opaque })
    }
}

/// Whether an attribute of this name is packed.
pub(super) fn is_packed(name: &[u8]) -> bool {
    let known: [&[u8]; 3] = [b"security.capability", b"system.posix_acl_access", DEFAULT_LIST];
    let user = name.strip_prefix(b"user.").is_some_and(|rest| !rest.is_empty());
    (user || known.contains(&name)) && name.len() <= LONGEST_NAME && !name.contains(&0)
}

/// The attributes of a file that is opened for reading.
pub(super) fn read(file: impl AsFd) -> rustix::io::Result<Vec<Xattr>> {
    collect(|list| flistxattr(&file, list), |name, value| fgetxattr(&file, name, value))
}

/// The attributes of a file that cannot be opened for reading without effect (`O_PATH`).
pub(super) fn read_closed(file: impl AsFd) -> rustix::io::Result<Vec<Xattr>> {
    let path = magic(file);
    collect(|list| listxattr(path.as_str(), list), |name, value| getxattr(path.as_str(), name, value))
}

pub(super) fn write(file: impl AsFd, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
    fsetxattr(file, name, value, XattrFlags::CREATE)
}

/// Sets an attribute of a file that is opened with `O_PATH`.
pub(super) fn write_closed(file: impl AsFd, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
    setxattr(magic(file).as_str(), name, value, XattrFlags::CREATE)
}

/// Removes all attributes that are packed.
pub(super) fn clear(file: impl AsFd) -> rustix::io::Result<()> {
    let mut space = Vec::new();
    let names = names(|list| flistxattr(&file, list), &mut space)?;
    names.split(|b| *b == 0).filter(|name| is_packed(name)).try_for_each(|name| fremovexattr(&file, name))
}

/// A path to exactly what a descriptor refers to.
fn magic(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn collect(
    list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<Xattr>> {
    let mut space = Vec::new();
    let names = names(list, &mut space)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut value = vec![0; LONGEST_VALUE];
    for name in names.split(|b| *b == 0).filter(|name| is_packed(name)) {
        let length = get(name, &mut value)?;
        found.push((name.to_vec(), value[..length].to_vec()));
    }
    // The order in which filesystems list them is not part of a file.
    found.sort();
    Ok(found)
}

/// The names of all attributes, each ending with a zero.
fn names(list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>, space: &mut Vec<u8>) -> rustix::io::Result<&[u8]> {
    space.resize(FEW_NAMES, 0);
    let length = match list(space) {
        Err(Errno::NOTSUP) => 0,
        Err(Errno::RANGE) => {
            space.resize(MOST_NAMES, 0);
            list(space)?
        }
        listed => listed?,
    };
    Ok(&space[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_overlay_says_is_no_part_of_a_file() {
        let named = |names: &[(&str, &str)]| -> Vec<Xattr> {
            names.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
        };
        let found = [("user.overlay.origin", "?"), ("user.overlay.overlay.opaque", "y"), ("user.tag", "1")];
        let split = Overlay::split(named(&found), b"d").expect("fine");
        assert_eq!((split.attributes, split.opaque), (named(&found[1..]), false));
        for (value, opaque) in [("y", true), ("x", false)] {
            assert_eq!(Overlay::split(named(&[("user.overlay.opaque", value)]), b"d").expect("fine").opaque, opaque);
        }
        for name in ["user.overlay.redirect", "user.overlay.metacopy"] {
            assert!(Overlay::split(named(&[(name, "")]), b"d").is_err(), "{name}");
        }
    }

    #[test]
    fn the_machines_own_stay() {
        for name in ["user.a", "user.overlay.opaque", "user.e2b.k", "security.capability", "system.posix_acl_access"] {
            assert!(is_packed(name.as_bytes()), "{name}");
        }
        for name in ["user.", "trusted.overlay.opaque", "security.selinux", "security.ima", "btrfs.compression", ""] {
            assert!(!is_packed(name.as_bytes()), "{name}");
        }
    }
}
