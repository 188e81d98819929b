//! Passes the store's changes on to sockets.

use crate::auth::Reach;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::ws::Utf8Bytes;
use cabana_store::{Change, Changes, ChatRow, NewEvent, Store};
use cabana_types::error::chain;
use cabana_types::wire::{Chat, Event, ListedSandbox, Service};
use cabana_types::{ProjectId, SandboxId, ServiceId, TeamId, TemplateId};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::frame;
use super::outbox::{Outbox, is_about};
use super::topic::Topic;
use crate::api::{listed_if_shown, name_creators, wire_event};

/// Sockets of one team.
const MAX_SOCKETS: usize = 512;
/// Changes whose sandboxes are read at once.
const BATCH: usize = 256;

/// All sockets that get live updates.
#[derive(Debug)]
pub(crate) struct Live {
    store: Store,
    teams: Mutex<HashMap<TeamId, HashMap<u64, Arc<Outbox>>>>,
    /// How many sockets there are: without any, nobody listens to the store.
    open: watch::Sender<usize>,
    /// Whether changes that are committed from now on reach the sockets.
    listening: watch::Sender<bool>,
    stopping: CancellationToken,
    next: AtomicU64,
}

/// One socket, until it is dropped.
#[derive(Debug)]
pub(crate) struct Member {
    live: Arc<Live>,
    team: TeamId,
    number: u64,
    pub(crate) outbox: Arc<Outbox>,
}

impl Live {
    pub(crate) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self {
            store,
            teams: Mutex::default(),
            open: watch::Sender::new(0),
            listening: watch::Sender::new(false),
            stopping: CancellationToken::new(),
            next: AtomicU64::new(0),
        })
    }

    /// Cancelled when the server stops and all sockets are to be closed.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Adds a socket of a team, which gets what its caller reaches; `None` if it has too many.
    pub(crate) fn join(self: &Arc<Self>, reach: &Reach) -> Option<Member> {
        let (team, outbox) = (&reach.team, Arc::new(Outbox::new(reach.clone())));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut teams = self.teams();
            let sockets = teams.entry(team.clone()).or_default();
            if sockets.len() >= MAX_SOCKETS {
                return None;
            }
            sockets.insert(number, Arc::clone(&outbox));
        }
        self.open.send_modify(|open| *open += 1);
        Some(Member { live: Arc::clone(self), team: team.clone(), number, outbox })
    }

    /// Passes changes on until `stop`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), cabana_store::Error> {
        let mut open = self.open.subscribe();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                // Cannot fail: the sender is in `self`.
                _ = open.wait_for(|open| *open > 0) => {}
            }
            let changes = self.store.changes().await?;
            // Sockets from before a restart of this task may have missed something.
            self.lose_all();
            let _listening = Listening::begin(&self.listening);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = open.wait_for(|open| *open == 0) => {}
                never = self.pass_on(changes) => match never {},
            }
        }
    }

    async fn pass_on(&self, mut changes: Changes) -> std::convert::Infallible {
        loop {
            let mut batch = Vec::new();
            match changes.recv().await {
                Ok(change) => batch.push(change),
                Err(RecvError::Lagged(lost)) => {
                    tracing::warn!(lost, "live updates are behind");
                    self.lose_all();
                }
                // The store is closed: the server stops.
                Err(RecvError::Closed) => std::future::pending().await,
            }
            while batch.len() < BATCH {
                match changes.try_recv() {
                    Ok(change) => batch.push(change),
                    Err(TryRecvError::Lagged(_)) => self.lose_all(),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            self.deliver(batch).await;
        }
    }

    async fn deliver(&self, batch: Vec<Change>) {
        let (mut events, mut builds, mut templates) = (Vec::new(), HashSet::new(), Vec::new());
        for change in batch {
            match change {
                Change::Event(event) => events.push(event),
                Change::Build(id) | Change::BuildLog(id) => drop(builds.insert(id)),
                Change::Template { id, team, project, public } => {
                    let change = (id, (!public).then_some((team, project)));
                    if !templates.contains(&change) {
                        templates.push(change);
                    }
                }
            }
        }
        for outbox in self.sockets(None).iter().filter(|_| !builds.is_empty()) {
            // Whether the team may see the build was decided when it subscribed.
            builds.iter().for_each(|id| outbox.poke_build(id));
        }
        for (id, place) in &templates {
            self.template_changed(id, place.as_ref());
        }
        events.retain(|event| self.sockets(Some(&event.team)).iter().any(|outbox| outbox.wants(&event.sandbox)));
        if !events.is_empty() {
            self.deliver_events(&events).await;
        }
    }

    /// Tells a team that a template changed, or all if every team may use it.
    fn template_changed(&self, id: &TemplateId, place: Option<&(TeamId, ProjectId)>) {
        let mut written = None;
        let outboxes = match place {
            Some((team, project)) => self.sockets_in(team, project),
            None => self.sockets(None),
        };
        for outbox in outboxes {
            outbox.push(
                |topic| *topic == Topic::Templates,
                |_, name| written.get_or_insert_with(|| frame::template(name, id)).clone(),
            );
        }
    }

    /// Whether a team has any socket.
    pub(crate) fn has_sockets(&self, team: &TeamId) -> bool {
        self.teams().contains_key(team)
    }

    /// A service does something else, or is set differently.
    pub(crate) fn service_changed(&self, team: &TeamId, service: &Service) {
        self.push_service(team, &service.sandbox_id, &service.id, |name| frame::service(name, service));
    }

    /// A service is gone.
    pub(crate) fn service_removed(&self, row: &cabana_store::Service) {
        self.push_service(&row.team, &row.sandbox, &row.id, |name| frame::service_removed(name, &row.id, &row.sandbox));
    }

    fn push_service(&self, team: &TeamId, sandbox: &SandboxId, id: &ServiceId, write: impl Fn(&str) -> Utf8Bytes) {
        let (mut of_sandbox, mut of_service): (Option<Utf8Bytes>, Option<Utf8Bytes>) = (None, None);
        for outbox in self.sockets(Some(team)) {
            outbox.push(
                |topic| match topic {
                    Topic::Sandbox(own) => own == sandbox,
                    Topic::Service(own) => own == id,
                    _ => false,
                },
                |topic, name| {
                    let written = if matches!(topic, Topic::Service(_)) { &mut of_service } else { &mut of_sandbox };
                    written.get_or_insert_with(|| write(name)).clone()
                },
            );
        }
    }

    /// A chat is different.
    pub(crate) fn chat_changed(&self, team: &TeamId, chat: &Chat) {
        self.push_chats(team, &chat.project_id, |name| frame::chat(name, chat));
    }

    /// A chat is gone.
    pub(crate) fn chat_removed(&self, row: &ChatRow) {
        self.push_chats(&row.team, row.project.as_str(), |name| frame::chat_removed(name, &row.id));
    }

    fn push_chats(&self, team: &TeamId, project: &str, write: impl Fn(&str) -> Utf8Bytes) {
        let mut written: Option<Utf8Bytes> = None;
        let Ok(project) = project.parse() else { return };
        for outbox in self.sockets_in(team, &project) {
            outbox.push(|topic| *topic == Topic::Chats, |_, name| written.get_or_insert_with(|| write(name)).clone());
        }
    }

    async fn deliver_events(&self, events: &[Arc<NewEvent>]) {
        let ids: BTreeSet<&SandboxId> = events.iter().map(|event| &event.sandbox).collect();
        let rows = match self.store.sandboxes_by_id(ids).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not read sandboxes for live updates");
                return self.lose_all();
            }
        };
        let mut rows: HashMap<SandboxId, _> = rows
            .into_iter()
            .map(|row| {
                (
                    row.id.clone(),
                    (row.template.to_string(), row.build.clone(), row.project.clone(), listed_if_shown(row)),
                )
            })
            .collect();
        if let Err(error) = name_creators(&self.store, rows.values_mut().filter_map(|(.., row)| row.as_mut())).await {
            tracing::warn!(error = chain(&error), "could not read names for live updates");
        }
        for event in events {
            // A sandbox without a row was forgotten, and its events with it.
            let Some((template, build, project, sandbox)) = rows.get(&event.sandbox) else { continue };
            let wire = wire_event(cabana_store::Event {
                id: event.id.clone(),
                kind: event.kind.to_owned(),
                data: event.data.clone(),
                at: event.at,
                sandbox: event.sandbox.clone(),
                team: event.team.clone(),
                template: template.clone(),
                build: build.clone(),
            });
            self.push_event(event, project, &wire, sandbox.as_ref());
        }
    }

    fn push_event(&self, event: &NewEvent, project: &ProjectId, wire: &Event, sandbox: Option<&ListedSandbox>) {
        let (mut to_all, mut to_one): (Option<Utf8Bytes>, Option<Utf8Bytes>) = (None, None);
        for outbox in self.sockets_in(&event.team, project) {
            outbox.push(
                |topic| is_about(topic, &event.sandbox),
                |topic, name| {
                    let written = if *topic == Topic::Sandboxes { &mut to_all } else { &mut to_one };
                    written.get_or_insert_with(|| frame::sandbox_event(name, wire, sandbox)).clone()
                },
            );
        }
    }

    fn lose_all(&self) {
        for outbox in self.sockets(None) {
            outbox.lose_all();
        }
    }

    /// The sockets of a team, or all.
    fn sockets(&self, team: Option<&TeamId>) -> Vec<Arc<Outbox>> {
        let teams = self.teams();
        match team {
            Some(team) => teams.get(team).into_iter().flat_map(HashMap::values).cloned().collect(),
            None => teams.values().flat_map(HashMap::values).cloned().collect(),
        }
    }

    /// The sockets of those who reach a project.
    fn sockets_in(&self, team: &TeamId, project: &ProjectId) -> Vec<Arc<Outbox>> {
        let mut sockets = self.sockets(Some(team));
        sockets.retain(|outbox| outbox.reach.sees(team, project));
        sockets
    }

    fn teams(&self) -> MutexGuard<'_, HashMap<TeamId, HashMap<u64, Arc<Outbox>>>> {
        self.teams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Waits until changes reach the socket. What is read after this and what is sent have no gap between them.
    pub(crate) async fn listening(&self) {
        // Cannot fail: the sender is in `live`.
        let _ = self.live.listening.subscribe().wait_for(|listening| *listening).await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        {
            let mut teams = self.live.teams();
            if let Some(sockets) = teams.get_mut(&self.team) {
                sockets.remove(&self.number);
                if sockets.is_empty() {
                    teams.remove(&self.team);
                }
            }
        }
        self.live.open.send_modify(|open| *open -= 1);
    }
}

/// Says that changes reach the sockets, until it is dropped.
struct Listening<'a>(&'a watch::Sender<bool>);

impl<'a> Listening<'a> {
    fn begin(listening: &'a watch::Sender<bool>) -> Self {
        listening.send_replace(true);
        Self(listening)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}
