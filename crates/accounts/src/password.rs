//! Passwords: what they may be, and their hashes by argon2id. Hashing takes tens of milliseconds and 19 MiB, so it is done off the
//! async threads, and by few at a time.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use cabana_types::Secret;
use tokio::sync::Semaphore;

/// Characters of a password.
const LENGTH: std::ops::RangeInclusive<usize> = 10..=200;
/// Memory in KiB, passes and lanes: what OWASP recommends for argon2id.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);
/// Passwords that are hashed at the same time.
const AT_ONCE: usize = 2;
/// Stands for the hash of an account that does not exist: checking against it takes as long.
const NOBODY: &[u8] = b"not a password of anybody";

/// A password that is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakPassword {
    #[error("a password has 10 to 200 characters")]
    Length,
    #[error("the password is too easy to guess: it repeats few characters, or is the email or name")]
    Guessable,
}

/// Passwords could not be hashed: the server stops.
#[derive(Debug, thiserror::Error)]
#[error("the password could not be checked; try again")]
pub struct HashingFailed;

/// Hashes passwords.
#[derive(Debug)]
pub(crate) struct Passwords {
    turns: Semaphore,
    nobody: Arc<str>,
}

impl Passwords {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { turns: Semaphore::new(AT_ONCE), nobody: hash(NOBODY)?.into() })
    }

    /// The hash of a password.
    pub(crate) async fn hash(&self, password: Secret) -> Result<String, HashingFailed> {
        let _turn = self.turns.acquire().await.map_err(|_| HashingFailed)?;
        let hashed = tokio::task::spawn_blocking(move || hash(password.expose().as_bytes())).await;
        hashed.ok().flatten().ok_or(HashingFailed)
    }

    /// Whether a password is the one of a hash. Without a hash it is not, and it takes as long to find out.
    pub(crate) async fn verify(&self, password: Secret, hash: Option<String>) -> Result<bool, HashingFailed> {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.nobody.to_string());
        let _turn = self.turns.acquire().await.map_err(|_| HashingFailed)?;
        let verify = move || {
            // A longer one was never set; its hash would take time.
            let password = password.expose();
            let fits = password.chars().count() <= *LENGTH.end();
            let password = if fits { password.as_bytes() } else { NOBODY };
            let hash = PasswordHash::new(&hash).ok()?;
            Some(argon2()?.verify_password(password, &hash).is_ok() && fits)
        };
        let right = tokio::task::spawn_blocking(verify).await.ok().flatten().ok_or(HashingFailed)?;
        Ok(right && known)
    }
}

/// Refuses passwords that are short or easy to guess. `known` are texts that it must not be.
pub(crate) fn check(password: &Secret, known: &[&str]) -> Result<(), WeakPassword> {
    let text = password.expose();
    if !LENGTH.contains(&text.chars().count()) {
        return Err(WeakPassword::Length);
    }
    let distinct: std::collections::BTreeSet<char> = text.chars().collect();
    let folded = text.to_lowercase();
    if distinct.len() < 5 || known.iter().any(|known| !known.is_empty() && folded == known.to_lowercase()) {
        return Err(WeakPassword::Guessable);
    }
    Ok(())
}

fn argon2() -> Option<Argon2<'static>> {
    let (memory, passes, lanes) = COST;
    Some(Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(memory, passes, lanes, None).ok()?))
}

fn hash(password: &[u8]) -> Option<String> {
    let salt: [u8; 16] = rand::random();
    let hash: PasswordHash = argon2()?.hash_password_with_salt(password, &salt).ok()?;
    Some(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_passwords_are_refused() {
        let check = |text: &str| check(&Secret::new(text), &["ada@example.com", "Ada Lovelace"]);
        assert_eq!(check("short"), Err(WeakPassword::Length));
        assert_eq!(check(&"longer".repeat(100)), Err(WeakPassword::Length));
        assert_eq!(check("aaaaaaaaaaaaaaa"), Err(WeakPassword::Guessable));
        assert_eq!(check("ADA@example.com"), Err(WeakPassword::Guessable));
        assert_eq!(check("ada lovelace"), Err(WeakPassword::Guessable));
        assert_eq!(check("correct horse battery"), Ok(()));
        assert_eq!(check("пароль-не-тот"), Ok(()));
    }

    #[tokio::test]
    async fn only_the_password_itself_is_right() {
        let passwords = Passwords::new().expect("hash");
        let hash = passwords.hash(Secret::new("correct horse")).await.expect("hash");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let again = passwords.hash(Secret::new("correct horse")).await.expect("hash");
        assert_ne!(hash, again, "each has a salt of its own");
        let verify = |text: &str, hash: &str| passwords.verify(Secret::new(text), Some(hash.to_owned()));
        assert!(verify("correct horse", &hash).await.expect("checked"));
        assert!(!verify("correct horse ", &hash).await.expect("checked"));
        assert!(!verify(&"x".repeat(10_000), &hash).await.expect("checked"));
        let nobody = std::str::from_utf8(NOBODY).expect("text");
        assert!(!passwords.verify(Secret::new(nobody), None).await.expect("checked"), "there is no such account");
    }
}
