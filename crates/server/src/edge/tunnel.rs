//! Joins a client and a sandbox after both agreed on another protocol, WebSocket for one. Nobody looks into the bytes.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;
use tokio_util::sync::CancellationToken;

use super::link::Link;

/// Buffer of each direction.
const BUFFER: usize = 16 * 1024;

/// Copies both ways until both are done, the sandbox is gone, or the listener closes.
pub(super) async fn carry(client: OnUpgrade, sandbox: OnUpgrade, gone: CancellationToken, link: Option<Arc<Link>>) {
    let closing = link.as_ref().map(|link| link.closing.clone()).unwrap_or_default();
    let copy = async {
        let (client, sandbox) = futures_util::try_join!(client, sandbox)?;
        let (mut client, mut sandbox) = (TokioIo::new(client), TokioIo::new(sandbox));
        let copied = copy_bidirectional_with_sizes(&mut client, &mut sandbox, BUFFER, BUFFER).await;
        Ok::<_, hyper::Error>(copied)
    };
    tokio::select! {
        biased;
        () = gone.cancelled() => {}
        () = closing.cancelled() => {}
        done = copy => match done {
            Ok(Ok((up, down))) => tracing::debug!(up, down, "tunnel closed"),
            Ok(Err(error)) => tracing::debug!(%error, "tunnel broke"),
            Err(error) => tracing::debug!(%error, "tunnel was not opened"),
        }
    }
    // The link holds the connection's place until here.
    drop(link);
}
