//! The ways to sign in. Each makes a new token, so that nobody can choose the token of another person's session.

use std::sync::Arc;

use cabana_store::{self as store, NewUser, User};
use cabana_types::{KeyId, Secret, SessionId, TeamId, UserId};
use jiff::Timestamp;

use crate::accounts::{Accounts, Client, MAX_SESSIONS, SignInError, SignedIn, WELCOME};
use crate::email;
use crate::password::{self, WeakPassword};
use crate::session::{LONGEST, Session};
use crate::token;

/// Name of the first admin, until they choose another.
const ADMIN: &str = "admin";
/// Characters of a `User-Agent` that are kept.
const MAX_AGENT: usize = 200;

/// Why a password was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetPasswordError {
    #[error(transparent)]
    Weak(#[from] WeakPassword),
    #[error("the present password is wrong")]
    WrongPassword,
    #[error("choose an email before a password: one signs in with both")]
    NoEmail,
    #[error(transparent)]
    Hashing(#[from] password::HashingFailed),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Accounts {
    /// Signs in with a code from the terminal, and uses it up. The first admin is made, as an owner of `team`, if there is none.
    pub async fn sign_in_by_code(&self, code: &str, team: TeamId, client: Client) -> Result<SignedIn, SignInError> {
        let hash = token::hash(code).ok_or(SignInError::InvalidCode)?;
        if !self.store.take_ticket(hash, WELCOME, Timestamp::now()).await? {
            return Err(SignInError::InvalidCode);
        }
        let user = self.first_admin(team).await?;
        Ok(self.begin(&user, None, client).await?)
    }

    /// Signs in the holder of an API key, which was checked. The session ends when the key is deleted or expires.
    pub async fn sign_in_by_key(
        &self,
        key: KeyId,
        team: TeamId,
        expires_at: Option<Timestamp>,
        client: Client,
    ) -> Result<SignedIn, SignInError> {
        let first = store::ROOT_TEAM.parse().unwrap_or_else(|_| team.clone());
        let user = self.first_admin(first).await?;
        Ok(self.begin(&user, Some((key, team, expires_at)), client).await?)
    }

    /// Signs in with email and password. That it is wrong takes as long to find out as that it is right.
    pub async fn sign_in_by_password(
        &self,
        email: &str,
        password: Secret,
        client: Client,
    ) -> Result<SignedIn, SignInError> {
        let found = match email::normalize(email) {
            Some(email) => self.store.user_by_email(&email).await?,
            None => None,
        };
        let (user, hash) = found.unzip();
        let checked = hash.flatten();
        let right = self.passwords.verify(password, checked.clone()).await?;
        match user.filter(|user| right && user.disabled_at.is_none()) {
            Some(user) => {
                let signed_in = self.begin(&user, None, client).await?;
                // A password that was changed meanwhile ended the sessions before this one.
                if self.store.password_hash(&user.id).await? != checked {
                    self.end_where(|session| session.id == signed_in.session.id).await?;
                    return Err(SignInError::WrongPassword);
                }
                Ok(signed_in)
            }
            None => Err(SignInError::WrongPassword),
        }
    }

    /// Proves again who the person of a session is.
    pub async fn confirm(&self, session: &Session, password: Secret) -> Result<(), SignInError> {
        let hash = self.store.password_hash(&session.user).await?;
        if !self.passwords.verify(password, hash).await? {
            return Err(SignInError::WrongPassword);
        }
        let now = Timestamp::now();
        self.store.confirm_session(session.id.clone(), now).await?;
        session.confirm(now);
        Ok(())
    }

    /// Sets the password of a person, and ends their other sessions. Whoever has one must know it.
    pub async fn set_password(
        &self,
        session: &Session,
        current: Option<Secret>,
        new: Secret,
    ) -> Result<(), SetPasswordError> {
        let directory = self.directory();
        let user = directory.user(&session.user).ok_or_else(|| store::Error::NoUser(session.user.clone()))?;
        let email = user.email.as_deref().ok_or(SetPasswordError::NoEmail)?;
        if user.has_password {
            let hash = self.store.password_hash(&user.id).await?;
            if !self.passwords.verify(current.unwrap_or_else(|| Secret::new("")), hash).await? {
                return Err(SetPasswordError::WrongPassword);
            }
        }
        password::check(&new, &[email, &user.name])?;
        let hash = self.passwords.hash(new).await?;
        self.change(self.store.set_password(user.id.clone(), hash, Some(session.id.clone()))).await?;
        self.end_where(|other| other.user == user.id && other.key.is_none() && other.id != session.id).await?;
        let now = Timestamp::now();
        self.store.confirm_session(session.id.clone(), now).await?;
        session.confirm(now);
        Ok(())
    }

    /// Checks a password for a new account, and hashes it.
    pub(crate) async fn new_password(&self, password: Secret, known: &[&str]) -> Result<String, SetPasswordError> {
        password::check(&password, known)?;
        Ok(self.passwords.hash(password).await?)
    }

    async fn first_admin(&self, team: TeamId) -> Result<User, store::Error> {
        let first = NewUser {
            id: UserId::from_random(rand::random()),
            email: None,
            name: ADMIN.into(),
            admin: true,
            created_at: Timestamp::now(),
            password_hash: None,
            oidc: None,
        };
        let known = self.directory().users().any(|user| user.admin && user.disabled_at.is_none());
        let ensure = self.store.ensure_admin(first, team);
        if known { ensure.await } else { self.change(ensure).await }
    }

    /// Begins a session of a person, or of the holder of a key.
    pub(crate) async fn begin(
        &self,
        user: &User,
        key: Option<(KeyId, TeamId, Option<Timestamp>)>,
        client: Client,
    ) -> Result<SignedIn, store::Error> {
        let now = Timestamp::now();
        let (key, team, expires_at) = match key {
            Some((key, team, expires_at)) => (Some(key), team, expires_at),
            None => {
                let own = self.directory().teams_of(&user.id).next().map(|(team, _)| team.id.clone());
                // Somebody without a team sees that they are in none.
                let first = own.or_else(|| store::ROOT_TEAM.parse().ok());
                (None, first.ok_or_else(|| store::Error::decode("team", "missing"))?, None)
            }
        };
        let token = token::generate();
        let row = store::Session {
            id: SessionId::from_random(rand::random()),
            hash: token::hash(token.expose()).unwrap_or_default(),
            user: user.id.clone(),
            team,
            key,
            created_at: now,
            auth_at: now,
            last_seen_at: now,
            expires_at: expires_at.map_or(now + LONGEST, |at| at.min(now + LONGEST)),
            address: client.address,
            agent: client.agent.map(|agent| agent.chars().take(MAX_AGENT).collect()),
        };
        self.store.insert_session(row.clone(), MAX_SESSIONS).await?;
        let session = Arc::new(Session::new(&row));
        self.insert(row.hash, &session);
        // Disabled meanwhile: what ends sessions did not see this one.
        let directory = self.directory();
        if directory.user(&user.id).is_none_or(|user| user.disabled_at.is_some()) {
            self.end_where(|other| other.id == session.id).await?;
        }
        Ok(SignedIn { session, token })
    }
}
