//! What a restarted server must know of a running sandbox beyond the store: its slot and its first process. Kept in the run directory, which a
//! reboot empties, as it ends the sandboxes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cabana_jail::process::ProcessName;
use cabana_types::SandboxId;
use serde::{Deserialize, Serialize};

use crate::Error;

/// One sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its network slot.
    pub slot: u32,
    /// Its first process, once it is started.
    pub process: Option<ProcessName>,
}

/// All of them.
pub(super) struct Records {
    dir: PathBuf,
}

impl Records {
    /// Opens the directory.
    pub(super) fn open(run_dir: &Path) -> Result<Self, Error> {
        let dir = run_dir.join("sandboxes");
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                Err(Error::Path { action: "create", path: dir, source })
            }
            _ => Ok(Self { dir }),
        }
    }

    /// Where the guest's socket is.
    pub(super) fn socket(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.sock"))
    }

    fn file(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Writes a record, whole or not at all.
    pub(super) fn write(&self, id: &SandboxId, record: Record) -> Result<(), Error> {
        let (path, temporary) = (self.file(id), self.dir.join(format!("{id}.new")));
        let result = serde_json::to_vec(&record).map_err(std::io::Error::from).and_then(|bytes| {
            fs::write(&temporary, bytes)?;
            fs::rename(&temporary, &path)
        });
        result.map_err(|source| Error::Path { action: "write", path, source })
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
        for path in [self.socket(id), self.dir.join(format!("{id}.new")), self.file(id)] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(Error::Path { action: "remove", path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All records.
    pub(super) fn list(&self) -> Result<Vec<(SandboxId, Record)>, Error> {
        let failed = |source| Error::Path { action: "list", path: self.dir.clone(), source };
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let id = name.to_str().and_then(|n| n.strip_suffix(".json")).and_then(|n| n.parse::<SandboxId>().ok());
            if let Some(id) = id
                && let Some(record) = self.read(&id)?
            {
                all.push((id, record));
            }
        }
        Ok(all)
    }

    /// Removes the directory, if nothing is in it.
    pub(super) fn close(&self) {
        let _ = fs::remove_dir(&self.dir);
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
        let record = Record { slot: 9, process: Some(ProcessName { pid: 4, started: 2 }) };
        records.write(&id, Record { slot: 9, process: None }).unwrap();
        records.write(&id, record).unwrap();
        assert_eq!(Records::open(dir.path()).unwrap().list().unwrap(), [(id.clone(), record)]);
        records.remove(&id).unwrap();
        records.remove(&id).unwrap();
        assert!(records.list().unwrap().is_empty());
    }
}
