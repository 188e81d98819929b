//! Signing in and out. All sessions are in memory: a request costs no query, and signing out has effect at once.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cabana_store::{self as store, Store};
use cabana_types::{KeyId, Secret, SessionId, TeamId, UserId};
use jiff::{SignedDuration, Timestamp};

use crate::directory::Directory;
use crate::password::{HashingFailed, Passwords};
use crate::session::Session;
use crate::token;

/// How long a code from the terminal is valid.
const CODE_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Kind of the ticket that such a code is.
pub(crate) const WELCOME: &str = "welcome";
/// Codes that are valid at the same time.
const MAX_CODES: u32 = 20;
/// Sessions of one user; beyond that the one that was not used for the longest time ends.
pub(crate) const MAX_SESSIONS: u32 = 100;

/// Who is signed in, and where everybody belongs.
#[derive(Debug)]
pub struct Accounts {
    pub(crate) store: Store,
    pub(crate) passwords: Passwords,
    sessions: RwLock<Sessions>,
    directory: RwLock<Arc<Directory>>,
    /// Changes of people come one after the other, so that the directory is never older than what was answered.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// By the hash of the token.
    by_hash: HashMap<[u8; 32], Arc<Session>>,
    by_id: HashMap<SessionId, Arc<Session>>,
}

impl Sessions {
    fn insert(&mut self, hash: [u8; 32], session: Arc<Session>) {
        self.by_id.insert(session.id.clone(), Arc::clone(&session));
        self.by_hash.insert(hash, session);
    }
}

/// What is kept of the client that signs in.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub address: Option<String>,
    pub agent: Option<String>,
}

/// A new session with its token, which is shown to nobody else.
#[derive(Debug)]
pub struct SignedIn {
    pub session: Arc<Session>,
    pub token: Secret,
}

/// Why somebody was not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the code is not valid: it was used, is older than ten minutes, or was never made")]
    InvalidCode,
    /// Not said which of the two, or whether there is such an account.
    #[error("email or password is wrong")]
    WrongPassword,
    #[error(transparent)]
    Hashing(#[from] HashingFailed),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Accounts {
    /// Loads the sessions, and forgets those that are over.
    pub async fn open(store: Store) -> Result<Self, store::Error> {
        let now = Timestamp::now();
        let directory = Directory::new(store.people().await?, &Directory::default());
        let (mut sessions, mut over) = (Sessions::default(), Vec::new());
        for row in store.sessions().await? {
            let session = Session::new(&row);
            let enabled = directory.user(&row.user).is_some_and(|user| user.disabled_at.is_none());
            match enabled && !session.is_over(now) {
                true => sessions.insert(row.hash, Arc::new(session)),
                false => over.push(row.id),
            }
        }
        if !over.is_empty() {
            store.remove_sessions(over).await?;
        }
        let passwords = Passwords::new().ok_or_else(|| store::Error::decode("password", "cannot be hashed"))?;
        let (sessions, directory) = (RwLock::new(sessions), RwLock::new(Arc::new(directory)));
        Ok(Self { store, passwords, sessions, directory, changing: tokio::sync::Mutex::new(()) })
    }

    /// Everybody, and where they belong.
    pub fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes who belongs where. When this returns, the change has effect; it must not be dropped before.
    pub async fn change<T>(&self, change: impl Future<Output = Result<T, store::Error>>) -> Result<T, store::Error> {
        let _alone = self.changing.lock().await;
        let changed = change.await;
        // Also after an error: it could be one of the answer alone.
        let people = self.store.people().await?;
        let directory = Arc::new(Directory::new(people, &self.directory()));
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&directory);
        let enabled = |user: &UserId| directory.user(user).is_some_and(|user| user.disabled_at.is_none());
        self.end_where(|session| !enabled(&session.user)).await?;
        changed
    }

    /// Ends sessions, in memory first.
    pub(crate) async fn end_where(&self, which: impl Fn(&Session) -> bool) -> Result<(), store::Error> {
        let ids: Vec<SessionId> =
            self.read().by_id.values().filter(|session| which(session)).map(|session| session.id.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.end(|session| ids.contains(&session.id));
        self.store.remove_sessions(ids).await
    }

    pub(crate) fn insert(&self, hash: [u8; 32], session: &Arc<Session>) {
        let superfluous = {
            let mut sessions = self.write();
            sessions.insert(hash, Arc::clone(session));
            oldest_beyond(&sessions, &session.user, MAX_SESSIONS as usize)
        };
        self.end(|other| superfluous.contains(&other.id));
    }

    /// Makes a session act for another team where a request names none.
    pub async fn switch(&self, session: &Session, team: TeamId) -> Result<(), store::Error> {
        self.store.set_session_team(session.id.clone(), team.clone()).await?;
        session.set_team(team);
        Ok(())
    }

    /// Makes a code that signs the first admin in, once. It must reach them by a way that only the operator has.
    pub async fn make_code(&self) -> Result<(Secret, Timestamp), store::Error> {
        let code = token::generate();
        let now = Timestamp::now();
        let expires_at = now + CODE_LIFETIME;
        if let Some(hash) = token::hash(code.expose()) {
            self.store.insert_ticket(hash, WELCOME, now, expires_at, MAX_CODES).await?;
        }
        Ok((code, expires_at))
    }

    /// The session of a token.
    pub fn session(&self, token: &str) -> Option<Arc<Session>> {
        let session = self.read().by_hash.get(&token::hash(token)?).cloned()?;
        let now = Timestamp::now();
        if session.is_over(now) {
            return None;
        }
        session.see(now);
        Some(session)
    }

    /// The session of an id, for what was derived from it. That it is asked for is no use of it.
    pub fn session_by_id(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.read().by_id.get(id).filter(|session| !session.is_over(Timestamp::now())).cloned()
    }

    /// The sessions of a user, newest first.
    pub fn sessions_of(&self, user: &UserId) -> Vec<Arc<Session>> {
        let mut sessions: Vec<_> =
            self.read().by_id.values().filter(|session| session.user == *user).cloned().collect();
        sessions.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.id.cmp(&b.id)));
        sessions
    }

    /// Ends a session of a user; `false` if there is none of that id. From then on its token is invalid.
    pub async fn sign_out(&self, user: &UserId, id: &SessionId) -> Result<bool, store::Error> {
        let found = self.read().by_id.values().any(|session| session.id == *id && session.user == *user);
        if found {
            // The row first: after a crash in between, the person may sign out again, but is not signed in again.
            self.store.remove_sessions(vec![id.clone()]).await?;
            self.end(|session| session.id == *id);
        }
        Ok(found)
    }

    /// Ends the sessions that were signed in with an API key.
    pub async fn key_removed(&self, key: &KeyId) -> Result<(), store::Error> {
        self.end_where(|session| session.key.as_ref() == Some(key)).await
    }

    /// Ends the sessions of keys of a team that was deleted.
    pub async fn team_removed(&self, team: &TeamId) -> Result<(), store::Error> {
        self.end_where(|session| session.key.is_some() && session.team() == *team).await
    }

    /// Records when sessions were used, and forgets those that are over.
    pub async fn record(&self) -> Result<(), store::Error> {
        let now = Timestamp::now();
        let (mut seen, mut over) = (Vec::new(), Vec::new());
        for session in self.read().by_id.values() {
            match session.is_over(now) {
                true => over.push(session.id.clone()),
                false => seen.extend(session.take_seen().map(|at| (session.id.clone(), at))),
            }
        }
        if !over.is_empty() {
            self.end(|session| over.contains(&session.id));
            self.store.remove_sessions(over).await?;
        }
        if seen.is_empty() { Ok(()) } else { self.store.touch_sessions(seen).await }
    }

    /// Forgets sessions and closes what they have open.
    fn end(&self, which: impl Fn(&Session) -> bool) {
        let mut sessions = self.write();
        sessions.by_hash.retain(|_, session| {
            let ends = which(session);
            if ends {
                session.ended.cancel();
            }
            !ends
        });
        sessions.by_id.retain(|_, session| !session.ended.is_cancelled());
    }

    fn read(&self) -> RwLockReadGuard<'_, Sessions> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sessions> {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions of a user beyond the newest `most`, as the store removes them.
fn oldest_beyond(sessions: &Sessions, user: &UserId, most: usize) -> Vec<SessionId> {
    let mut own: Vec<_> = sessions.by_id.values().filter(|session| session.user == *user).collect();
    own.sort_by_key(|session| std::cmp::Reverse((session.last_seen(), session.created_at)));
    own.into_iter().skip(most).map(|session| session.id.clone()).collect()
}
