//! People: who they are, where they belong, and how they are signed in. Serves no HTTP and has no SQL.

#![forbid(unsafe_code)]

mod accounts;
mod directory;
pub mod email;
mod invitation;
mod password;
mod session;
mod sign_in;
#[cfg(test)]
mod tests;
mod token;

pub use accounts::{Accounts, Client, SignInError, SignedIn};
pub use directory::{Access, Directory};
pub use invitation::AcceptError;
pub use password::{HashingFailed, WeakPassword};
pub use session::Session;
pub use sign_in::SetPasswordError;
