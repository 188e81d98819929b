//! What distinguishes the kernel objects of one server from those of another on the same machine: a short name and a
//! block of addresses, kept in the data directory.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cabana_net::BlockLease;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Directory of everything that a reboot removes.
const RUN: &str = "/run/cabana";

/// What is below the staging directory.
const STAGES: [&str; 3] = ["template", "disk", "root"];

/// An instance.
pub(super) struct Instance {
    /// Four letters that stand in the names of cgroups, interfaces and tables.
    pub name: String,
    /// Its addresses: a /16.
    pub block: Ipv4Addr,
    /// Its part of the run directory.
    pub run_dir: PathBuf,
    _lease: BlockLease,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    name: String,
    block: Ipv4Addr,
}

impl Instance {
    /// Reads the instance of a data directory, or creates it on the first start.
    pub(super) async fn open(data_dir: &Path) -> Result<Self, Error> {
        let path = data_dir.join("instance.json");
        let failed = |action| {
            let path = path.clone();
            move |source| Error::Path { action, path, source }
        };
        let remembered: Option<Remembered> = match fs::read(&path) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|e| failed("understand")(e.into()))?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read")(error)),
        };
        fs::create_dir_all(RUN).map_err(|source| Error::Path { action: "create", path: RUN.into(), source })?;
        let blocks = Path::new(RUN).join("blocks");
        let (block, lease) = cabana_net::claim_block(&blocks, data_dir, remembered.as_ref().map(|r| r.block))
            .await
            .map_err(|e| Error::Network(Box::new(e)))?;
        let name = remembered.map_or_else(new_name, |r| r.name);
        let bytes =
            serde_json::to_vec(&Remembered { name: name.clone(), block }).map_err(|e| failed("write")(e.into()))?;
        cabana_fs::atomic::write(&path, &bytes, 0o644).map_err(failed("write"))?;
        let run_dir = Path::new(RUN).join(&name);
        match fs::DirBuilder::new().mode(0o755).create(&run_dir) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::Path { action: "create", path: run_dir, source });
            }
            _ => {}
        }
        Ok(Self { name, block, run_dir, _lease: lease })
    }

    /// The name and run directory of a data directory's instance, if it had one since the machine started.
    pub(super) fn known(data_dir: &Path) -> Option<(String, PathBuf)> {
        let remembered: Remembered = serde_json::from_slice(&fs::read(data_dir.join("instance.json")).ok()?).ok()?;
        let run_dir = Path::new(RUN).join(&remembered.name);
        run_dir.is_dir().then_some((remembered.name, run_dir))
    }

    /// Where the mounts of a sandbox are put together.
    pub(super) fn staging(&self) -> PathBuf {
        self.run_dir.join("staging")
    }

    /// Makes the directories that the launcher mounts on.
    pub(super) fn make_staging(&self) -> Result<(), Error> {
        for name in STAGES {
            let path = self.staging().join(name);
            fs::create_dir_all(&path).map_err(|source| Error::Path { action: "create", path, source })?;
        }
        Ok(())
    }

    /// Removes the run directory, as far as no sandbox needs it.
    pub(super) fn close(&self) {
        let stages = STAGES.map(|name| self.staging().join(name));
        for dir in stages.into_iter().chain([self.staging(), self.run_dir.join("net"), self.run_dir.clone()]) {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn new_name() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let random: [u8; 4] = rand::random();
    random.iter().map(|b| LETTERS[usize::from(b % 32)] as char).collect()
}
