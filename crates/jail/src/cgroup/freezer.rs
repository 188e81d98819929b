//! Making all processes of a sandbox stand still: by version 2's `cgroup.freeze`, which a machine with version 1 limits may have beside
//! them, else by version 1's freezer.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabana_types::SandboxId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Cgroups, at, field};
use crate::Error;

/// A process that waits for a disk cannot be frozen before it has its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often version 1, which gives no signal, is asked.
const ASK_AGAIN: Duration = Duration::from_micros(500);

/// The switch of one sandbox.
enum Switch {
    /// The directory of version 2.
    Modern(PathBuf),
    /// The directory of version 1's freezer.
    Old(PathBuf),
}

impl Cgroups {
    fn switch(&self, id: &SandboxId) -> Result<Switch, Error> {
        let home = |name: &str| self.homes.iter().find(|(c, _)| c == name).map(|(_, home)| home.join(id.as_str()));
        home("").map(Switch::Modern).or_else(|| home("freezer").map(Switch::Old)).ok_or_else(|| {
            Error::Unsupported(
                "sandboxes cannot be paused with their memory: mount cgroup version 2, or version 1's freezer".into(),
            )
        })
    }

    /// Whether sandboxes can be frozen at all.
    pub fn can_freeze(&self) -> bool {
        self.homes.iter().any(|(c, _)| c.is_empty() || c == "freezer")
    }

    /// Makes every process of a sandbox stand still, and returns when they do. Blocks.
    pub fn freeze(&self, id: &SandboxId) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        match self.switch(id)? {
            Switch::Modern(dir) => {
                put(&dir.join("cgroup.freeze"), "1")?;
                await_frozen(&dir.join("cgroup.events"), deadline)
            }
            Switch::Old(dir) => {
                let path = dir.join("freezer.state");
                put(&path, "FROZEN")?;
                while fs::read_to_string(&path).map_err(at("read", &path))?.trim() != "FROZEN" {
                    if Instant::now() > deadline {
                        return Err(at("freeze", &dir)(ErrorKind::TimedOut.into()));
                    }
                    std::thread::sleep(ASK_AGAIN);
                }
                Ok(())
            }
        }
    }

    /// Lets the processes of a sandbox go on; those that were not frozen just do.
    pub fn thaw(&self, id: &SandboxId) -> Result<(), Error> {
        match self.switch(id)? {
            Switch::Modern(dir) => put(&dir.join("cgroup.freeze"), "0"),
            Switch::Old(dir) => put(&dir.join("freezer.state"), "THAWED"),
        }
    }

    /// Whether every process of a sandbox stands still.
    pub fn is_frozen(&self, id: &SandboxId) -> bool {
        match self.switch(id) {
            Ok(Switch::Modern(dir)) => {
                field(&fs::read_to_string(dir.join("cgroup.events")).unwrap_or_default(), "frozen") == 1
            }
            Ok(Switch::Old(dir)) => fs::read_to_string(dir.join("freezer.state")).is_ok_and(|t| t.trim() == "FROZEN"),
            Err(_) => false,
        }
    }

    /// Asks the kernel to free or swap out what it can of a frozen sandbox's memory. Best effort: what it can do depends on the machine.
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

/// The kernel raises an exceptional condition on the file whenever it changes.
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
