//! Services: commands in sandboxes that people look at through a port.
//!
//! A row says what is wanted; `drive` brings the guest to it, whoever asks: a request, or a sandbox that runs again. `watch` follows what
//! a service does. All rows of sandboxes that have not ended are in memory, because the edge asks for them with every request.

mod describe;
mod drive;
mod entry;
mod grants;
mod guest;
mod lines;
mod log;
mod previews;
mod routes;
mod tickets;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use cabana_edge::preview::Preview;
use cabana_edge::{Directory, Route};
use cabana_store::{Service, ServicePut, ServiceSettings, Store};
use cabana_supervisor::TaskSet;
use cabana_types::{SandboxId, ServiceId, TeamId};
use jiff::Timestamp;

pub(crate) use self::describe::Base;
use self::entry::Entry;
pub(crate) use self::grants::{Grants, LinkError};
pub(crate) use self::log::{LogPart, follow};
pub(crate) use self::previews::AppPreviews;
pub(crate) use self::tickets::{Ticket, Tickets};
use crate::live::Live;

/// How long work on services may take to end when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// All services of sandboxes that have not ended.
#[derive(Debug)]
pub(crate) struct Services {
    store: Store,
    directory: Arc<Directory>,
    live: Arc<Live>,
    /// Where services are, for those who did not ask.
    base: Option<Base>,
    index: RwLock<Index>,
    tasks: TaskSet,
}

#[derive(Debug, Default)]
struct Index {
    by_id: HashMap<ServiceId, Arc<Entry>>,
    by_sandbox: HashMap<SandboxId, Vec<Arc<Entry>>>,
    by_slug: HashMap<String, Arc<Entry>>,
}

/// Why a service was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("{process} in the sandbox listens on port {port} already; stop it or choose another port")]
    PortInUse { port: u16, process: String },
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl Services {
    /// Loads the services of all sandboxes that have not ended.
    pub(crate) async fn open(
        store: Store,
        directory: Arc<Directory>,
        live: Arc<Live>,
        base: Option<Base>,
    ) -> Result<Arc<Self>, cabana_store::Error> {
        let services = Self { store, directory, live, base, index: RwLock::default(), tasks: TaskSet::new() };
        let rows = services.store.services().await?;
        let mut index = services.write();
        for row in rows {
            index.insert(&Arc::new(Entry::new(row)));
        }
        drop(index);
        Ok(Arc::new(services))
    }

    /// Stops following services. They keep running.
    pub(crate) async fn stop(&self) {
        if !self.tasks.stop(STOP_WAIT).await {
            tracing::warn!("work on services is left for the next start");
        }
    }

    /// A service of a team.
    pub(crate) fn get(&self, team: &TeamId, id: &ServiceId) -> Option<Arc<Service>> {
        let row = self.read().by_id.get(id)?.row();
        (row.team == *team && !row.removed).then_some(row)
    }

    /// Refuses a port that another program in the sandbox listens on.
    pub(crate) async fn check_port(&self, route: &Route, name: &str, port: u16) -> Result<(), StartError> {
        let rows: Vec<_> = self.of_sandbox(&route.id).into_iter().map(|entry| entry.row()).collect();
        if rows.iter().any(|row| row.name != name && row.up && row.port == Some(port)) {
            // The store refuses it, and says which service has it.
            return Ok(());
        }
        let own = rows.into_iter().find(|row| row.name == name);
        let tag = own.and_then(|row| row.last.as_ref().map(|last| guest::tag(&row.id, last.run)));
        // A guest that does not answer is noticed when the service is started.
        let Ok(found) = route.link.listening(Some(port), tag.as_deref(), Duration::ZERO).await else { return Ok(()) };
        if found.port.is_none() || found.own {
            return Ok(());
        }
        let process = found.process.map_or_else(|| "A program".to_owned(), |name| lines::shown(&name));
        let process = found.pid.map_or_else(|| process.clone(), |pid| format!("{process} (pid {pid})"));
        Err(StartError::PortInUse { port, process })
    }

    /// Writes that a service is to be started, instead of the one that has its name.
    pub(crate) async fn put(
        &self,
        service: Service,
        keep_access: bool,
        most: u32,
    ) -> Result<ServicePut, cabana_store::Error> {
        let put = self.store.put_service(service, keep_access, most).await?;
        if let ServicePut::Done(row) = &put {
            self.adopt((**row).clone());
        }
        Ok(put)
    }

    /// Changes whether a service is to run; with `again`, it is started anew. `None` if it is gone.
    pub(crate) async fn want(
        &self,
        id: &ServiceId,
        up: bool,
        again: bool,
    ) -> Result<Option<Arc<Service>>, cabana_store::Error> {
        let row = self.store.want_service(id.clone(), up, again, Timestamp::now()).await?;
        Ok(row.map(|row| self.adopt(row).row()))
    }

    /// Changes the settings of a service.
    pub(crate) async fn set(
        &self,
        id: &ServiceId,
        settings: ServiceSettings,
    ) -> Result<ServicePut, cabana_store::Error> {
        let set = self.store.set_service(id.clone(), settings).await?;
        if let ServicePut::Done(row) = &set {
            let entry = self.adopt((**row).clone());
            self.tell(&entry).await;
        }
        Ok(set)
    }

    /// Brings a service in a running sandbox to what is wanted of it.
    pub(crate) async fn run(self: &Arc<Self>, id: &ServiceId, route: &Arc<Route>) {
        if let Some(entry) = self.entry(id) {
            self.drive(&entry, route).await;
        }
    }

    /// Hides a service, ends it if its sandbox runs, and forgets it.
    pub(crate) async fn remove(self: &Arc<Self>, id: &ServiceId) -> Result<(), cabana_store::Error> {
        let Some(row) = self.store.remove_service(id.clone()).await? else { return Ok(()) };
        let entry = self.adopt(row);
        self.live.service_removed(&entry.row());
        match self.directory.get(&entry.sandbox) {
            Some(route) => self.drive(&entry, &route).await,
            // If nothing of it can be left, it is forgotten now; else when the sandbox runs again.
            None if entry.row().last.as_ref().is_none_or(|last| last.end.is_some()) => self.forget(&entry).await?,
            None => {}
        }
        Ok(())
    }

    async fn forget(&self, entry: &Arc<Entry>) -> Result<(), cabana_store::Error> {
        self.store.delete_service(entry.id.clone()).await?;
        self.write().remove(&entry.id);
        Ok(())
    }

    /// Somebody looks at a service of their team: its sandbox is not idle.
    pub(crate) fn presence(&self, team: &TeamId, id: &ServiceId) {
        let Some(entry) = self.read().by_id.get(id).filter(|entry| entry.row().team == *team).cloned() else { return };
        entry.touched.touch();
        if let Some(route) = self.directory.get(&entry.sandbox) {
            drop(route.in_flight.begin());
        }
    }

    /// The services of a sandbox, also removed ones.
    fn of_sandbox(&self, id: &SandboxId) -> Vec<Arc<Entry>> {
        self.read().by_sandbox.get(id).cloned().unwrap_or_default()
    }

    fn entry(&self, id: &ServiceId) -> Option<Arc<Entry>> {
        self.read().by_id.get(id).cloned()
    }

    /// The service at a port: one that is to run before one that is not.
    pub(crate) fn at(&self, sandbox: &SandboxId, port: u16) -> Option<Arc<Preview>> {
        let index = self.read();
        let previews = index.by_sandbox.get(sandbox)?.iter().filter_map(|entry| entry.preview());
        let mut found: Vec<_> = previews.filter(|(_, preview)| preview.port == port).collect();
        found.sort_by_key(|(up, _)| !up);
        found.into_iter().next().map(|(_, preview)| preview)
    }

    /// The service that has a slug.
    pub(crate) fn by_slug(&self, slug: &str) -> Option<Arc<Preview>> {
        Some(self.read().by_slug.get(slug)?.preview()?.1)
    }

    /// The service of an id, as the edge sees it.
    pub(crate) fn preview(&self, id: &ServiceId) -> Option<Arc<Preview>> {
        Some(self.read().by_id.get(id)?.preview()?.1)
    }

    /// Takes a row that was written into memory.
    fn adopt(&self, row: Service) -> Arc<Entry> {
        let mut index = self.write();
        let entry = match index.by_id.get(&row.id) {
            Some(entry) => {
                let entry = Arc::clone(entry);
                index.by_slug.retain(|_, other| other.id != entry.id);
                entry.set_row(row);
                entry
            }
            None => Arc::new(Entry::new(row)),
        };
        index.insert(&entry);
        entry
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn insert(&mut self, entry: &Arc<Entry>) {
        if let Some(slug) = entry.row().settings.slug.clone() {
            self.by_slug.insert(slug, Arc::clone(entry));
        }
        if self.by_id.insert(entry.id.clone(), Arc::clone(entry)).is_none() {
            self.by_sandbox.entry(entry.sandbox.clone()).or_default().push(Arc::clone(entry));
        }
    }

    fn remove(&mut self, id: &ServiceId) {
        let Some(entry) = self.by_id.remove(id) else { return };
        self.by_slug.retain(|_, other| other.id != *id);
        if let Some(others) = self.by_sandbox.get_mut(&entry.sandbox) {
            others.retain(|other| other.id != *id);
            if others.is_empty() {
                self.by_sandbox.remove(&entry.sandbox);
            }
        }
    }
}
