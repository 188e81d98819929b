//! Trait [`Backend`] and its implementations.

#![forbid(unsafe_code)]

pub mod backend;
pub mod error;
pub mod native;

pub use backend::{Backend, Capabilities, Death, DiskSource, LaunchSpec, Live, Mount, Observed, Root, Stats, Vitals};
pub use error::Error;
