//! The certificate in use. New connections get the newest one; those that are open keep what they agreed on.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// What is shown to clients, and until when.
#[derive(Debug)]
pub(super) struct Current {
    shown: RwLock<(Arc<CertifiedKey>, SystemTime)>,
}

impl Current {
    pub(super) fn new(certified: CertifiedKey, renewal: SystemTime) -> Self {
        Self { shown: RwLock::new((Arc::new(certified), renewal)) }
    }

    /// Whether it is time for the next one.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        now >= self.shown.read().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Shows another one from now on; whether it is another one.
    pub(super) fn replace(&self, certified: CertifiedKey, renewal: SystemTime) -> bool {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        let other = shown.0.cert != certified.cert;
        if other {
            shown.0 = Arc::new(certified);
        }
        shown.1 = renewal;
        other
    }
}

impl ResolvesServerCert for Current {
    /// The same for every name: a client that asked for another one sees that it does not fit.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown.read().unwrap_or_else(PoisonError::into_inner).0.clone())
    }
}
