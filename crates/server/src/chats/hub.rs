//! The chats that are open, and the tasks that work on their turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cabana_store::Store;
use cabana_types::{ChatId, TeamId, TurnId};
use tokio_util::sync::CancellationToken;

use super::room::Room;

/// All chats that somebody uses.
#[derive(Debug)]
pub(super) struct Hub {
    store: Store,
    rooms: Mutex<HashMap<ChatId, Weak<Room>>>,
    workers: Mutex<HashMap<ChatId, Worker>>,
}

/// The task that works on a chat.
#[derive(Debug, Default)]
struct Worker {
    /// Whether there may be something new to do.
    again: bool,
    /// The turn that it works on.
    turn: Option<(TurnId, CancellationToken)>,
}

impl Hub {
    pub(super) fn new(store: Store) -> Self {
        Self { store, rooms: Mutex::default(), workers: Mutex::default() }
    }

    /// Opens a chat.
    pub(super) fn room(&self, chat: &ChatId, team: &TeamId) -> Arc<Room> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(chat).and_then(Weak::upgrade) {
            return room;
        }
        // Closed ones go whenever another one is opened.
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(Room::new(chat.clone(), team.clone(), self.store.clone()));
        rooms.insert(chat.clone(), Arc::downgrade(&room));
        room
    }

    /// Whether a task has to be started for a chat. One that runs looks again.
    pub(super) fn begin(&self, chat: &ChatId) -> bool {
        let mut workers = self.workers();
        match workers.get_mut(chat) {
            Some(worker) => {
                worker.again = true;
                false
            }
            None => workers.insert(chat.clone(), Worker::default()).is_none(),
        }
    }

    /// The task has nothing to do: `true` if it may end, `false` if it has to look again.
    pub(super) fn end(&self, chat: &ChatId) -> bool {
        let mut workers = self.workers();
        match workers.get_mut(chat) {
            Some(worker) if worker.again => {
                worker.again = false;
                false
            }
            _ => {
                workers.remove(chat);
                true
            }
        }
    }

    /// The task is gone, whatever it did.
    pub(super) fn lost(&self, chat: &ChatId) {
        self.workers().remove(chat);
    }

    /// The task works on a turn. The token is cancelled when somebody stops it.
    pub(super) fn works_on(&self, chat: &ChatId, turn: &TurnId) -> CancellationToken {
        let token = CancellationToken::new();
        if let Some(worker) = self.workers().get_mut(chat) {
            worker.turn = Some((turn.clone(), token.clone()));
        }
        token
    }

    /// Stops the work on a turn, if there is any.
    pub(super) fn stop(&self, chat: &ChatId, turn: &TurnId) {
        if let Some((running, token)) = self.workers().get(chat).and_then(|worker| worker.turn.as_ref())
            && running == turn
        {
            token.cancel();
        }
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<ChatId, Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
