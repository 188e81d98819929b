//! The open connections by client, so that no client takes the places of all others.
//!
//! A client has a number of places. When it has taken them all, or when few are left in total, connections are closed
//! that serve nobody: idle ones, those that have not sent a whole request, and those whose response is not being read.
//! The client with the most connections loses first, and of its connections the one that was useless for longest.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::connection::Connection;
use crate::limits::{Limits, client_of};

/// Connections are closed once fewer than one place in this many is free.
const FULL: usize = 16;
/// How many are closed at once, as a part of the limit: finding them takes a look at all.
const BATCH: usize = 64;
/// Requests in flight, as a multiple of connections: a connection with HTTP/2 carries many.
const REQUESTS_PER_CONNECTION: usize = 2;

type Open = HashMap<u64, Weak<Connection>>;

/// All open connections of a listener.
pub(crate) struct Clients {
    places: Arc<Semaphore>,
    connections: usize,
    client_connections: usize,
    unlimited: Vec<cabana_types::address::Prefix>,
    next: AtomicU64,
    /// Requests in flight of all clients.
    requests: AtomicUsize,
    by_client: Mutex<HashMap<IpAddr, Client>>,
}

#[derive(Default)]
struct Client {
    open: Open,
    requests: Arc<AtomicUsize>,
}

/// The place of one connection, until it is dropped.
pub(crate) struct Place {
    clients: Arc<Clients>,
    client: IpAddr,
    number: u64,
    unlimited: bool,
    requests: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Clients {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits.connections)),
            connections: limits.connections,
            client_connections: limits.client_connections,
            unlimited: limits.unlimited.clone(),
            next: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            by_client: Mutex::default(),
        }
    }

    /// Waits until one more connection may be accepted. `None` if that never happens.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().acquire_owned().await.ok()
    }

    /// Whether so few places are left that connections wait for requests only briefly.
    pub(crate) fn is_crowded(&self, one_in: usize) -> bool {
        self.places.available_permits() < self.connections / one_in
    }

    /// Gives a connection a place; `None` if its client has taken all of its own and uses them.
    pub(crate) fn enter(self: &Arc<Self>, address: SocketAddr, permit: OwnedSemaphorePermit) -> Option<Place> {
        let client = client_of(address.ip());
        let unlimited = self.unlimited.iter().any(|prefix| prefix.contains(address.ip().to_canonical()));
        let mut by_client = self.lock();
        let entry = by_client.entry(client).or_default();
        if !unlimited && entry.open.len() >= self.client_connections {
            let useless = useless(&entry.open).map(|(since, connection)| (since, 0, connection)).collect();
            if close(useless, (self.client_connections / BATCH).max(1)) == 0 {
                return None;
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        entry.open.insert(number, Weak::new());
        let requests = entry.requests.clone();
        Some(Place { clients: self.clone(), client, number, unlimited, requests, _permit: permit })
    }

    /// Makes a connection known, so that it can be closed.
    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        let place = &connection.place;
        if let Some(client) = self.lock().get_mut(&place.client) {
            client.open.insert(place.number, Arc::downgrade(connection));
        }
    }

    /// Closes connections that serve nobody, if few places are left.
    pub(crate) fn make_room(&self) {
        if self.places.available_permits() > self.connections / FULL {
            return;
        }
        let by_client = self.lock();
        let all = by_client.values().flat_map(|client| {
            let size = client.open.len();
            useless(&client.open).map(move |(since, connection)| (since, size, connection))
        });
        let closed = close(all.collect(), (self.connections / BATCH).max(1));
        tracing::debug!(closed, "closed useless connections to make room");
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        self.by_client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections that serve nobody, and since when.
fn useless(open: &Open) -> impl Iterator<Item = (Instant, Arc<Connection>)> {
    open.values().filter_map(|connection| {
        let connection = connection.upgrade().filter(|connection| !connection.closing.is_cancelled())?;
        Some((connection.useless_since()?, connection))
    })
}

/// Closes up to `count` connections, first those of clients with most, then the oldest.
fn close(mut useless: Vec<(Instant, usize, Arc<Connection>)>, count: usize) -> usize {
    useless.sort_by_key(|(since, size, _)| (Reverse(*size), *since));
    useless.truncate(count);
    for (_, _, connection) in &useless {
        connection.closing.cancel();
    }
    useless.len()
}

impl Place {
    /// Counts a request; `false` if there are too many of this client or of all.
    pub(crate) fn begin_request(&self) -> bool {
        let limit = |connections: usize| connections.saturating_mul(REQUESTS_PER_CONNECTION);
        let own = self.requests.fetch_add(1, Ordering::Relaxed);
        let all = self.clients.requests.fetch_add(1, Ordering::Relaxed);
        all < limit(self.clients.connections) && (self.unlimited || own < limit(self.clients.client_connections))
    }

    /// Whether the client has more connections than this.
    pub(crate) fn is_beyond(&self, count: usize) -> bool {
        self.clients.lock().get(&self.client).is_some_and(|client| client.open.len() > count)
    }

    pub(crate) fn end_request(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        self.clients.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_client = self.clients.lock();
        if let Some(client) = by_client.get_mut(&self.client) {
            client.open.remove(&self.number);
            if client.open.is_empty() {
                by_client.remove(&self.client);
            }
        }
    }
}
