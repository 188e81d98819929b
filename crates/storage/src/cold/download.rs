//! Downloads an archive in ranges and hands it, in order, to a thread.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio_util::sync::CancellationToken;

use super::{damaged, or_cancelled, pipe, read_failed};
use crate::Error;

/// The size of one range. Each has its own retries, so that a long download does not depend on one connection.
pub(super) const PIECE: u64 = 8 << 20;
/// Ranges requested at a time.
const IN_FLIGHT: usize = 2;

/// Runs `work` on a thread that reads the object, which must have this length. The thread has ended when this returns.
pub(super) async fn stream<T: Send + 'static>(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    length: u64,
    cancel: &CancellationToken,
    work: impl FnOnce(pipe::Reader, &CancellationToken) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let stop = cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let (sender, reader) = pipe::from_store();
    let stopped = stop.clone();
    let working = tokio::task::spawn_blocking(move || work(reader, &stopped));
    let reading = async {
        let found = store.head(path).await.map_err(read_failed("look at", path))?;
        if found.size != length {
            return Err(damaged(path, &format!("it has {} bytes instead of {length}", found.size)));
        }
        let begins = (0..length).step_by(usize::try_from(PIECE).unwrap_or(usize::MAX));
        let pieces = begins.map(|begin| {
            let range = begin..length.min(begin + PIECE);
            async move {
                let piece = store.get_range(path, range.clone()).await.map_err(read_failed("read", path))?;
                if piece.len() as u64 != range.end - range.start {
                    return Err(damaged(path, "a piece of it is shorter or longer than it should be"));
                }
                Ok(piece)
            }
        });
        let mut pieces = stream::iter(pieces).buffered(IN_FLIGHT);
        while let Some(piece) = pieces.try_next().await? {
            if sender.send(Some(piece)).await.is_err() {
                // The thread has ended and returns its own error.
                return Ok(());
            }
        }
        let _ = sender.send(None).await;
        Ok(())
    };
    let read = or_cancelled(cancel, reading).await;
    if read.is_err() {
        stop.cancel();
    }
    drop(sender);
    let worked = working.await.map_err(|e| Error::Io { action: "read an archive", source: e.into() });
    read.and_then(|()| worked?)
}
