//! Opening and closing the database.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};
use tokio::sync::Notify;

use crate::Error;
use crate::writer::{Change, Writer};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// Connections that read.
const READERS: u32 = 4;

/// Everything that is remembered. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    writer: Writer,
    readers: SqlitePool,
    added: Arc<Notify>,
    task: Arc<tokio::sync::Mutex<Option<tokio::task::JoinHandle<()>>>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// Opens the database file, makes it if it is not there, and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open { path: path.to_owned(), source };
        // SQLite gives its own files the mode of this one; tokens are in there.
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(|e| failed(Box::new(e)))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(5))
            .disable_statement_logging();
        let mut connection = options.connect().await.map_err(|e| failed(Box::new(e)))?;
        migrate(&mut connection, path).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options.read_only(true))
            .await
            .map_err(|e| failed(Box::new(e)))?;
        let added = Arc::new(Notify::new());
        let (writer, task) = Writer::start(connection, Arc::clone(&added)).await.map_err(|e| failed(Box::new(e)))?;
        Ok(Self { writer, readers, added, task: Arc::new(tokio::sync::Mutex::new(Some(task))) })
    }

    /// Waits for what is being written and closes the database; later calls answer [`Error::Closed`] or fail.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.stop().await;
        if let Some(task) = self.task.lock().await.take() {
            let _ = task.await;
        }
    }

    pub(crate) fn added(&self) -> &Notify {
        &self.added
    }

    pub(crate) fn reader(&self) -> &SqlitePool {
        &self.readers
    }

    pub(crate) async fn write<T, F>(&self, change: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Change<'c, T> + Send + 'static,
    {
        self.writer.write(change).await
    }
}

async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
    let path = || PathBuf::from(path);
    MIGRATIONS.run(connection).await.map_err(|error| match error {
        MigrateError::VersionMissing(version) => Error::NewerSchema { path: path(), version },
        MigrateError::Execute(source) => Error::query("read the schema", source),
        source => Error::Migrate { path: path(), source },
    })
}
