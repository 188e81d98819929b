//! What has changed, told to whoever listens, after the commit. A change notes itself while it runs in its transaction; the
//! writer keeps the note with the transaction and publishes it only if both were committed.
//!
//! While nobody listens, nothing is noted.

use std::cell::RefCell;
use std::sync::Arc;

use cabana_types::{BuildId, ProjectId, SandboxId, TeamId, TemplateId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;
use tokio::sync::broadcast;

use crate::column::Columns;
use crate::{Error, Store};

/// Changes that a listener may be behind; then it is told that it lost some.
const CAPACITY: usize = 4096;

/// A committed change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A sandbox has a new event; its row may have changed.
    Event(Arc<NewEvent>),
    /// A template, its tags or its builds changed, or it was deleted.
    Template {
        id: TemplateId,
        team: TeamId,
        project: ProjectId,
        /// Whether every team may use it.
        public: bool,
    },
    /// A build was requested or its status changed.
    Build(BuildId),
    /// Lines were added to a build's log.
    BuildLog(BuildId),
}

/// An event as it was inserted.
#[derive(Debug, PartialEq)]
pub struct NewEvent {
    pub id: String,
    pub kind: &'static str,
    pub data: Value,
    pub at: Timestamp,
    pub sandbox: SandboxId,
    pub team: TeamId,
}

/// The committed changes from now on.
pub type Changes = broadcast::Receiver<Change>;

tokio::task_local! {
    /// The notes of the change that runs.
    static NOTES: RefCell<Vec<Change>>;
}

/// Where committed changes are published.
#[derive(Debug, Clone)]
pub(crate) struct Feed(broadcast::Sender<Change>);

impl Feed {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(CAPACITY))
    }

    /// Runs a change, and returns what it noted with its result.
    pub(crate) async fn watch<T>(&self, change: impl Future<Output = T>) -> (T, Vec<Change>) {
        if self.0.receiver_count() == 0 {
            return (change.await, Vec::new());
        }
        NOTES.scope(RefCell::default(), async { (change.await, NOTES.with(RefCell::take)) }).await
    }

    /// Tells the listeners about changes that were committed.
    pub(crate) fn publish(&self, changes: Vec<Change>) {
        for change in changes {
            // All of them may have left.
            let _ = self.0.send(change);
        }
    }

    fn subscribe(&self) -> Changes {
        self.0.subscribe()
    }
}

impl Store {
    /// Listens to changes. What is read after this returned and what the listener gets have no gap between them.
    pub async fn changes(&self) -> Result<Changes, Error> {
        let changes = self.feed().subscribe();
        // The transaction that runs may have begun before anyone listened: wait until it is committed and can be read.
        self.write(|_| Box::pin(async { Ok(()) })).await?;
        Ok(changes)
    }
}

/// Notes a change for after the commit.
pub(crate) fn note(change: impl FnOnce() -> Change) {
    // Outside of the scope nobody listens.
    let _ = NOTES.try_with(|notes| notes.borrow_mut().push(change()));
}

/// Notes that a template changed.
pub(crate) async fn note_template(connection: &mut SqliteConnection, id: &TemplateId) -> Result<(), Error> {
    if NOTES.try_with(|_| ()).is_err() {
        return Ok(());
    }
    let row = sqlx::query("select team, project, public from templates where id = $1")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .map_err(|e| Error::query("read the team of a template", e))?;
    if let Some(row) = row {
        let row = Columns(&row);
        let (team, project, public) = (row.id("team")?, row.id("project")?, row.flag("public")?);
        note(|| Change::Template { id: id.clone(), team, project, public });
    }
    Ok(())
}

/// Notes that a build of a template changed.
pub(crate) async fn note_build(
    connection: &mut SqliteConnection,
    build: &BuildId,
    template: &TemplateId,
) -> Result<(), Error> {
    note(|| Change::Build(build.clone()));
    note_template(connection, template).await
}
