//! Programs in a sandbox whose policy has rules trust the sandbox's own certificate authority: from its launch on, and when
//! rules are added while it runs.

use std::sync::Arc;

use cabana_guest_link::GuestLink;
use cabana_store::Sandbox;
use cabana_types::guest::Trust;

use super::driver::Driver;

impl Driver {
    /// The certificate that programs in a sandbox have to trust, if any. If it cannot be read, they refuse the hosts that
    /// the egress proxy signs for; everything else works.
    pub(super) async fn certificate(&self, sandbox: &Sandbox) -> Option<String> {
        match self.vault.certificate(sandbox).await {
            Ok(certificate) => certificate,
            Err(error) => {
                tracing::error!(sandbox = %sandbox.id, %error, "the sandbox gets no certificate authority");
                None
            }
        }
    }

    /// Makes a running sandbox with rules trust its authority. What its guest does has no influence on the policy: without
    /// the certificate, programs inside refuse the hosts that the egress proxy signs for.
    pub(super) async fn trust(&self, sandbox: &Sandbox, link: &GuestLink) {
        let Some(certificate) = self.certificate(sandbox).await else { return };
        let id = &sandbox.id;
        match link.trust(&Trust { certificate: Some(certificate) }).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                tracing::warn!(sandbox = %id, "the guest is of an earlier version and cannot install the certificate authority: \
                    HTTPS to hosts with rules fails until the sandbox is paused without memory and resumed");
            }
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "the guest did not install the certificate authority of its sandbox");
            }
        }
    }

    /// The same, without waiting for it.
    pub(super) fn trust_later(self: &Arc<Self>, sandbox: &Sandbox, link: &GuestLink) {
        if !sandbox.egress.rules.is_empty() {
            let (this, sandbox, link) = (Arc::clone(self), sandbox.clone(), link.clone());
            self.tasks.spawn("install a certificate authority", async move { this.trust(&sandbox, &link).await });
        }
    }
}
