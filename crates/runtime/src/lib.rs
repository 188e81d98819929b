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

pub use backend::{Backend, Capabilities, Death, LaunchSpec, Live, Stats, Vitals};
pub use cold::{ColdConfig, ColdStore};
pub use error::Error;
pub use fact::Fact;
pub use pool::{Disk, NewBuild, Pool, PoolConfig, PoolKind};
