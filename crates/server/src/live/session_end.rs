//! The end of the session that a request belongs to.

use tokio_util::sync::CancellationToken;

/// Cancelled when the person signs out or the session expires. Requests that are authenticated by a session carry it as an
/// extension; their WebSockets are closed with it.
#[derive(Debug, Clone)]
pub(crate) struct SessionEnd(pub(crate) CancellationToken);
