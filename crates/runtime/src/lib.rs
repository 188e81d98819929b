//! Trait [`Backend`] and its implementations, and the storage pool under them.

#![forbid(unsafe_code)]

pub mod backend;
pub mod cold;
pub mod debian;
pub mod error;
pub mod fact;
pub mod native;
pub mod pack;
pub mod pool;

mod inside;
mod program;

pub use backend::{Backend, Capabilities, Death, DiskSource, LaunchSpec, Live, Observed, Root, Stats, Vitals};
pub use cold::{ColdConfig, ColdStore, Patience as ColdPatience, Source as ColdSource};
pub use error::Error;
pub use fact::Fact;
pub use pack::{Limits as PackLimits, Selection as PackSelection};
pub use pool::{Disk, NewTree, Pool, PoolConfig, PoolKind, Tree};
