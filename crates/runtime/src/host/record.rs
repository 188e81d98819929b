//! Records: what a restarted server must know of a running sandbox beyond the store, its slot and its first process. They are in the run
//! directory, which a reboot empties as it ends the sandboxes.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cabana_guest_link::GuestLink;
use cabana_jail::process::ProcessName;
use cabana_types::SandboxId;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The record of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its network slot.
    pub slot: u32,
    /// Its first process, once it is started.
    pub process: Option<ProcessName>,
    /// The sockets of its guest.
    #[serde(default)]
    pub sockets: Sockets,
}

/// The sockets of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sockets {
    /// One for control and traffic: the record of an earlier version, which had no such field.
    #[default]
    Shared,
    /// One for control, one for traffic.
    Split,
}

/// All records.
pub(super) struct Records {
    dir: PathBuf,
}

impl Records {
    /// Opens the directory. Temporary files of a server that died while it wrote a record are removed: nothing else would.
    pub(super) fn open(run_dir: &Path) -> Result<Self, Error> {
        let dir = run_dir.join("sandboxes");
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::Path { action: "create", path: dir, source });
            }
            _ => {}
        }
        let records = Self { dir };
        for id in records.named(".new")? {
            remove_file(records.draft(&id))?;
        }
        Ok(records)
    }

    /// The guest's socket for traffic, which earlier versions used for everything.
    pub(super) fn traffic_socket(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.sock"))
    }

    /// The guest's control socket.
    pub(super) fn control_socket(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.control.sock"))
    }

    /// How a guest is reached.
    pub(super) fn link(&self, id: &SandboxId, sockets: Sockets, address: Ipv4Addr) -> GuestLink {
        let traffic = self.traffic_socket(id);
        match sockets {
            Sockets::Shared => GuestLink::UnixShared { socket: traffic, address },
            Sockets::Split => GuestLink::Unix { control: self.control_socket(id), traffic, address },
        }
    }

    fn file(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn draft(&self, id: &SandboxId) -> PathBuf {
        cabana_fs::atomic::draft(&self.file(id))
    }

    /// Writes a record atomically. Not synced: it need not survive a reboot.
    pub(super) fn write(&self, id: &SandboxId, record: Record) -> Result<(), Error> {
        let path = self.file(id);
        let bytes = serde_json::to_vec(&record).map_err(std::io::Error::from);
        let written = bytes.and_then(|bytes| cabana_fs::atomic::write_volatile(&path, &bytes, 0o600));
        written.map_err(|source| Error::Path { action: "write", path, source })
    }

    /// Reads a record, if there is one.
    pub(super) fn read(&self, id: &SandboxId) -> Result<Option<Record>, Error> {
        let path = self.file(id);
        match fs::read(&path).and_then(|bytes| serde_json::from_slice(&bytes).map_err(std::io::Error::from)) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Path { action: "read", path, source }),
        }
    }

    /// Removes everything of a sandbox.
    pub(super) fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        [self.traffic_socket(id), self.control_socket(id), self.draft(id), self.file(id)]
            .into_iter()
            .try_for_each(remove_file)
    }

    /// All records.
    pub(super) fn list(&self) -> Result<Vec<(SandboxId, Record)>, Error> {
        let mut all = Vec::new();
        for id in self.named(".json")? {
            if let Some(record) = self.read(&id)? {
                all.push((id, record));
            }
        }
        Ok(all)
    }

    /// The sandboxes that have a file with this ending.
    fn named(&self, ending: &str) -> Result<Vec<SandboxId>, Error> {
        let failed = |source| Error::Path { action: "list", path: self.dir.clone(), source };
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(ending)).and_then(|id| id.parse().ok()));
        }
        Ok(ids)
    }

    /// Removes the directory, if nothing is in it.
    pub(super) fn close(&self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes a file, if it is there.
fn remove_file(path: PathBuf) -> Result<(), Error> {
    match fs::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Path { action: "remove", path, source }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_until_removed() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path()).unwrap();
        let id = SandboxId::from_random([7; 20]);
        assert_eq!(records.read(&id).unwrap(), None);
        let record = Record { slot: 9, process: Some(ProcessName { pid: 4, started: 2 }), sockets: Sockets::Split };
        records.write(&id, Record { process: None, ..record }).unwrap();
        records.write(&id, record).unwrap();
        assert_eq!(Records::open(dir.path()).unwrap().list().unwrap(), [(id.clone(), record)]);
        records.remove(&id).unwrap();
        records.remove(&id).unwrap();
        assert!(records.list().unwrap().is_empty());
    }

    #[test]
    fn records_of_an_earlier_version_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path()).unwrap();
        let id = SandboxId::from_random([7; 20]);
        fs::write(records.file(&id), r#"{"slot":9,"process":{"pid":4,"started":2}}"#).unwrap();
        let record = records.read(&id).unwrap().unwrap();
        assert_eq!((record.slot, record.sockets), (9, Sockets::Shared));
        let socket = records.traffic_socket(&id);
        let link = records.link(&id, record.sockets, Ipv4Addr::LOCALHOST);
        assert_eq!(link, GuestLink::UnixShared { socket, address: Ipv4Addr::LOCALHOST });
    }

    #[test]
    fn what_was_half_written_goes_with_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path()).unwrap();
        let (kept, unborn) = (SandboxId::from_random([7; 20]), SandboxId::from_random([8; 20]));
        let record = Record { slot: 9, process: None, sockets: Sockets::Split };
        records.write(&kept, record).unwrap();
        fs::write(records.draft(&kept), r#"{"slot":9,"pro"#).unwrap();
        fs::write(records.draft(&unborn), "").unwrap();
        let reopened = Records::open(dir.path()).unwrap();
        assert_eq!(reopened.list().unwrap(), [(kept.clone(), record)]);
        assert!(!records.draft(&kept).exists() && !records.draft(&unborn).exists());
        reopened.remove(&kept).unwrap();
        reopened.close();
        assert!(!reopened.dir.exists(), "nothing was left in it");
    }
}
