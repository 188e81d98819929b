//! Threads that act on files with the permissions of an account. Linux keeps the filesystem user, the groups and the capabilities of a
//! process per thread; a thread that is started by such a thread has the same ones.

use std::io;
use std::thread;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::users::{self, Account};

const STACK: usize = 1 << 20;

/// Whom a thread acts for.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    groups: Vec<u32>,
}

impl Identity {
    pub(crate) fn of(account: &Account) -> Self {
        Self { uid: account.uid, gid: account.gid, groups: users::groups_of(account) }
    }

    /// A user with one group.
    pub(crate) fn plain(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: vec![gid] }
    }

    /// Runs `work` on a thread of its own, which ends with it: no other work is ever done with these permissions, also after a panic.
    /// `done` gets the result, or the error that kept the thread from taking them.
    pub(crate) fn run<T, W, D>(self, work: W, done: D) -> io::Result<()>
    where
        W: FnOnce() -> T + Send + 'static,
        D: FnOnce(io::Result<T>) + Send + 'static,
        T: 'static,
    {
        let body = move || done(self.assume().map(|()| work()));
        thread::Builder::new().name("tool".to_owned()).stack_size(STACK).spawn(body).map(drop)
    }

    /// The same, and waits for it.
    pub(crate) fn run_and_wait<T: Send>(self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let body = move || self.assume().map(|()| work());
            let thread = thread::Builder::new().name("tool".to_owned()).stack_size(STACK).spawn_scoped(scope, body)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the operation panicked")))
        })
    }

    /// Takes the permissions, for the rest of this thread's life.
    fn assume(&self) -> io::Result<()> {
        // SAFETY: a system call without arguments.
        let own = unsafe { libc::geteuid() };
        if own != 0 {
            // An ordinary process, as in development, can act as itself only.
            return if own == self.uid { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) };
        }
        // SAFETY: system calls with valid arguments. They are raw because libc's wrappers would change all threads; the kernel changes
        // the calling one. `setfsuid` and `setfsgid` return the previous id and no error: the second call asks what has become of it.
        unsafe {
            if libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) == -1 {
                return Err(io::Error::last_os_error());
            }
            for (call, id) in [(libc::SYS_setfsgid, self.gid), (libc::SYS_setfsuid, self.uid)] {
                libc::syscall(call, id);
                if libc::syscall(call, u32::MAX) != i64::from(id) {
                    return Err(io::Error::from_raw_os_error(libc::EPERM));
                }
            }
        }
        if self.uid != 0 {
            // The kernel has dropped those that concern files; others lead to files of other processes.
            let sets = capabilities(None)?;
            set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..sets })?;
        }
        Ok(())
    }
}

/// Changes the owner of an open file with the capability of the daemon, as the account could not. Only for files that this thread has
/// just made.
pub(crate) fn give_to(file: &std::fs::File, uid: u32, gid: u32) -> io::Result<()> {
    let sets = capabilities(None)?;
    let chown = CapabilitySet::CHOWN.intersection(sets.permitted);
    set_capabilities(None, CapabilitySets { effective: sets.effective.union(chown), ..sets })?;
    let given = std::os::unix::fs::fchown(file, Some(uid), Some(gid));
    set_capabilities(None, sets)?;
    given
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn status_line(name: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|l| l.starts_with(name)).unwrap().to_owned()
    }

    #[test]
    fn a_thread_has_the_permissions_and_passes_them_on() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "x").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o640)).unwrap();
        let before = (status_line("Uid"), status_line("CapEff"), status_line("Groups"));
        let read = |identity: Identity| identity.run_and_wait(|| std::fs::read(&secret).is_ok()).unwrap();
        assert!(read(Identity::plain(0, 0)));
        assert!(!read(Identity::plain(65534, 65534)));
        assert!(read(Identity { uid: 65534, gid: 65534, groups: vec![65534, 0] }), "through a group");
        let (caps, inner) = Identity::plain(65534, 65534)
            .run_and_wait(|| {
                (status_line("CapEff"), std::thread::scope(|s| s.spawn(|| std::fs::read(&secret).is_ok()).join()))
            })
            .unwrap();
        assert_eq!(caps.split_ascii_whitespace().last().unwrap().trim_start_matches('0'), "");
        assert!(!inner.unwrap(), "a thread of the thread");
        assert_eq!(before, (status_line("Uid"), status_line("CapEff"), status_line("Groups")), "others are as before");
    }

    #[test]
    fn a_file_can_be_given_away_and_nothing_else() {
        use std::os::unix::fs::MetadataExt as _;
        let file = tempfile::tempfile().unwrap();
        let uid = Identity::plain(65534, 65534)
            .run_and_wait(|| {
                assert!(std::os::unix::fs::fchown(&file, Some(1), None).is_err());
                give_to(&file, 7, 8).unwrap();
                assert!(std::os::unix::fs::fchown(&file, Some(1), None).is_err());
                file.metadata().unwrap().uid()
            })
            .unwrap();
        assert_eq!(uid, 7);
    }
}
