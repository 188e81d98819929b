//! Signed file URLs: a hash over path, operation, user and access token replaces the token itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use cabana_types::Secret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use crate::query::Query;

/// The operation that a URL permits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Read,
    Write,
}

/// Why a signature was rejected; clients depend on these messages.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Neither token nor signature was sent.
    #[error("missing signature query parameter")]
    Missing,
    /// Does not match this token and request.
    #[error("invalid signature")]
    Invalid,
    /// Valid, but expired.
    #[error("signature is already expired")]
    Expired,
}

/// Checks the signature in the query. `now` is Unix time in seconds.
pub(crate) fn check(query: &Query, operation: Operation, token: &Secret, now: u64) -> Result<(), Refused> {
    let signature = query.get("signature").ok_or(Refused::Missing)?;
    let expiration = match query.get("signature_expiration").filter(|e| !e.is_empty()) {
        None => None,
        Some(text) => Some(text.parse::<i64>().map_err(|_| Refused::Invalid)?),
    };
    let path = query.get("path").unwrap_or_default();
    let user = query.get("username").unwrap_or_default();
    // The parts are joined by colons: a user name with one could be read as the end of another path.
    if user.contains([':', '\n']) {
        return Err(Refused::Invalid);
    }
    let expected = sign(path, operation, user, token, expiration);
    if !bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
        return Err(Refused::Invalid);
    }
    match expiration {
        Some(at) if u64::try_from(at).map_or(true, |at| at < now) => Err(Refused::Expired),
        _ => Ok(()),
    }
}

fn sign(path: &str, operation: Operation, user: &str, token: &Secret, expiration: Option<i64>) -> String {
    let operation = match operation {
        Operation::Read => "read",
        Operation::Write => "write",
    };
    let mut hash = Sha256::new();
    hash.update(format!("{path}:{operation}:{user}:"));
    hash.update(token.expose());
    if let Some(expiration) = expiration {
        hash.update(format!(":{expiration}"));
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token() -> Secret {
        Secret::new("tok")
    }

    fn query(path: &str, user: &str, signature: &str, expiration: Option<i64>) -> Query {
        let hex = |text: &str| text.bytes().map(|b| format!("%{b:02x}")).collect::<String>();
        let expiration = expiration.map(|e| format!("&signature_expiration={e}")).unwrap_or_default();
        let text = format!("path={}&username={}&signature={}{expiration}", hex(path), hex(user), hex(signature));
        Query::parse(Some(&text)).unwrap()
    }

    #[test]
    fn no_link_can_be_read_as_another() {
        let signature = sign("/a:write:b", Operation::Read, "root", &token(), None);
        assert_eq!(check(&query("/a:write:b", "root", &signature, None), Operation::Read, &token(), 5), Ok(()));
        let other = query("/a", "b:read:root", &signature, None);
        assert_eq!(check(&other, Operation::Write, &token(), 5), Err(Refused::Invalid));
    }

    #[test]
    fn a_known_signature() {
        // printf 'a.txt:read:user:tok' | sha256sum | xxd -r -p | base64
        let signature = "v1_".to_owned() + &STANDARD_NO_PAD.encode(Sha256::digest(b"a.txt:read:user:tok"));
        assert_eq!(check(&query("a.txt", "user", &signature, None), Operation::Read, &token(), 5), Ok(()));
        assert_eq!(
            check(&query("a.txt", "user", &signature, None), Operation::Write, &token(), 5),
            Err(Refused::Invalid)
        );
        assert_eq!(check(&Query::parse(Some("path=a")).unwrap(), Operation::Read, &token(), 5), Err(Refused::Missing));
    }

    #[test]
    fn expiration() {
        let signed = |at| query("p", "", &sign("p", Operation::Read, "", &token(), Some(at)), Some(at));
        assert_eq!(check(&signed(10), Operation::Read, &token(), 10), Ok(()));
        assert_eq!(check(&signed(10), Operation::Read, &token(), 11), Err(Refused::Expired));
        assert_eq!(check(&signed(-1), Operation::Read, &token(), 11), Err(Refused::Expired));
        let moved = query("p", "", &sign("p", Operation::Read, "", &token(), Some(10)), Some(99));
        assert_eq!(check(&moved, Operation::Read, &token(), 5), Err(Refused::Invalid));
    }

    proptest! {
        #[test]
        fn a_signature_is_valid_for_its_own_request_only(path in "[a-z/]{1,20}", other in "[a-z/]{1,20}", user in "[a-z]{0,5}") {
            let signature = sign(&path, Operation::Write, &user, &token(), None);
            prop_assert_eq!(check(&query(&path, &user, &signature, None), Operation::Write, &token(), 0), Ok(()));
            prop_assert_eq!(
                check(&query(&other, &user, &signature, None), Operation::Write, &token(), 0).is_ok(),
                path == other
            );
        }
    }
}
