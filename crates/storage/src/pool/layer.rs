//! Layers: root filesystems as build steps leave them, by a key of everything that went into them. Each is a complete tree that shares
//! unchanged blocks with the one before, so none depends on another and any of them can be removed at any time.

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
use super::{DIRECTORY, Disk, Inner, PATH_ONLY, Pool, TreeDir, blocking};
use crate::Error;
use crate::pack::{self, Limits, Merged};

/// A read-only root filesystem of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tree {
    /// What a template's sandboxes start from.
    Build(BuildId),
    /// The result of one build step, by its key: lower-case letters and digits.
    Layer(String),
}

impl Tree {
    fn location(&self) -> (TreeDir, &str) {
        match self {
            Tree::Build(build) => (TreeDir::Templates, build.as_str()),
            Tree::Layer(key) => (TreeDir::Layers, key),
        }
    }
}

impl Pool {
    /// Begins a layer: empty, or a copy of another tree. It may take `limit_bytes` more.
    pub async fn begin_layer(&self, key: &str, from: Option<&Tree>, limit_bytes: u64) -> Result<NewTree, Error> {
        let (pool, key, from) = (Arc::clone(&self.inner), key.to_owned(), from.cloned());
        blocking(move || {
            check_key(&key)?;
            let from = from.map(|tree| pool.open_subvolume(&tree)).transpose()?;
            NewTree::make(pool, TreeDir::Layers, key, from, Some(limit_bytes))
        })
        .await
    }

    /// An empty tree for files that a build only reads. It is dropped and never committed.
    pub async fn begin_scratch(&self, limit_bytes: u64) -> Result<NewTree, Error> {
        self.begin_layer("scratch", None, limit_bytes).await
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
            let (tree_dir, name) = tree.location();
            let root = format!("{name}/{ROOTFS}");
            beneath::open(pool.tree_dir(tree_dir), root.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks)
                .map_err(at("open", &pool.tree_path(&tree)))
        })
        .await
    }

    /// Begins a build that is a copy of another tree.
    pub async fn begin_build_from(&self, build: &BuildId, from: &Tree) -> Result<NewTree, Error> {
        let (pool, name, from) = (Arc::clone(&self.inner), build.to_string(), from.clone());
        blocking(move || {
            let from = pool.open_subvolume(&from)?;
            NewTree::make(pool, TreeDir::Templates, name, Some(from), None)
        })
        .await
    }

    /// Stores the disk of a sandbox that is not running, a complete root filesystem, as a layer. A layer that exists already stays.
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

    /// Creates a layer from a snapshot: the build that its sandbox started from, with the sandbox's changes.
    pub async fn layer_from_snapshot(
        &self,
        snapshot: &TemplateId,
        build: &BuildId,
        key: &str,
        limits: Limits,
        cancel: &CancellationToken,
    ) -> Result<Merged, Error> {
        let new = self.begin_layer(key, Some(&Tree::Build(build.clone())), limits.bytes).await?;
        let (pool, snapshot, root, cancel) = (Arc::clone(&self.inner), snapshot.clone(), new.open()?, cancel.clone());
        let merged = blocking(move || {
            let disk = pool.open_snapshot(&snapshot)?;
            pack::merge(disk, root, &limits, &cancel)
        });
        let merged = merged.await?;
        new.commit().await?;
        Ok(merged)
    }

    /// Creates a sandbox's disk from a complete tree; the directory is its root.
    pub async fn disk_from_tree(&self, tree: &Tree, id: &SandboxId, limit_bytes: u64) -> Result<Disk, Error> {
        let (pool, tree, id) = (Arc::clone(&self.inner), tree.clone(), id.clone());
        blocking(move || {
            pool.check_space()?;
            let from = pool.open_subvolume(&tree)?;
            pool.copy(&from, (&pool.sandboxes, id.as_str()), false)
                .and_then(|()| pool.limit(id.as_str(), limit_bytes))
                // A build step has the filesystem itself as its root.
                .and_then(|()| pool.limit_with_nested(id.as_str(), limit_bytes))
                .and_then(|()| {
                    let root = format!("{id}/{ROOTFS}");
                    Ok(Disk {
                        dir: beneath::open(&pool.sandboxes, root.as_str(), PATH_ONLY, Mode::empty(), Resolve::NoLinks)?,
                    })
                })
                .map_err(at("copy a tree to", &pool.sandboxes_path().join(id.as_str())))
        })
        .await
    }

    /// All layers.
    pub async fn layers(&self) -> Result<Vec<String>, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.list(&pool.layers, &pool.tree_dir_path(TreeDir::Layers)))
            .await
            .map(|names: Vec<String>| names.into_iter().filter(|name| check_key(name).is_ok()).collect())
    }

    /// Deletes a layer, if it is there.
    pub async fn delete_layer(&self, key: &str) -> Result<(), Error> {
        let (pool, key) = (Arc::clone(&self.inner), key.to_owned());
        blocking(move || {
            check_key(&key)?;
            let path = pool.tree_dir_path(TreeDir::Layers);
            pool.remove_directory(&pool.layers, &path, &key).map_err(at("delete", &path.join(&key)))
        })
        .await
    }
}

impl Inner {
    fn tree_path(&self, tree: &Tree) -> PathBuf {
        let (tree_dir, name) = tree.location();
        self.tree_dir_path(tree_dir).join(name)
    }

    fn open_subvolume(&self, tree: &Tree) -> Result<OwnedFd, Error> {
        let (tree_dir, name) = tree.location();
        beneath::open(self.tree_dir(tree_dir), name, DIRECTORY, Mode::empty(), Resolve::NoLinks)
            .map_err(|e| at("open", &self.tree_path(tree))(e))
    }

    /// The kernel flushes the source before it takes the snapshot, so the copy survives a power failure without another flush.
    fn copy_tree(&self, from: &OwnedFd, to: &Tree) -> Result<(), Error> {
        self.check_space()?;
        let (tree_dir, name) = to.location();
        match self.copy(from, (self.tree_dir(tree_dir), name), true) {
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
