//! Where the proxy gets what it fills into headers. The server implements it.

use std::sync::Arc;

use async_trait::async_trait;
use cabana_types::{SandboxId, Secret};

use crate::Authority;

/// Secrets, tokens and certificate authorities of sandboxes.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// The current value of a secret that the sandbox's rules may use. The name is in lower case.
    async fn secret(&self, sandbox: &SandboxId, name: &str) -> Result<Secret, CredentialError>;

    /// The value that a placeholder of the sandbox stands for: the secret's when the sandbox was started.
    async fn behind(&self, sandbox: &SandboxId, placeholder: &str) -> Result<Secret, CredentialError>;

    /// A token of the sandbox's workload identity.
    async fn token(&self, sandbox: &SandboxId, name: &str) -> Result<Secret, CredentialError>;

    /// The authority that the sandbox trusts.
    async fn authority(&self, sandbox: &SandboxId) -> Result<Arc<Authority>, CredentialError>;
}

/// Why a credential is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// There is none of that name.
    #[error("it does not exist")]
    NotFound,
    /// It cannot be read now. The reason never contains a value.
    #[error("it cannot be read: {0}")]
    Unavailable(String),
}
