//! Follows a service that runs: when it opens its port, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use cabana_edge::Route;
use cabana_guest_link::OutputQuery;
use cabana_store::RunEnd;
use cabana_supervisor::Backoff;
use cabana_types::error::chain;
use cabana_types::guest::services::{CommandEnd, CommandOutput, Output};
use cabana_types::service::START_TIME;
use jiff::Timestamp;
use tokio::time::Instant;

use super::entry::Entry;
use super::lines::shown;
use super::{Services, guest};

/// Longest question to a guest.
const ASK: Duration = Duration::from_secs(30);
/// How often a service whose first process has left is looked at: nothing tells when the others end.
const LEFT: Duration = Duration::from_secs(5);
/// The same while it may still open its port.
const LEFT_NEW: Duration = Duration::from_millis(250);

impl Services {
    /// Follows a start of a service as long as its sandbox runs.
    pub(super) fn watch(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>, run: u32) {
        let Some(replaced) = entry.begin_watch(run) else { return };
        let (this, entry, route) = (Arc::clone(self), Arc::clone(entry), Arc::clone(route));
        let stopping = self.tasks.stop_token().clone();
        self.tasks.spawn("watch a service", async move {
            tokio::select! {
                () = replaced.cancelled() => {}
                () = route.gone.cancelled() => entry.end_watch(),
                () = stopping.cancelled() => {}
                () = this.follow(&entry, &route, run) => entry.end_watch(),
            }
        });
    }

    async fn follow(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>, run: u32) {
        let tag = guest::tag(&entry.id, run);
        self.await_port(entry, route, run, &tag).await;
        let (end, lines) = self.await_end(entry, route, run, &tag).await;
        tracing::debug!(service = %entry.id, ?end, "a service has ended");
        let mut backoff = Backoff::default();
        while let Err(error) = self.write_end(entry, run, end.clone(), lines.clone()).await {
            tracing::warn!(service = %entry.id, error = chain(&error), "could not write that a service has ended; retrying");
            if !backoff.wait(self.tasks.stop_token()).await {
                return;
            }
        }
        self.tell(entry).await;
        self.revive(entry, route, run).await;
    }

    /// Starts a service again that is always on and has ended by itself: soon, and later each time if it does not last.
    async fn revive(self: &Arc<Self>, entry: &Arc<Entry>, route: &Arc<Route>, run: u32) {
        let row = entry.row();
        let Some(last) = row.last.as_ref().filter(|last| last.run == run && row.up && row.settings.always_on) else {
            return;
        };
        let lasted = last.end.as_ref().map(|end| end.at.duration_since(last.started_at)).unwrap_or_default();
        tokio::time::sleep(entry.pause_before_restart(lasted)).await;
        let row = entry.row();
        if row.run != run || !row.up || !row.settings.always_on {
            return;
        }
        match self.store.want_service(entry.id.clone(), true, true, Timestamp::now()).await {
            Ok(Some(row)) => drop(self.adopt(row)),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(service = %entry.id, error = chain(&error), "could not start a service again");
                return;
            }
        }
        let (this, entry, route) = (Arc::clone(self), Arc::clone(entry), Arc::clone(route));
        self.tasks.spawn("drive a service", async move { this.drive(&entry, &route).await });
    }

    /// Returns when its port is open, it has ended, or it has had its time.
    async fn await_port(&self, entry: &Arc<Entry>, route: &Arc<Route>, run: u32, tag: &str) {
        let until = Instant::now() + START_TIME.unsigned_abs();
        let asked = entry.row().port;
        let mut backoff = Backoff::default();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match route.link.listening(asked, Some(tag), left.min(ASK)).await {
                Ok(found) => match found.port {
                    Some(port) => {
                        if asked.is_none() {
                            self.port_found(entry, run, port).await;
                        }
                        entry.see(|seen| seen.open = Some(true));
                        return self.tell(entry).await;
                    }
                    None if !found.alive => return,
                    None => {}
                },
                Err(error) => {
                    tracing::debug!(service = %entry.id, error = chain(&error), "could not ask for a port");
                    if !backoff.wait(self.tasks.stop_token()).await {
                        return;
                    }
                }
            }
        }
        self.look(entry, route, run).await;
        self.tell(entry).await;
    }

    async fn port_found(&self, entry: &Arc<Entry>, run: u32, port: u16) {
        match self.store.service_port_found(entry.id.clone(), run, port).await {
            Ok(Some(row)) => drop(self.adopt(row)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(service = %entry.id, error = chain(&error), "could not write the port of a service")
            }
        }
    }

    /// Looks once whether its port is open. Returns whether that made a difference.
    pub(super) async fn look(&self, entry: &Arc<Entry>, route: &Arc<Route>, run: u32) -> bool {
        let (row, tag) = (entry.row(), guest::tag(&entry.id, run));
        let Ok(found) = route.link.listening(row.port, Some(&tag), Duration::ZERO).await else { return false };
        if let (Some(port), None) = (found.port, row.port) {
            self.port_found(entry, run, port).await;
        }
        let mut other = None;
        if found.port.is_none() && row.port.is_some() {
            let any = route.link.listening(None, Some(&tag), Duration::ZERO).await;
            other = any.ok().and_then(|any| any.port);
        }
        entry.see(|seen| (seen.open, seen.other_port) = (Some(found.port.is_some()), other))
    }

    /// Returns how it ended, with its last lines.
    async fn await_end(&self, entry: &Arc<Entry>, route: &Arc<Route>, run: u32, tag: &str) -> (RunEnd, Vec<String>) {
        let begin = Instant::now();
        let mut backoff = Backoff::default();
        let query = OutputQuery { max: 0, wait: ASK, end_only: true, ..OutputQuery::default() };
        loop {
            let end = match route.link.output(tag, query).await {
                Ok(Output { command: Some(CommandOutput { end: None, .. }), .. }) => continue,
                Ok(Output { command, .. }) => command.and_then(|command| command.end),
                Err(error) => {
                    tracing::debug!(service = %entry.id, error = chain(&error), "could not ask for the end of a service");
                    backoff.wait(self.tasks.stop_token()).await;
                    continue;
                }
            };
            // Its first process may have left others behind that do its work.
            let found = route.link.listening(entry.row().port, Some(tag), Duration::ZERO).await.unwrap_or_default();
            let has_left = end.as_ref().is_some_and(|end| end.code == Some(0));
            if !found.alive || !(found.own || has_left) {
                return (described(end.as_ref()), self.last_lines(entry, route, run).await);
            }
            if let (Some(port), None) = (found.port, entry.row().port) {
                self.port_found(entry, run, port).await;
            }
            if entry.see(|seen| seen.open = Some(found.port.is_some())) {
                self.tell(entry).await;
            }
            let is_new = begin.elapsed() < START_TIME.unsigned_abs() && found.port.is_none();
            tokio::time::sleep(if is_new { LEFT_NEW } else { LEFT }).await;
        }
    }
}

/// How a command ended that nobody has asked to.
pub(super) fn described(end: Option<&CommandEnd>) -> RunEnd {
    let (exit_code, reason) = match end {
        Some(CommandEnd { code: Some(code), .. }) => (Some(*code), format!("the command ended with exit code {code}")),
        Some(CommandEnd { code: None, status }) => (None, format!("the command was ended ({})", shown(status))),
        None => (None, "the command has ended; how is not known any more".to_owned()),
    };
    RunEnd { at: Timestamp::now(), exit_code, reason: Some(reason) }
}
