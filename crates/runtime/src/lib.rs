//! Trait [`Backend`] and its implementations, and the storage pool under them.

#![forbid(unsafe_code)]

pub mod backend;
pub mod error;

pub use backend::{Backend, Capabilities, Death, LaunchSpec, Live, Stats, Vitals};
pub use error::Error;
