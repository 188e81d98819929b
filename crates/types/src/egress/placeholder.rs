//! Texts in the environment of a sandbox that stand for secrets. The egress proxy puts the values in their place.

use serde::{Deserialize, Serialize};

use super::{HostName, HostPattern};

/// Beginning of all placeholders.
pub const PREFIX: &str = "novita_secret_";

/// What stands for a secret inside one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placeholder {
    /// The text that programs inside see.
    pub text: String,
    /// Name of the secret.
    pub secret: String,
    /// Hosts that the secret is for.
    pub hosts: Vec<HostPattern>,
}

impl Placeholder {
    /// A placeholder for a secret.
    pub fn from_random(random: [u8; 16], secret: String, hosts: Vec<HostPattern>) -> Self {
        let mark: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: format!("{PREFIX}{mark}"), secret, hosts }
    }

    /// Whether its secret is for a host.
    pub fn is_for(&self, host: &HostName) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(host))
    }
}
