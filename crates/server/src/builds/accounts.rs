//! Users and groups of a root filesystem, for `COPY --chown`. The files are untrusted: they are opened below the root and
//! only read up to a limit.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use cabana_fs::beneath::{self, Resolve};
use cabana_image::dockerfile::Owner;
use rustix::fs::{Mode, OFlags};

/// Maximum number of bytes to read of each file.
const MOST: u64 = 1 << 20;

/// Opens a path inside a root filesystem as a process in it would: links are resolved with `root` as `/`.
pub(super) fn open_inside(root: impl AsFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // Do not block on a FIFO. openat2 rejects the flag together with `O_PATH`.
    let nonblock = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK };
    beneath::open(root, path.trim_start_matches('/'), flags | nonblock, Mode::empty(), Resolve::InRoot)
}

/// Whether a path inside a root filesystem is a directory.
pub(super) fn is_directory(root: impl AsFd, path: &str) -> bool {
    let path = path.trim_matches('/');
    path.is_empty() || open_inside(root, path, OFlags::PATH | OFlags::DIRECTORY).is_ok()
}

/// The ids of `user[:group]`, by name or number. Without a group it is the user's primary group.
pub(super) fn owner(root: impl AsFd, text: &str) -> Result<Owner, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let passwd = read(&root, "etc/passwd");
    let known = find(&passwd, user);
    let uid = match (known, number(user)) {
        (Some((uid, _)), _) | (None, Some(uid)) => uid,
        (None, None) if user.is_empty() || user == "root" => 0,
        (None, None) => return Err(format!("there is no user {user:?} in the image: create it in an earlier step")),
    };
    let gid = match group.filter(|group| !group.is_empty()) {
        // Like Docker: an id without a user is also used as the group id.
        None => known.map_or(uid, |(_, gid)| gid),
        Some(group) => match (find_group(&read(&root, "etc/group"), group), number(group)) {
            (Some(gid), _) | (None, Some(gid)) => gid,
            (None, None) if group == "root" => 0,
            (None, None) => {
                return Err(format!("there is no group {group:?} in the image: create it in an earlier step"));
            }
        },
    };
    Ok(Owner { uid, gid })
}

fn read(root: impl AsFd, path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = open_inside(root, path, OFlags::RDONLY)
        && let Ok(()) = std::fs::File::from(file).take(MOST).read_to_end(&mut bytes).map(drop)
    {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    String::new()
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| *n < 65_536)
}

/// User and group of a line of `passwd`, by name or number.
fn find(passwd: &str, user: &str) -> Option<(u32, u32)> {
    let of = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let (uid, gid) = (number(fields.nth(1)?)?, number(fields.next()?)?);
        Some((name == user || number(user) == Some(uid), uid, gid))
    };
    passwd.lines().filter_map(of).find(|(fits, ..)| *fits).map(|(_, uid, gid)| (uid, gid))
}

fn find_group(group: &str, name: &str) -> Option<u32> {
    group.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        number(fields.nth(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(
            root.path().join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nuser:x:1000:1001::/home/user:/bin/sh\nbad\n",
        )
        .unwrap();
        std::fs::write(root.path().join("etc/group"), "root:x:0:\nstaff:x:50:user\n").unwrap();
        let root = std::fs::File::open(root.path()).unwrap();
        let of = |text: &str| owner(&root, text).map(|owner| (owner.uid, owner.gid));
        assert_eq!(of("user"), Ok((1000, 1001)));
        assert_eq!(of("user:staff"), Ok((1000, 50)));
        assert_eq!(of("1000"), Ok((1000, 1001)));
        assert_eq!(of("7"), Ok((7, 7)));
        assert_eq!(of("7:8"), Ok((7, 8)));
        assert_eq!(of("root:root"), Ok((0, 0)));
        assert!(of("nobody").is_err() && of("user:nogroup").is_err() && of("70000").is_err());
    }

    #[test]
    fn links_stay_inside_the_root() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", root.path().join("up")).unwrap();
        std::os::unix::fs::symlink("../../../etc", root.path().join("etc")).unwrap();
        let open = std::fs::File::open(root.path()).unwrap();
        assert!(is_directory(&open, "/up") && !is_directory(&open, "/up/usr") && !is_directory(&open, "/etc"));
        assert!(owner(&open, "daemon").is_err(), "the host's users are not the image's");
    }
}
