//! Which sandboxes are up, and how to reach them: written by lifecycle, read by the edge on every request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use cabana_guest_link::GuestLink;
pub use cabana_store::Traffic;
use cabana_types::{SandboxId, Secret};
use tokio_util::sync::CancellationToken;

/// The way to a sandbox that is up.
#[derive(Debug)]
pub struct Route {
    /// The sandbox.
    pub id: SandboxId,
    /// How its guest and its ports are reached.
    pub link: GuestLink,
    /// The guest's token, to find the sandbox of a signed link that does not name it.
    pub access_token: Option<Secret>,
    /// What requests to its other ports need.
    pub traffic: Traffic,
    /// What is under way between the edge and it.
    pub activity: Arc<Activity>,
    /// Cancelled when the sandbox ends: every stream through the edge is then dropped at once.
    pub gone: CancellationToken,
}

/// All routes.
#[derive(Debug, Default)]
pub struct Directory {
    routes: RwLock<HashMap<SandboxId, Arc<Route>>>,
}

impl Directory {
    /// The way to a sandbox, if it is up.
    pub fn get(&self, id: &SandboxId) -> Option<Arc<Route>> {
        self.read().get(id).cloned()
    }

    /// Publishes a sandbox that came up.
    pub fn insert(&self, route: Route) {
        self.write().insert(route.id.clone(), Arc::new(route));
    }

    /// Withdraws a sandbox and drops every stream to it.
    pub fn remove(&self, id: &SandboxId) {
        if let Some(route) = self.write().remove(id) {
            route.gone.cancel();
        }
    }

    /// The first sandbox that the test accepts.
    pub fn find(&self, test: impl Fn(&Route) -> bool) -> Option<Arc<Route>> {
        self.read().values().find(|route| test(route)).cloned()
    }

    /// How many are up.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether none is up.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<SandboxId, Arc<Route>>> {
        self.routes.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<SandboxId, Arc<Route>>> {
        self.routes.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What goes on between the edge and one sandbox, so that it is not laid to rest in the middle of something.
#[derive(Debug, Default)]
pub struct Activity(Mutex<Doings>);

#[derive(Debug, Default)]
struct Doings {
    /// Requests, answers and tunnels under way.
    open: usize,
    /// Whether there was any since somebody last looked.
    touched: bool,
    /// Nothing new may begin: the sandbox is about to sleep.
    closed: bool,
}

impl Activity {
    /// Something begins; `None` if the sandbox is about to sleep.
    pub fn begin(self: &Arc<Self>) -> Option<Busy> {
        let mut doings = self.doings();
        if doings.closed {
            return None;
        }
        doings.open += 1;
        doings.touched = true;
        Some(Busy(Arc::clone(self)))
    }

    /// Whether something is under way, or was since this was last asked.
    pub fn take_busy(&self) -> bool {
        let mut doings = self.doings();
        std::mem::take(&mut doings.touched) || doings.open > 0
    }

    /// Lets nothing new begin, unless something is under way or was; `false` then.
    pub fn close(&self) -> bool {
        let mut doings = self.doings();
        doings.closed = doings.open == 0 && !doings.touched;
        doings.closed
    }

    /// Lets things begin again.
    pub fn open(&self) {
        self.doings().closed = false;
    }

    fn doings(&self) -> MutexGuard<'_, Doings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that is under way, for as long as this exists.
#[derive(Debug)]
pub struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut doings = self.0.doings();
        doings.open -= 1;
        doings.touched = true;
    }
}
