//! Building templates: from steps or a Dockerfile to a root filesystem. Each step runs in a sandbox of its own on a copy of what the step before left, and is kept under a key of everything
//! that makes it, so that a build that was built before is not built again.

mod order;

pub use order::{Order, Origin, Recipe};
