//! The certificate in use. New connections get the newest; open ones are not affected.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificate, and when it is due for renewal.
#[derive(Debug)]
pub(super) struct Current {
    current: RwLock<(Arc<CertifiedKey>, SystemTime)>,
}

impl Current {
    pub(super) fn new(certified: CertifiedKey, renewal: SystemTime) -> Self {
        Self { current: RwLock::new((Arc::new(certified), renewal)) }
    }

    /// Whether it is due for renewal.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        now >= self.current.read().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Replaces the certificate; returns whether it differs.
    pub(super) fn replace(&self, certified: CertifiedKey, renewal: SystemTime) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let differs = current.0.cert != certified.cert;
        if differs {
            current.0 = Arc::new(certified);
        }
        current.1 = renewal;
        differs
    }
}

impl ResolvesServerCert for Current {
    /// The same for every name: a client that asked for another sees the mismatch.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone())
    }
}
