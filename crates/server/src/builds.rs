//! Building templates: from steps or a Dockerfile to a root filesystem. Each step runs in a sandbox of its own on a copy of what the step before left, and is kept under a key of everything
//! that makes it, so that a build that was built before is not built again.

mod files;
mod order;

use cabana_types::BuildId;

pub use files::{Files, ReceiveError};
pub use order::{Order, Origin, Recipe};

/// What builds templates.
#[derive(Debug)]
pub struct Builds {
    files: Files,
}

/// Why a build was not begun.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are too many already.
    #[error("there are too many builds already")]
    Busy,
    /// This server cannot do it.
    #[error("{0}")]
    NotSupported(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl Builds {
    /// Builds with what clients have uploaded.
    pub fn new(files: Files) -> Self {
        Self { files }
    }

    /// Begins a build that waits.
    pub async fn start(&self, order: Order) -> Result<(), StartError> {
        tracing::debug!(build = %order.build, "a build is refused");
        Err(StartError::NotSupported("Building templates is not available on this server yet".into()))
    }

    /// Ends a build that is under way, and returns when it has ended.
    pub async fn cancel(&self, build: &BuildId) {
        tracing::debug!(%build, "nothing is under way");
    }

    /// What clients have uploaded.
    pub fn files(&self) -> &Files {
        &self.files
    }
}
