//! The writer: a task that owns the only connection that writes. Changes that arrive during a commit share the
//! next transaction, so that many callers share one fsync.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cabana_supervisor::Supervisor;
use sqlx::sqlite::SqliteOperation;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::error::is_local;
use crate::feed::{self, Feed};

/// Queued changes; further callers wait.
const QUEUE: usize = 1024;
/// Changes in one transaction.
const BATCH: usize = 64;

/// The future of a change.
pub(crate) type Change<'c, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>;

/// A handle to the writer.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Box<dyn Work>>,
}

impl Writer {
    /// Starts the writer's task, which is vital to the process. It notifies `added` after every commit that changed a
    /// webhook's queue, and publishes to `feed` what was committed.
    pub(crate) async fn start(
        supervisor: &Supervisor,
        mut connection: SqliteConnection,
        added: Arc<Notify>,
        feed: Feed,
    ) -> Result<Self, sqlx::Error> {
        let seen = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&seen);
        // SQLite's update hook reports the rows, so that no change has to notify by itself.
        connection.lock_handle().await?.set_update_hook(move |change| {
            if change.table == "deliveries" && change.operation == SqliteOperation::Insert {
                mark.store(true, Ordering::Relaxed);
            }
        });
        let (queue, waiting) = mpsc::channel(QUEUE);
        supervisor.essential("store writer", |stop| run(connection, waiting, stop, seen, added, feed));
        Ok(Self { queue })
    }

    /// Runs a change in a transaction and returns after the commit. If the change fails, it is rolled back.
    pub(crate) async fn write<T, F>(&self, change: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Change<'c, T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work = Waiting { change: Some(change), result: None, answer };
        self.queue.send(Box::new(work)).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }
}

/// The result of a change, before the commit.
enum Outcome {
    Done,
    Undo,
    /// The transaction was rolled back.
    Lost(Arc<sqlx::Error>),
}

/// A queued change without its types.
trait Work: Send {
    fn run<'c>(
        &'c mut self,
        connection: &'c mut SqliteConnection,
    ) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'c>>;
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Waiting<T, F> {
    change: Option<F>,
    result: Option<Result<T, Error>>,
    answer: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Work for Waiting<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> Change<'c, T> + Send + 'static,
{
    fn run<'c>(
        &'c mut self,
        connection: &'c mut SqliteConnection,
    ) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'c>> {
        Box::pin(async move {
            let Some(change) = self.change.take() else { return Outcome::Undo };
            let result = change(connection).await;
            let outcome = match &result {
                Ok(_) => Outcome::Done,
                Err(error) => match error.database() {
                    Some(source) if !is_local(source) => Outcome::Lost(Arc::clone(source)),
                    _ => Outcome::Undo,
                },
            };
            self.result = Some(result);
            outcome
        })
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let result = match (self.result, committed) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::Closed),
        };
        // The caller may have been cancelled; the change stays.
        let _ = self.answer.send(result);
    }
}

/// Writes until `stop` is cancelled and the queue is empty.
async fn run(
    mut connection: SqliteConnection,
    mut waiting: mpsc::Receiver<Box<dyn Work>>,
    stop: CancellationToken,
    seen: Arc<AtomicBool>,
    added: Arc<Notify>,
    feed: Feed,
) {
    loop {
        let first = tokio::select! {
            biased;
            work = waiting.recv() => work,
            () = stop.cancelled() => {
                // From here on callers get `Closed`; queued changes are still written.
                waiting.close();
                waiting.recv().await
            }
        };
        let Some(first) = first else { break };
        let mut batch = vec![first];
        while let Some(work) = (batch.len() < BATCH).then(|| waiting.try_recv().ok()).flatten() {
            batch.push(work);
        }
        answer(&mut connection, batch, &feed).await;
        if seen.swap(false, Ordering::Relaxed) {
            added.notify_one();
        }
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "closing the database");
    }
    // If all handles were dropped, so is the supervisor's scope.
    stop.cancelled().await;
}

async fn answer(connection: &mut SqliteConnection, mut batch: Vec<Box<dyn Work>>, feed: &Feed) {
    let mut noted = Vec::new();
    let committed = commit(connection, &mut batch, feed, &mut noted).await;
    if let Err((action, source)) = &committed {
        tracing::error!(error = %source, changes = batch.len(), "the store could not {action}");
        let _ = execute(connection, "rollback").await;
    } else {
        feed.publish(noted);
    }
    for work in batch {
        let result = committed.as_ref().map(|_| ()).map_err(|(action, e)| Error::shared(action, Arc::clone(e)));
        work.answer(result);
    }
}

/// Runs the batch in one transaction, and adds what its changes noted. A failed change is rolled back alone.
async fn commit(
    connection: &mut SqliteConnection,
    batch: &mut [Box<dyn Work>],
    feed: &Feed,
    noted: &mut Vec<feed::Change>,
) -> Result<(), (&'static str, Arc<sqlx::Error>)> {
    execute(connection, "begin immediate").await.map_err(|e| ("begin a transaction", e))?;
    // A single change needs no savepoint: the whole transaction is rolled back.
    if let [work] = batch {
        let (outcome, notes) = feed.watch(work.run(connection)).await;
        return match outcome {
            Outcome::Done => {
                noted.extend(notes);
                execute(connection, "commit").await.map_err(|e| ("commit a transaction", e))
            }
            Outcome::Undo => execute(connection, "rollback").await.map_err(|e| ("roll a transaction back", e)),
            Outcome::Lost(error) => Err(("finish a change", error)),
        };
    }
    for work in batch {
        execute(connection, "savepoint change").await.map_err(|e| ("set a savepoint", e))?;
        let (outcome, notes) = feed.watch(work.run(connection)).await;
        match outcome {
            Outcome::Done => noted.extend(notes),
            Outcome::Undo => {
                execute(connection, "rollback to change").await.map_err(|e| ("roll a change back", e))?;
            }
            Outcome::Lost(error) => return Err(("finish a change", error)),
        }
        execute(connection, "release change").await.map_err(|e| ("release a savepoint", e))?;
    }
    execute(connection, "commit").await.map_err(|e| ("commit a transaction", e))
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), Arc<sqlx::Error>> {
    sqlx::query(statement).execute(connection).await.map(|_| ()).map_err(Arc::new)
}
