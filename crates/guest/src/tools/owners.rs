//! Looks at processes as their users: the daemon may not look at memory and open files of other users' processes as root, but as
//! these users.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::identity::Identity;

/// Users whose processes are looked at.
const MAX_OWNERS: usize = 64;

/// What `look` finds, which is called with the processes of one user at a time. Without permission to act as one, theirs are left out.
pub(crate) fn look<T: Send>(pids: impl Iterator<Item = u32>, look: impl Fn(&[u32]) -> Vec<T> + Sync) -> Vec<T> {
    let mut by_owner: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for pid in pids {
        if let Ok(found) = std::fs::metadata(format!("/proc/{pid}")) {
            by_owner.entry((found.uid(), found.gid())).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    for ((uid, gid), pids) in by_owner.into_iter().take(MAX_OWNERS) {
        let look = || look(&pids);
        found.extend(if uid == 0 { look() } else { Identity::plain(uid, gid).run_and_wait(look).unwrap_or_default() });
    }
    found
}
