//! Selects the /16 of `100.96.0.0/12` that a server uses: servers on one machine must not overlap, nor use
//! addresses that the machine has routes to.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::Error;
use crate::addressing::BLOCK_PREFIX;
use crate::links::{Links, Route};

/// A server's claim to a block. It outlives the process, because sandboxes do.
#[derive(Debug)]
pub struct BlockLease {
    dir: PathBuf,
    owner: PathBuf,
    block: Ipv4Addr,
}

impl BlockLease {
    /// The block.
    pub fn block(&self) -> Ipv4Addr {
        self.block
    }

    /// Frees the block; for when nothing of the server is left on the machine.
    pub async fn give_up(self) -> Result<(), Error> {
        let give_up = move || {
            let _guard = lock(&self.dir)?;
            let path = self.dir.join(self.block.to_string());
            if owner_of(&path)?.is_some_and(|owner| owner == self.owner) {
                std::fs::remove_file(&path).map_err(Error::path("remove", path))?;
            }
            Ok(())
        };
        spawn_blocking(give_up).await.map_err(|_| Error::Closed)?
    }
}

/// Claims the block of the server whose data is in `owner`: its previous one if possible, else a free one. A claim is a
/// file in `dir` that is named after the block and contains its owner's data directory; it is free again when that
/// directory is gone.
pub async fn claim_block(
    dir: &Path,
    owner: &Path,
    remembered: Option<Ipv4Addr>,
) -> Result<(Ipv4Addr, BlockLease), Error> {
    let links = Links::open()?;
    let routes = links.routes().await?;
    links.close().await;
    let (dir, owner) = (dir.to_owned(), std::path::absolute(owner).map_err(Error::path("resolve", owner))?);
    let lease = spawn_blocking(move || claim(dir, owner, remembered, &routes)).await.map_err(|_| Error::Closed)??;
    Ok((lease.block, lease))
}

/// Not the one with 100.100.100.200: clouds have their metadata service there.
fn blocks() -> impl Iterator<Item = Ipv4Addr> {
    (96..112).filter(|second| *second != 100).map(|second| Ipv4Addr::new(100, second, 0, 0))
}

fn claim(dir: PathBuf, owner: PathBuf, remembered: Option<Ipv4Addr>, routes: &[Route]) -> Result<BlockLease, Error> {
    std::fs::create_dir_all(&dir).map_err(Error::path("create", &dir))?;
    let _guard = lock(&dir)?;
    let mut free = Vec::new();
    let mut own = None;
    for block in blocks() {
        match owner_of(&dir.join(block.to_string()))? {
            Some(holder) if holder == owner => own = Some(block),
            Some(holder) if holder.symlink_metadata().is_ok() => {}
            _ => free.push(block),
        }
    }
    let remembered = remembered.filter(|block| own == Some(*block) || free.contains(block));
    let clear = || free.iter().copied().find(|block| !routes.iter().any(|route| overlaps(route, *block)));
    // A route much wider than the block (100.64.0.0/10, where providers use it) has lower precedence than our more
    // specific ones.
    let behind_wide = || {
        let found = free
            .iter()
            .copied()
            .find(|block| !routes.iter().any(|route| route.prefix >= BLOCK_PREFIX && overlaps(route, *block)));
        found.inspect(
            |block| warn!(%block, "every address block overlaps a route of this machine; using one with the least overlap"),
        )
    };
    let block = remembered.or(own).or_else(clear).or_else(behind_wide).ok_or(Error::NoBlock)?;
    write(&dir.join(block.to_string()), &owner)?;
    Ok(BlockLease { dir, owner, block })
}

fn overlaps(route: &Route, block: Ipv4Addr) -> bool {
    let common = u32::from(route.prefix.min(BLOCK_PREFIX));
    let mask = u32::MAX.checked_shl(32 - common).unwrap_or(0);
    route.destination.to_bits() & mask == block.to_bits() & mask
}

/// Locks the claims while they are read or changed.
fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(Error::path("open", &path))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|e| Error::path("lock", &path)(e.into()))?;
    Ok(file)
}

fn owner_of(path: &Path) -> Result<Option<PathBuf>, Error> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.is_empty() => Ok(None),
        Ok(bytes) => Ok(Some(std::ffi::OsString::from_vec(bytes).into())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::path("read", path)(e)),
    }
}

fn write(path: &Path, owner: &Path) -> Result<(), Error> {
    cabana_fs::atomic::write_volatile(path, owner.as_os_str().as_bytes(), 0o600).map_err(Error::path("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(second: u8) -> Ipv4Addr {
        Ipv4Addr::new(100, second, 0, 0)
    }

    fn route(destination: [u8; 4], prefix: u8) -> Route {
        Route { destination: destination.into(), prefix }
    }

    #[test]
    fn servers_get_distinct_stable_blocks() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("blocks");
        let data = |n: usize| {
            let path = temp.path().join(format!("data{n}"));
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let claim =
            |n, remembered, routes: &[Route]| claim(dir.clone(), data(n), remembered, routes).map(|lease| lease.block);
        assert_eq!(claim(0, None, &[]).unwrap(), block(96));
        assert_eq!(claim(1, None, &[]).unwrap(), block(97));
        assert_eq!(claim(0, None, &[]).unwrap(), block(96));
        assert_eq!(claim(0, None, &[route([100, 96, 0, 4], 30)]).unwrap(), block(96), "our own routes do not count");
        assert_eq!(claim(2, Some(block(97)), &[]).unwrap(), block(98), "taken since");
        assert_eq!(claim(3, Some(block(104)), &[route([100, 104, 0, 0], 16)]).unwrap(), block(104));
        let routes = [route([100, 99, 3, 0], 24), route([100, 100, 100, 100], 32), route([10, 0, 0, 0], 8)];
        assert_eq!(claim(4, None, &routes).unwrap(), block(101));
        std::fs::remove_dir_all(temp.path().join("data1")).unwrap();
        assert_eq!(claim(5, None, &[]).unwrap(), block(97), "its owner's data is gone");
        for n in 6..16 {
            claim(n, None, &[]).unwrap();
        }
        assert!(matches!(claim(17, None, &[]), Err(Error::NoBlock)));
    }

    #[test]
    fn wide_routes_are_no_conflict() {
        let temp = tempfile::tempdir().unwrap();
        let routes = [route([100, 64, 0, 0], 10), route([100, 96, 0, 9], 32)];
        let lease = claim(temp.path().join("blocks"), temp.path().to_owned(), None, &routes).unwrap();
        assert_eq!(lease.block, block(97));
    }

    #[tokio::test]
    async fn released_blocks_are_free() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("blocks");
        let lease = claim(dir.clone(), temp.path().to_owned(), None, &[]).unwrap();
        lease.give_up().await.unwrap();
        let other = temp.path().join("blocks");
        assert_eq!(claim(dir, other, None, &[]).unwrap().block, block(96));
    }
}
