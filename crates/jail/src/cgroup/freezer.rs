//! Freezes all processes of a sandbox: with version 2's `cgroup.freeze`, which a machine with version 1 limits may have
//! too, otherwise with version 1's freezer.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabana_types::SandboxId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Cgroups, at, field};
use crate::Error;

/// Timeout: a process in uninterruptible disk wait cannot be frozen until its I/O completes.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(5);
/// Polling interval on version 1, which has no notification.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

/// The freezer of one sandbox.
enum Freezer {
    /// Directory of version 2.
    V2(PathBuf),
    /// Directory of version 1's freezer.
    V1(PathBuf),
}

impl Cgroups {
    fn freezer(&self, id: &SandboxId) -> Result<Freezer, Error> {
        let home = |name: &str| self.homes.iter().find(|(c, _)| c == name).map(|(_, home)| home.join(id.as_str()));
        home("").map(Freezer::V2).or_else(|| home("freezer").map(Freezer::V1)).ok_or_else(|| {
            Error::Unsupported(
                "sandboxes cannot be paused with their memory: mount cgroup version 2, or version 1's freezer".into(),
            )
        })
    }

    /// Whether sandboxes can be frozen at all.
    pub fn can_freeze(&self) -> bool {
        self.homes.iter().any(|(c, _)| c.is_empty() || c == "freezer")
    }

    /// Freezes all processes of a sandbox, and returns when they are frozen. Blocks.
    pub fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        let deadline = Instant::now() + FREEZE_TIMEOUT;
        match self.freezer(id)? {
            Freezer::V2(dir) => {
                put(&dir.join("cgroup.freeze"), "1")?;
                await_frozen(&dir.join("cgroup.events"), deadline)
            }
            Freezer::V1(dir) => {
                let path = dir.join("freezer.state");
                put(&path, "FROZEN")?;
                while fs::read_to_string(&path).map_err(at("read", &path))?.trim() != "FROZEN" {
                    if Instant::now() > deadline {
                        return Err(at("freeze", &dir)(ErrorKind::TimedOut.into()));
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
                Ok(())
            }
        }
    }

    /// Thaws the processes of a sandbox. Idempotent.
    pub fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        match self.freezer(id)? {
            Freezer::V2(dir) => put(&dir.join("cgroup.freeze"), "0"),
            Freezer::V1(dir) => put(&dir.join("freezer.state"), "THAWED"),
        }
    }

    /// Whether all processes of a sandbox are frozen.
    pub fn is_frozen(&self, id: &SandboxId) -> bool {
        match self.freezer(id) {
            Ok(Freezer::V2(dir)) => {
                field(&fs::read_to_string(dir.join("cgroup.events")).unwrap_or_default(), "frozen") == 1
            }
            Ok(Freezer::V1(dir)) => fs::read_to_string(dir.join("freezer.state")).is_ok_and(|t| t.trim() == "FROZEN"),
            Err(_) => false,
        }
    }

    /// Asks the kernel to free or swap out memory of a frozen sandbox. Best effort.
    pub fn reclaim(&self, id: &SandboxId) {
        let Some(dir) = self.dir(id, "memory") else { return };
        if self.unified {
            let current = fs::read_to_string(dir.join("memory.current")).unwrap_or_default();
            let _ = fs::write(dir.join("memory.reclaim"), current.trim());
        } else {
            let _ = fs::write(dir.join("memory.force_empty"), "0");
        }
    }
}

fn put(path: &Path, value: &str) -> Result<(), Error> {
    fs::write(path, value).map_err(at("write", path))
}

/// Waits for the kernel's notification (`POLLPRI`) on the file.
fn await_frozen(path: &Path, deadline: Instant) -> Result<(), Error> {
    use std::io::{Read, Seek};
    let mut file = fs::File::open(path).map_err(at("open", path))?;
    loop {
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(at("read", path))?;
        if field(&text, "frozen") == 1 {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(at("wait for", path)(ErrorKind::TimedOut.into()));
        }
        let timeout = Timespec::try_from(left).map_err(|_| at("wait for", path)(ErrorKind::InvalidInput.into()))?;
        match poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(at("wait for", path)(io::Error::from(error))),
        }
    }
}
