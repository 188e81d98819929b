//! Joins a client and a sandbox after an upgrade, to WebSocket for example. The bytes are not inspected.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;

use crate::connection::Connection;
use crate::cuts::Cuts;

/// Buffer of each direction.
const BUFFER: usize = 16 * 1024;

/// Copies both ways until both are done, one of `cuts` fires, or the listener closes.
pub(crate) async fn copy(client: OnUpgrade, sandbox: OnUpgrade, cuts: Cuts, connection: Option<Arc<Connection>>) {
    // A tunnel is in use until it ends.
    if let Some(connection) = &connection {
        connection.begin();
    }
    let closing = connection.as_ref().map(|connection| connection.closing.clone()).unwrap_or_default();
    let copying = async {
        let (client, sandbox) = futures_util::try_join!(client, sandbox)?;
        let (mut client, mut sandbox) = (TokioIo::new(client), TokioIo::new(sandbox));
        let copied = copy_bidirectional_with_sizes(&mut client, &mut sandbox, BUFFER, BUFFER).await;
        Ok::<_, hyper::Error>(copied)
    };
    tokio::select! {
        biased;
        () = cuts.cancelled() => {}
        () = closing.cancelled() => {}
        done = copying => match done {
            Ok(Ok((up, down))) => tracing::debug!(up, down, "tunnel closed"),
            Ok(Err(error)) => tracing::debug!(%error, "tunnel failed"),
            Err(error) => tracing::debug!(%error, "tunnel was not opened"),
        }
    }
    // Until here the client's connection counts as open.
    drop(connection);
}
