//! Keys of teams' model providers.

use std::sync::Arc;

use cabana_types::{Secret, TeamId};

use super::sealing::{Sealer, SealingError, Unsealable};
use crate::error::Error;

/// Seals keys of providers and opens them.
#[derive(Debug, Clone)]
pub(crate) struct ProviderKeys {
    sealer: Arc<Sealer>,
}

impl ProviderKeys {
    pub(super) fn new(sealer: Arc<Sealer>) -> Self {
        Self { sealer }
    }

    /// Seals a key for one provider of one team at one address: it opens nowhere else.
    pub(crate) fn seal(&self, team: &TeamId, name: &str, url: Option<&str>, key: &Secret) -> Result<Vec<u8>, Error> {
        self.sealer.seal(&row(team, name, url), key.expose().as_bytes()).map_err(|_| SealingError::Failed.into())
    }

    /// Opens it.
    pub(crate) fn open(
        &self,
        team: &TeamId,
        name: &str,
        url: Option<&str>,
        sealed: &[u8],
    ) -> Result<Secret, Unsealable> {
        self.sealer.unseal_text(&row(team, name, url), sealed)
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::new(Arc::new(Sealer::for_tests()))
    }
}

/// What a sealed key is bound to.
fn row(team: &TeamId, name: &str, url: Option<&str>) -> String {
    format!("provider/{team}/{name}/{}", url.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_for_its_provider_only() {
        let (keys, one, two) = (ProviderKeys::for_tests(), "a".parse().expect("team"), "b".parse().expect("team"));
        let sealed = keys.seal(&one, "p", Some("https://x"), &Secret::new("k")).expect("sealed");
        let open = |team, name, url| keys.open(team, name, url, &sealed).is_ok();
        assert!(open(&one, "p", Some("https://x")));
        assert!(!open(&two, "p", Some("https://x")) && !open(&one, "q", Some("https://x")));
        assert!(!open(&one, "p", None), "nor for another address");
    }
}
