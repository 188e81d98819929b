//! Brings the guest to what the row of a service wants. It may be called at any time, by anyone; what is done already is not done again.

use std::sync::Arc;
use std::time::Duration;

use cabana_edge::Route;
use cabana_guest_link::OutputQuery;
use cabana_store::{RunEnd, Service};
use cabana_supervisor::Backoff;
use cabana_types::error::chain;
use cabana_types::guest::services::Output;
use cabana_types::service::OnWake;
use jiff::Timestamp;

use super::Services;
use super::entry::Entry;
use super::guest::{self, NotStarted};
use super::lines;
use crate::failpoint;

/// How long a service may take to end before it is killed.
const END_SECONDS: u64 = 10;
/// How long a guest may take to say what a service printed.
const LINES_TIME: Duration = Duration::from_secs(2);
/// Bytes of the last output that are looked at.
pub(super) const TAIL: usize = 64 << 10;

/// Why a service is not as it is wanted.
#[derive(Debug, thiserror::Error)]
enum DriveError {
    #[error("the guest does not respond")]
    Guest(#[from] std::io::Error),
    #[error("the guest does not respond: {0}")]
    Unresponsive(String),
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl Services {
    /// Drives a service in a running sandbox. If that fails for a while, it goes on in the background as long as the sandbox runs.
    pub(super) async fn drive(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>) {
        if let Err(error) = self.drive_once(entry, route).await {
            tracing::debug!(service = %entry.id, error = chain(&error), "could not drive a service");
            let (this, entry, route) = (Arc::clone(self), Arc::clone(entry), Arc::clone(route));
            self.tasks.spawn("drive a service", async move { this.retry(&entry, &route).await });
        }
        self.tell(entry).await;
    }

    async fn retry(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>) {
        let mut backoff = Backoff::default();
        loop {
            tokio::select! {
                () = route.gone.cancelled() => return,
                goes_on = backoff.wait(self.tasks.stop_token()) => if !goes_on { return },
            }
            match self.drive_once(entry, route).await {
                Ok(()) => return self.tell(entry).await,
                Err(error) => {
                    tracing::warn!(service = %entry.id, error = chain(&error), "could not drive a service; retrying")
                }
            }
        }
    }

    async fn drive_once(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>) -> Result<(), DriveError> {
        let _held = entry.lock.lock().await;
        loop {
            let row = entry.row();
            if !row.up {
                self.end_last(entry, route, &row).await?;
                if row.removed {
                    self.forget(entry).await?;
                }
                return Ok(());
            }
            if row.is_pending() {
                self.end_last(entry, route, &row).await?;
                self.start(entry, route, &row).await?;
            }
            if self.observe(entry, route).await? {
                return Ok(());
            }
        }
    }

    /// Ends what runs of an earlier start.
    async fn end_last(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        route: &Arc<Route>,
        row: &Service,
    ) -> Result<(), DriveError> {
        let Some(last) = row.last.as_ref().filter(|last| last.end.is_none()) else { return Ok(()) };
        entry.end_watch();
        route.link.end(&guest::tag(&row.id, last.run), END_SECONDS).await?;
        let end = RunEnd { at: Timestamp::now(), exit_code: None, reason: None };
        self.write_end(entry, last.run, end, Vec::new()).await?;
        Ok(())
    }

    /// Starts the wanted run, unless a server that was killed has done that.
    async fn start(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>, row: &Service) -> Result<(), DriveError> {
        let tag = guest::tag(&row.id, row.run);
        let found = match route.link.output(&tag, OutputQuery { max: 0, ..OutputQuery::default() }).await {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                return self.too_old(entry, row).await;
            }
            found => found?,
        };
        let started = if found.command.is_some() {
            Ok(())
        } else {
            failpoint::hit("service.start");
            match guest::start(route, row).await {
                Ok(()) => Ok(()),
                Err(NotStarted::Refused(why)) => Err(why),
                Err(NotStarted::Unresponsive(why)) => return Err(DriveError::Unresponsive(why)),
            }
        };
        failpoint::hit("service.started");
        let now = Timestamp::now();
        if let Some(row) = self.store.service_started(row.id.clone(), row.run, found.boot, now).await? {
            self.adopt(row);
        }
        if let Err(why) = started {
            let end =
                RunEnd { at: now, exit_code: None, reason: Some(format!("the command could not be started: {why}")) };
            self.write_end(entry, row.run, end, Vec::new()).await?;
        }
        Ok(())
    }

    /// The guest of a sandbox that an earlier version of the server has started.
    async fn too_old(self: &Arc<Self>, entry: &Arc<Entry>, row: &Service) -> Result<(), DriveError> {
        let now = Timestamp::now();
        if let Some(row) = self.store.service_started(row.id.clone(), row.run, "none".to_owned(), now).await? {
            self.adopt(row);
        }
        let reason = "the sandbox was started by an earlier version of the server, which has no services; pause it without memory \
                      and resume it";
        let end = RunEnd { at: now, exit_code: None, reason: Some(reason.to_owned()) };
        Ok(self.write_end(entry, row.run, end, Vec::new()).await?)
    }

    /// Finds out what became of the start that was made. `false` if another one is wanted now.
    async fn observe(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>) -> Result<bool, DriveError> {
        let row = entry.row();
        let Some(last) = row.last.as_ref().filter(|last| last.end.is_none()) else { return Ok(true) };
        let Output { boot, command } = route
            .link
            .output(&guest::tag(&row.id, last.run), OutputQuery { max: TAIL, ..OutputQuery::default() })
            .await?;
        if boot != last.boot {
            // The sandbox was started again from its disk.
            entry.see(|seen| seen.open = None);
            let up = row.settings.on_wake == OnWake::Restart;
            if !up {
                let reason = "the sandbox was started again from its disk".to_owned();
                let end = RunEnd { at: Timestamp::now(), exit_code: None, reason: Some(reason) };
                self.write_end(entry, last.run, end, Vec::new()).await?;
            }
            if let Some(row) = self.store.want_service(row.id.clone(), up, up, Timestamp::now()).await? {
                self.adopt(row);
            }
            return Ok(false);
        }
        match command {
            // Processes that it has left behind may do its work.
            None if self.has_left(route, &row, last.run).await => self.watch(entry, route, last.run),
            None => {
                let reason = "the command has ended; how is not known any more".to_owned();
                let end = RunEnd { at: Timestamp::now(), exit_code: None, reason: Some(reason) };
                self.write_end(entry, last.run, end, Vec::new()).await?;
            }
            Some(_) => self.watch(entry, route, last.run),
        }
        Ok(true)
    }

    /// Whether processes of a start listen on its port although its command has ended.
    async fn has_left(&self, route: &Route, row: &Service, run: u32) -> bool {
        let found = route.link.listening(row.port, Some(&guest::tag(&row.id, run)), Duration::ZERO).await;
        found.is_ok_and(|found| found.alive && found.own)
    }

    /// Writes how a start ended.
    pub(super) async fn write_end(
        &self,
        entry: &Arc<Entry>,
        run: u32,
        end: RunEnd,
        lines: Vec<String>,
    ) -> Result<(), cabana_store::Error> {
        if let Some(row) = self.store.service_ended(entry.id.clone(), run, end, lines).await? {
            self.adopt(row);
        }
        Ok(())
    }

    /// The last lines of a start, as far as the guest has them.
    pub(super) async fn last_lines(&self, entry: &Entry, route: &Route, run: u32) -> Vec<String> {
        let (tag, query) = (guest::tag(&entry.id, run), OutputQuery { max: TAIL, ..OutputQuery::default() });
        let output = tokio::time::timeout(LINES_TIME, route.link.output(&tag, query));
        let command = output.await.ok().and_then(Result::ok).and_then(|output| output.command);
        command.map(|command| lines::described(&lines::decode(&command.data))).unwrap_or_default()
    }
}
