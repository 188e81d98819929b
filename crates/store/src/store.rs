//! Opening and closing the database.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cabana_supervisor::Supervisor;
use cabana_types::BillingMode;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};
use tokio::sync::Notify;

use crate::feed::Feed;
use crate::measured::Measured;
use crate::writer::{Change, Writer};
use crate::{Error, migrations};

/// Read connections.
const READERS: u32 = 4;

/// How long closing waits for pending writes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The database of one server. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    writer: Writer,
    readers: SqlitePool,
    added: Arc<Notify>,
    feed: Feed,
    measured: Measured,
    billing: Arc<OnceLock<BillingMode>>,
    /// Supervises only the writer, so that it stops after everything else.
    supervisor: Supervisor,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Store {
    /// Opens the database for a tool or a test: a failure of the writer does not end the process.
    pub async fn open(path: &Path) -> Result<Self, Error> {
        Self::open_supervised(path, &Supervisor::new()).await
    }

    /// Opens the database file, creates it if it does not exist, and migrates its schema. If the writer fails, the
    /// supervisor reports it as fatal.
    pub async fn open_supervised(path: &Path, supervisor: &Supervisor) -> Result<Self, Error> {
        let supervisor = supervisor.scope();
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open { path: path.to_owned(), source };
        // SQLite gives its other files the mode of this one; they contain tokens.
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
        let feed = Feed::new();
        let writer = Writer::start(&supervisor, connection, Arc::clone(&added), feed.clone());
        let writer = writer.await.map_err(|e| failed(Box::new(e)))?;
        Ok(Self { writer, readers, added, feed, measured: Measured::default(), billing: Arc::default(), supervisor })
    }

    /// Waits for pending writes and closes the database; later calls return [`Error::Closed`] or fail.
    pub async fn close(&self) {
        self.readers.close().await;
        self.supervisor.stop(CLOSE_TIMEOUT).await;
    }

    pub(crate) fn added(&self) -> &Notify {
        &self.added
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Says whether use costs money, once; it does not where nobody said so.
    pub fn set_billing(&self, mode: BillingMode) {
        // A server says it once.
        let _ = self.billing.set(mode);
    }

    /// Whether use costs money.
    pub fn billing(&self) -> BillingMode {
        self.billing.get().copied().unwrap_or(BillingMode::Off)
    }

    pub(crate) fn measured(&self) -> &Measured {
        &self.measured
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
    migrations::migrator().run(connection).await.map_err(|error| match error {
        MigrateError::VersionMissing(version) => Error::NewerSchema { path: path(), version },
        MigrateError::Execute(source) => Error::query("read the schema", source),
        source => Error::Migrate { path: path(), source },
    })
}
