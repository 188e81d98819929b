//! Runs sandboxes: trait [`Isolation`] with its backends, the scaffolding that backends on this machine share, and the
//! [`Isolations`] of a server.

#![forbid(unsafe_code)]

pub mod error;
#[cfg(feature = "fake")]
pub mod fake;
pub mod host;
pub mod native;

mod isolation;
mod isolations;
mod live;
mod spec;

pub use error::Error;
pub use isolation::{Checkpoint, CheckpointFacts, Isolation, IsolationFacts, OomScope};
pub use isolations::Isolations;
pub use live::{Death, Live, Observed, Stats, Vitals};
pub use spec::{DiskSource, LaunchSpec, Mount, Root};
