//! Disks of sandboxes and root filesystems of templates: the [`Pool`] that keeps them, [`pack`] that makes archives of disks, and
//! [`cold`] storage for the archives.

#![forbid(unsafe_code)]

pub mod cold;
pub mod disks;
pub mod error;
pub mod pack;
pub mod pool;

pub use cold::{ColdConfig, ColdStore};
pub use disks::{DiskFacts, DiskOrigin, Disks};
pub use error::Error;
pub use pool::{Disk, NewTree, Pool, PoolConfig, PoolKind, PoolState, Tree};
