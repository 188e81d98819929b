//! What a sandbox needs whose requests the egress proxy changes: the values behind its placeholders when it is started, and a
//! certificate authority of its own, which programs inside trust from its launch on, and when rules are added while it runs.

use std::borrow::Cow;
use std::sync::Arc;

use cabana_guest_link::GuestLink;
use cabana_store::Sandbox;
use cabana_types::guest::Trust;

use super::driver::Driver;

impl Driver {
    /// The row of a sandbox that is about to start, with the newest secrets behind its placeholders. If they cannot be read,
    /// the proxy refuses requests that need them, or uses those of the last start.
    pub(super) async fn with_secrets<'a>(&self, sandbox: &'a Sandbox) -> Cow<'a, Sandbox> {
        match self.vault.renew(sandbox).await {
            Ok(egress) if Arc::ptr_eq(&egress, &sandbox.egress) => Cow::Borrowed(sandbox),
            Ok(egress) => Cow::Owned(Sandbox { egress, ..sandbox.clone() }),
            Err(error) => {
                tracing::error!(sandbox = %sandbox.id, %error, "the sandbox does not get its newest secrets");
                Cow::Borrowed(sandbox)
            }
        }
    }

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

    /// Makes a running sandbox trust its authority, if it needs one. What its guest does has no influence on the policy: without
    /// the certificate, programs inside refuse the hosts that the egress proxy signs for.
    pub(super) async fn trust(&self, sandbox: &Sandbox, link: &GuestLink) {
        let Some(certificate) = self.certificate(sandbox).await else { return };
        let id = &sandbox.id;
        match link.trust(&Trust { certificate: Some(certificate) }).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                tracing::warn!(sandbox = %id, "the guest is of an earlier version and cannot install the certificate authority: \
                    HTTPS to hosts whose requests are changed fails until the sandbox is paused without memory and resumed");
            }
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "the guest did not install the certificate authority of its sandbox");
            }
        }
    }

    /// The same, without waiting for it.
    pub(super) fn trust_later(self: &Arc<Self>, sandbox: &Sandbox, link: &GuestLink) {
        if sandbox.egress.intercepts_any() {
            let (this, sandbox, link) = (Arc::clone(self), sandbox.clone(), link.clone());
            self.tasks.spawn("install a certificate authority", async move { this.trust(&sandbox, &link).await });
        }
    }
}
