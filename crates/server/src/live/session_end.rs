//! The end of what a person may do with a request.

use tokio_util::sync::CancellationToken;

/// Requests that are authenticated by a session carry it as an extension: their WebSockets and streams are closed with it.
#[derive(Debug, Clone)]
pub(crate) struct SessionEnd {
    /// Cancelled when the person signs out or the session expires.
    session: CancellationToken,
    /// Cancelled when what the person may do in the team changes.
    access: Option<CancellationToken>,
}

impl SessionEnd {
    pub(crate) fn new(session: CancellationToken, access: Option<CancellationToken>) -> Self {
        Self { session, access }
    }

    /// Resolves when the session or the access has ended.
    pub(crate) async fn cancelled(&self) {
        let access = async {
            match &self.access {
                Some(access) => access.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.session.cancelled() => {}
            () = access => {}
        }
    }
}
