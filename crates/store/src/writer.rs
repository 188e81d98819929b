//! The one writer: a task with the only connection that may change anything. Changes that wait while a commit is under
//! way go together into the next transaction, so that many callers share one flush to the disk.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::sqlite::SqliteOperation;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::Error;
use crate::error::is_local;

/// Changes that may wait; callers beyond that wait for room.
const QUEUE: usize = 1024;
/// Changes in one transaction.
const BATCH: usize = 64;

/// The future of a change.
pub(crate) type Change<'c, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>;

/// A handle to the writer.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
}

enum Message {
    Change(Box<dyn Work>),
    Stop,
}

impl Writer {
    /// Starts the writer's task. It tells `added` whenever it has committed an entry of a webhook's queue.
    pub(crate) async fn start(
        mut connection: SqliteConnection,
        added: Arc<Notify>,
    ) -> Result<(Self, tokio::task::JoinHandle<()>), sqlx::Error> {
        let seen = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&seen);
        // SQLite itself tells of the rows, so that no change has to remember to.
        connection.lock_handle().await?.set_update_hook(move |change| {
            if change.table == "deliveries" && change.operation == SqliteOperation::Insert {
                mark.store(true, Ordering::Relaxed);
            }
        });
        let (queue, waiting) = mpsc::channel(QUEUE);
        Ok((Self { queue }, tokio::spawn(run(connection, waiting, seen, added))))
    }

    /// Runs a change in a transaction and returns when it is on the disk. If the change fails, nothing of it stays.
    pub(crate) async fn write<T, F>(&self, change: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Change<'c, T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work = Waiting { change: Some(change), result: None, answer };
        self.queue.send(Message::Change(Box::new(work))).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Tells the writer to finish what waits and close the connection.
    pub(crate) async fn stop(&self) {
        let _ = self.queue.send(Message::Stop).await;
    }
}

/// How a change went, before the commit.
enum Outcome {
    Done,
    Undo,
    /// The transaction itself is lost.
    Lost(Arc<sqlx::Error>),
}

/// A waiting change without its types.
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
        // Whoever asked may have gone away; the change stands.
        let _ = self.answer.send(result);
    }
}

async fn run(
    mut connection: SqliteConnection,
    mut waiting: mpsc::Receiver<Message>,
    seen: Arc<AtomicBool>,
    added: Arc<Notify>,
) {
    let mut stop = false;
    while !stop {
        let mut batch = Vec::new();
        match waiting.recv().await {
            Some(Message::Change(work)) => batch.push(work),
            Some(Message::Stop) | None => stop = true,
        }
        while batch.len() < BATCH {
            match waiting.try_recv() {
                Ok(Message::Change(work)) => batch.push(work),
                Ok(Message::Stop) => stop = true,
                Err(_) => break,
            }
        }
        if !batch.is_empty() {
            answer(&mut connection, batch).await;
            if seen.swap(false, Ordering::Relaxed) {
                added.notify_one();
            }
        }
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "closing the database");
    }
}

async fn answer(connection: &mut SqliteConnection, mut batch: Vec<Box<dyn Work>>) {
    let committed = commit(connection, &mut batch).await;
    if let Err((action, source)) = &committed {
        tracing::error!(error = %source, changes = batch.len(), "the store could not {action}");
        let _ = execute(connection, "rollback").await;
    }
    for work in batch {
        let result = committed.as_ref().map(|_| ()).map_err(|(action, e)| Error::shared(action, Arc::clone(e)));
        work.answer(result);
    }
}

/// Runs the batch in one transaction. A change that fails alone is taken back alone.
async fn commit(
    connection: &mut SqliteConnection,
    batch: &mut [Box<dyn Work>],
) -> Result<(), (&'static str, Arc<sqlx::Error>)> {
    execute(connection, "begin immediate").await.map_err(|e| ("begin a transaction", e))?;
    // A transaction with a single change needs no savepoint: it is taken back whole.
    if let [work] = batch {
        return match work.run(connection).await {
            Outcome::Done => execute(connection, "commit").await.map_err(|e| ("commit a transaction", e)),
            Outcome::Undo => execute(connection, "rollback").await.map_err(|e| ("roll a transaction back", e)),
            Outcome::Lost(error) => Err(("finish a change", error)),
        };
    }
    for work in batch {
        execute(connection, "savepoint change").await.map_err(|e| ("set a savepoint", e))?;
        match work.run(connection).await {
            Outcome::Done => {}
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
