//! Reading an archive from the store, piece by piece in order, by a thread.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio_util::sync::CancellationToken;

use super::{cold, damaged, pipe, unless};
use crate::Error;

/// Pieces of this size are asked for, each with retries of its own: a long download is not at the mercy of one connection.
pub(super) const PIECE: u64 = 8 << 20;
/// Pieces under way at a time.
const UNDER_WAY: usize = 2;

/// Runs `work` on a thread, which reads the object; it must be of this length. The thread has ended when this returns.
pub(super) async fn stream<T: Send + 'static>(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    length: u64,
    cancel: &CancellationToken,
    work: impl FnOnce(pipe::Reader, &CancellationToken) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let stop = cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let (sender, reader) = pipe::inward();
    let stopped = stop.clone();
    let working = tokio::task::spawn_blocking(move || work(reader, &stopped));
    let reading = async {
        let found = store.head(path).await.map_err(cold("look at", path))?;
        if found.size != length {
            return Err(damaged(path, &format!("it has {} bytes instead of {length}", found.size)));
        }
        let begins = (0..length).step_by(usize::try_from(PIECE).unwrap_or(usize::MAX));
        let pieces = begins.map(|begin| {
            let range = begin..length.min(begin + PIECE);
            async move {
                let piece = store.get_range(path, range.clone()).await.map_err(cold("read", path))?;
                if piece.len() as u64 != range.end - range.start {
                    return Err(damaged(path, "a piece of it is shorter or longer than it should be"));
                }
                Ok(piece)
            }
        });
        let mut pieces = stream::iter(pieces).buffered(UNDER_WAY);
        while let Some(piece) = pieces.try_next().await? {
            if sender.send(Some(piece)).await.is_err() {
                // The thread has ended, and says itself why.
                return Ok(());
            }
        }
        let _ = sender.send(None).await;
        Ok(())
    };
    let read = unless(cancel, reading).await;
    if read.is_err() {
        stop.cancel();
    }
    drop(sender);
    let worked = working.await.map_err(|e| Error::Io { action: "read an archive", source: e.into() });
    read.and_then(|()| worked?)
}
