//! How often one key, person or address may ask.

use std::net::IpAddr;
use std::time::Duration;

use cabana_edge::ClientAddress;
use cabana_edge::rates::RateLimit;
use cabana_types::ActorId;
use sha2::{Digest, Sha256};

use super::Caller;
use crate::config::Rates;
use crate::error::ApiError;

/// Rate limits of the API.
#[derive(Debug, Default)]
pub struct KeyRates {
    /// Requests with one key, or of one person.
    by_actor: Option<RateLimit<ActorId>>,
    /// Requests of one client without a valid key. It costs them nothing to send more, and the log and the table of
    /// clients would grow. Keys are too long to be guessed, so a valid one is accepted at any time: other clients
    /// behind the same address are not locked out.
    failed: Option<RateLimit<IpAddr>>,
    /// Attempts to sign in; clients without an address share one budget.
    sign_in: Option<RateLimit<Option<IpAddr>>>,
    /// Attempts to sign in to one account, from wherever. Also to accounts that do not exist: the answer tells nothing.
    account: Option<RateLimit<[u8; 32]>>,
}

impl KeyRates {
    /// Limits by the operator's settings.
    pub fn new(rates: &Rates) -> Self {
        let window = |seconds: u32| Duration::from_secs(seconds.into());
        Self {
            by_actor: RateLimit::new(rates.key_requests, window(rates.key_seconds)),
            failed: RateLimit::new(rates.failed_requests, window(rates.failed_seconds)),
            sign_in: RateLimit::new(rates.sign_in_requests, window(rates.sign_in_seconds)),
            account: RateLimit::new(rates.account_requests, window(rates.sign_in_seconds)),
        }
    }

    pub(super) fn check(
        &self,
        caller: &Result<Caller, ApiError>,
        client: Option<&ClientAddress>,
    ) -> Result<(), ApiError> {
        match (caller, client) {
            (Ok(caller), _) => {
                let allowed = self.by_actor.as_ref().map_or(Ok(()), |limit| limit.check(&caller.actor));
                let whose = if caller.session.is_some() { "of this person" } else { "with this API key" };
                allowed.map_err(|too_many| ApiError::too_many(whose, too_many))
            }
            (Err(_), Some(ClientAddress(Some(client)))) => {
                let allowed = self.failed.as_ref().map_or(Ok(()), |limit| limit.check(client));
                allowed.map_err(|too_many| ApiError::too_many("without a valid API key", too_many))
            }
            // Without its own address a client cannot be told from others.
            (Err(_), _) => Ok(()),
        }
    }

    /// Counts an attempt to sign in.
    pub(crate) fn check_sign_in(&self, client: Option<&ClientAddress>) -> Result<(), ApiError> {
        let client = client.and_then(|client| client.0);
        let allowed = self.sign_in.as_ref().map_or(Ok(()), |limit| limit.check(&client));
        allowed.map_err(|too_many| ApiError::too_many("to sign in from this address", too_many))
    }

    /// Counts an attempt to sign in to an account.
    pub(crate) fn check_account(&self, account: &str) -> Result<(), ApiError> {
        let account: [u8; 32] = Sha256::digest(account.as_bytes()).into();
        let allowed = self.account.as_ref().map_or(Ok(()), |limit| limit.check(&account));
        allowed.map_err(|too_many| ApiError::too_many("to sign in to this account", too_many))
    }
}
