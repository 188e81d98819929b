//! Layers: root filesystems as the steps of builds leave them, by the key of everything that made them. Each is a whole tree that shares what it has not changed with the one before, so that
//! none depends on another and any of them may be removed at any time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use cabana_fs::beneath::{self, Resolve};
use cabana_types::{BuildId, SandboxId, TemplateId};
use rustix::fs::Mode;
use tokio_util::sync::CancellationToken;

use super::build::{NewTree, ROOTFS};
use super::image::at;
use super::{DIRECTORY, Disk, Inner, PLACE, Pool, Shelf, blocking};
use crate::Error;
use crate::pack::{self, Limits, Merged};

/// A root filesystem of the pool that cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tree {
    /// What a template's sandboxes start from.
    Build(BuildId),
    /// What a step of a build left, by its key: lower-case letters and digits.
    Layer(String),
}

impl Tree {
    fn place(&self) -> (Shelf, &str) {
        match self {
            Tree::Build(build) => (Shelf::Templates, build.as_str()),
            Tree::Layer(key) => (Shelf::Layers, key),
        }
    }
}

impl Pool {
    /// Begins a layer: an empty one, or a copy of another tree to be changed.
    pub async fn begin_layer(&self, key: &str, from: Option<&Tree>) -> Result<NewTree, Error> {
        let (pool, key, from) = (Arc::clone(&self.inner), key.to_owned(), from.cloned());
        blocking(move || {
            check_key(&key)?;
            let from = from.map(|tree| pool.open_subvolume(&tree)).transpose()?;
            NewTree::make(pool, Shelf::Layers, key, from)
        })
        .await
    }

    /// Whether a tree is there.
    pub async fn has_tree(&self, tree: &Tree) -> bool {
        let (pool, tree) = (Arc::clone(&self.inner), tree.clone());
        blocking(move || pool.open_subvolume(&tree)).await.is_ok()
    }

    /// The root directory of a tree, open for reading.
    pub async fn read_tree(&self, tree: &Tree) -> Result<OwnedFd, Error> {
        let (pool, tree) = (Arc::clone(&self.inner), tree.clone());
        blocking(move || {
            let (shelf, name) = tree.place();
            let root = format!("{name}/{ROOTFS}");
            beneath::open(pool.shelf(shelf), root.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks)
                .map_err(at("open", &pool.tree_path(&tree)))
        })
        .await
    }

    /// Begins a build that is a copy of another tree.
    pub async fn begin_build_from(&self, build: &BuildId, from: &Tree) -> Result<NewTree, Error> {
        let (pool, name, from) = (Arc::clone(&self.inner), build.to_string(), from.clone());
        blocking(move || {
            let from = pool.open_subvolume(&from)?;
            NewTree::make(pool, Shelf::Templates, name, Some(from))
        })
        .await
    }

    /// Keeps the disk of a sandbox that is not up, a whole root filesystem, as a layer. Kept already is fine.
    pub async fn layer_from_disk(&self, id: &SandboxId, key: &str) -> Result<(), Error> {
        let (pool, id, to) = (Arc::clone(&self.inner), id.clone(), Tree::Layer(key.to_owned()));
        blocking(move || {
            let Tree::Layer(key) = &to else { return Ok(()) };
            check_key(key)?;
            let disk = beneath::open(&pool.sandboxes, id.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks)
                .map_err(at("open", &pool.sandboxes_path().join(id.as_str())))?;
            pool.copy_tree(&disk, &to)
        })
        .await
    }

    /// Makes a layer of a snapshot: the build that its sandbox started from, with what the sandbox changed in it.
    pub async fn layer_from_snapshot(
        &self,
        snapshot: &TemplateId,
        build: &BuildId,
        key: &str,
        limits: Limits,
        cancel: &CancellationToken,
    ) -> Result<Merged, Error> {
        let new = self.begin_layer(key, Some(&Tree::Build(build.clone()))).await?;
        let (pool, snapshot, root, cancel) = (Arc::clone(&self.inner), snapshot.clone(), new.open()?, cancel.clone());
        let merged = blocking(move || {
            let disk = pool.open_snapshot(&snapshot)?;
            pack::merge(disk, root, &limits, &cancel)
        });
        let merged = merged.await?;
        new.commit().await?;
        Ok(merged)
    }

    /// Makes a sandbox's disk of a whole tree; the directory is its root.
    pub async fn disk_from_tree(&self, tree: &Tree, id: &SandboxId, limit_bytes: u64) -> Result<Disk, Error> {
        let (pool, tree, id) = (Arc::clone(&self.inner), tree.clone(), id.clone());
        blocking(move || {
            pool.check_space()?;
            let from = pool.open_subvolume(&tree)?;
            pool.copy(&from, (&pool.sandboxes, id.as_str()), false)
                .and_then(|()| pool.limit(id.as_str(), limit_bytes))
                .and_then(|()| {
                    let root = format!("{id}/{ROOTFS}");
                    Ok(Disk {
                        dir: beneath::open(&pool.sandboxes, root.as_str(), PLACE, Mode::empty(), Resolve::NoLinks)?,
                    })
                })
                .map_err(at("copy a tree to", &pool.sandboxes_path().join(id.as_str())))
        })
        .await
    }

    /// What must stay free on the disk around the pool for it to be safe: twice what new disks need. Below this, nothing is kept that can be made again.
    pub fn spare(&self) -> u64 {
        self.inner.reserve.saturating_mul(2)
    }

    /// Whether so little space is left that what can be made again should go, before sandboxes are refused.
    pub async fn is_short(&self) -> Result<bool, Error> {
        let (pool, spare) = (Arc::clone(&self.inner), self.spare());
        blocking(move || {
            let free = pool.free_around(&pool.data)?.min(pool.free_around(&pool.layers)?);
            Ok(free < spare)
        })
        .await
    }

    /// All layers.
    pub async fn layers(&self) -> Result<Vec<String>, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.list(&pool.layers, &pool.shelf_path(Shelf::Layers)))
            .await
            .map(|names: Vec<String>| names.into_iter().filter(|name| check_key(name).is_ok()).collect())
    }

    /// Removes a layer; one that is not there is fine.
    pub async fn delete_layer(&self, key: &str) -> Result<(), Error> {
        let (pool, key) = (Arc::clone(&self.inner), key.to_owned());
        blocking(move || {
            check_key(&key)?;
            let path = pool.shelf_path(Shelf::Layers);
            pool.remove_directory(&pool.layers, &path, &key).map_err(at("delete", &path.join(&key)))
        })
        .await
    }
}

impl Inner {
    fn tree_path(&self, tree: &Tree) -> PathBuf {
        let (shelf, name) = tree.place();
        self.shelf_path(shelf).join(name)
    }

    fn open_subvolume(&self, tree: &Tree) -> Result<OwnedFd, Error> {
        let (shelf, name) = tree.place();
        beneath::open(self.shelf(shelf), name, DIRECTORY, Mode::empty(), Resolve::NoLinks)
            .map_err(|e| at("open", &self.tree_path(tree))(e))
    }

    /// The kernel writes what the copy has before it makes it: no flush is needed for a copy that outlives a power failure whole.
    fn copy_tree(&self, from: &OwnedFd, to: &Tree) -> Result<(), Error> {
        self.check_space()?;
        let (shelf, name) = to.place();
        match self.copy(from, (self.shelf(shelf), name), true) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            copied => copied.map_err(at("copy a tree to", &self.tree_path(to))),
        }
    }
}

fn check_key(key: &str) -> Result<(), Error> {
    let fine = (1..=100).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let source = || io::Error::new(io::ErrorKind::InvalidInput, "a layer's key has letters and digits only");
    if fine { Ok(()) } else { Err(Error::Io { action: "name a layer", source: source() }) }
}
