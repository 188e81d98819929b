//! What the server keeps in memory about one service.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_edge::preview::{Preview, Touched};
use cabana_store::Service;
use cabana_types::service::Run;
use cabana_types::{SandboxId, ServiceId};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A service.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: ServiceId,
    pub(super) sandbox: SandboxId,
    /// When somebody last looked at it.
    pub(super) touched: Arc<Touched>,
    /// Held by the task that acts on it.
    pub(super) lock: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Changes when anything about it does.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    row: Arc<Service>,
    seen: Seen,
    preview: Option<Arc<Preview>>,
    /// Ends the task that follows it.
    watch: Option<(u32, DropGuard)>,
    /// Starts in a row that did not last.
    failures: u32,
}

/// A start that lasted so long was not in vain.
const LASTED: SignedDuration = SignedDuration::from_secs(60);
/// Longest pause before a service that is always on is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What was seen of the wanted start.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// When its sandbox ran again.
    pub(super) awake_since: Option<Timestamp>,
    /// Whether something listens on its port.
    pub(super) open: Option<bool>,
    /// Another port that it listens on, although it was asked to use one.
    pub(super) other_port: Option<u16>,
}

impl Entry {
    pub(super) fn new(row: Service) -> Self {
        let (touched, row) = (Arc::default(), Arc::new(row));
        let preview = preview(&row, &touched);
        Self {
            id: row.id.clone(),
            sandbox: row.sandbox.clone(),
            touched,
            lock: tokio::sync::Mutex::default(),
            state: Mutex::new(State { row, seen: Seen::default(), preview, watch: None, failures: 0 }),
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn row(&self) -> Arc<Service> {
        Arc::clone(&self.state().row)
    }

    /// Takes a row that was written. Those who write at the same time may bring theirs in another order than the store's: an older row
    /// than the one that is here changes nothing.
    pub(super) fn set_row(&self, row: Service) {
        let row = Arc::new(row);
        let preview = preview(&row, &self.touched);
        let mut state = self.state();
        if row.version < state.row.version {
            return;
        }
        if state.row.run != row.run {
            state.seen = Seen { awake_since: state.seen.awake_since, ..Seen::default() };
        }
        (state.row, state.preview) = (row, preview);
        drop(state);
        self.changed.send_replace(());
    }

    /// Whether it is to run, and how the edge sees it; `None` until its port is known.
    pub(super) fn preview(&self) -> Option<(bool, Arc<Preview>)> {
        let state = self.state();
        Some((state.row.up, state.preview.clone()?))
    }

    pub(super) fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    /// Changes what was seen. Returns whether that made a difference.
    pub(super) fn see(&self, change: impl FnOnce(&mut Seen)) -> bool {
        let mut state = self.state();
        let before = (state.seen.open, state.seen.other_port);
        change(&mut state.seen);
        let changed = before != (state.seen.open, state.seen.other_port);
        drop(state);
        if changed {
            self.changed.send_replace(());
        }
        changed
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What is known of its command.
    pub(super) fn run(&self) -> Run {
        let state = self.state();
        let Some(last) = state.row.last.as_ref().filter(|_| !state.row.is_pending()) else { return Run::Pending };
        match &last.end {
            Some(end) => Run::Ended { reason: end.reason.clone().unwrap_or_else(|| "it was stopped".to_owned()) },
            None => Run::Alive {
                since: state.seen.awake_since.map_or(last.started_at, |awake| awake.max(last.started_at)),
                open: state.seen.open,
            },
        }
    }

    /// A token for the task that follows a start of it; `None` if one does. Tasks for earlier starts end.
    pub(super) fn begin_watch(&self, run: u32) -> Option<CancellationToken> {
        let mut state = self.state();
        if state.watch.as_ref().is_some_and(|(watched, _)| *watched == run) {
            return None;
        }
        let token = CancellationToken::new();
        state.watch = Some((run, token.clone().drop_guard()));
        Some(token)
    }

    /// How long to wait before it is started again, after a start that lasted so long.
    pub(super) fn pause_before_restart(&self, lasted: SignedDuration) -> Duration {
        let mut state = self.state();
        state.failures = if lasted >= LASTED { 0 } else { state.failures.saturating_add(1).min(16) };
        Duration::from_secs(1 << state.failures.saturating_sub(1).min(6)).min(LONGEST_PAUSE)
    }

    pub(super) fn end_watch(&self) {
        self.state().watch = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn preview(row: &Service, touched: &Arc<Touched>) -> Option<Arc<Preview>> {
    let port = row.port.filter(|_| !row.removed)?;
    Some(Arc::new(Preview {
        service: row.id.clone(),
        name: row.name.clone(),
        sandbox: row.sandbox.clone(),
        team: row.team.clone(),
        project: row.project.clone(),
        port,
        access: row.settings.access,
        host_mode: row.settings.host_mode,
        bridge: row.settings.bridge,
        touched: Arc::clone(touched),
    }))
}
