//! People: who they are and how they are signed in. Serves no HTTP and has no SQL.

#![forbid(unsafe_code)]

mod accounts;
mod session;
#[cfg(test)]
mod tests;
mod token;

pub use accounts::{Accounts, Client, SignInError, SignedIn};
pub use session::Session;
