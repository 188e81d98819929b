//! Who makes a request: an API key or a person. Both are written as text in events and causes; their forms differ.

use std::fmt;

use crate::{KeyId, UserId};

/// The public id of who makes a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ActorId {
    /// A program, by its API key.
    Key(KeyId),
    /// A person, by a session.
    User(UserId),
}

impl ActorId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Key(id) => id.as_str(),
            Self::User(id) => id.as_str(),
        }
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<KeyId> for ActorId {
    fn from(id: KeyId) -> Self {
        Self::Key(id)
    }
}

impl From<UserId> for ActorId {
    fn from(id: UserId) -> Self {
        Self::User(id)
    }
}
