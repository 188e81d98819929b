//! Invitations: who may accept one, and what comes of it.

use cabana_store::{self as store, Accepted, Accepting, Invitation, InvitationState, NewUser};
use cabana_types::{Secret, UserId};
use jiff::Timestamp;

use crate::accounts::{Accounts, Client, SignedIn};
use crate::sign_in::SetPasswordError;
use crate::token;

/// Invitations of a team that are open at the same time.
const MAX_OPEN: u32 = 500;

/// Why an invitation was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the invitation was used or revoked, is too old, or was never made")]
    Invalid,
    #[error("there is an account with this email; sign in first, then open the link again")]
    HasAccount,
    #[error("the invitation is for another person than the one who is signed in")]
    OtherPerson,
    #[error(transparent)]
    Password(#[from] SetPasswordError),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Accounts {
    /// Stores an invitation, and returns the code of its link. `None` if the team has too many.
    pub async fn invite(&self, invitation: Invitation) -> Result<Option<Secret>, store::Error> {
        let code = token::generate();
        let invitation = Invitation { hash: token::hash(code.expose()).unwrap_or_default(), ..invitation };
        Ok(self.store.insert_invitation(invitation, MAX_OPEN).await?.then_some(code))
    }

    /// The invitation of a code, if it can still be accepted.
    pub async fn invitation(&self, code: &str) -> Result<Option<Invitation>, store::Error> {
        let Some(hash) = token::hash(code) else { return Ok(None) };
        let found = self.store.invitation(hash).await?;
        Ok(found.filter(|row| row.state == InvitationState::Open && row.expires_at > Timestamp::now()))
    }

    /// Accepts an invitation as somebody who is signed in.
    pub async fn accept_as(&self, code: &str, user: UserId) -> Result<(), AcceptError> {
        let hash = token::hash(code).ok_or(AcceptError::Invalid)?;
        let accepting = Accepting::User(user);
        done(self.change(self.store.accept_invitation(hash, accepting, Timestamp::now())).await?).map(drop)
    }

    /// Accepts an invitation with a new account, and signs in to it.
    pub async fn accept_anew(
        &self,
        code: &str,
        name: String,
        password: Secret,
        client: Client,
    ) -> Result<SignedIn, AcceptError> {
        let invitation = self.invitation(code).await?.ok_or(AcceptError::Invalid)?;
        let password_hash = Some(self.new_password(password, &[&invitation.email, &name]).await?);
        let user = NewUser {
            id: UserId::from_random(rand::random()),
            email: Some(invitation.email),
            name,
            admin: false,
            created_at: Timestamp::now(),
            password_hash,
            oidc: None,
        };
        let accepting = Accepting::New(Box::new(user));
        let accepted = self.change(self.store.accept_invitation(invitation.hash, accepting, Timestamp::now())).await?;
        let user = done(accepted)?;
        let user = self.store.user(&user).await?.ok_or(store::Error::NoUser(user))?;
        Ok(self.begin(&user, None, client).await?)
    }
}

fn done(accepted: Accepted) -> Result<UserId, AcceptError> {
    match accepted {
        Accepted::Done(user) => Ok(user),
        Accepted::Invalid => Err(AcceptError::Invalid),
        Accepted::HasAccount => Err(AcceptError::HasAccount),
        Accepted::OtherPerson => Err(AcceptError::OtherPerson),
    }
}
