//! Authentication: the sandbox's access token, and the user that a request runs as.

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cabana_types::Secret;
use cabana_types::routing::ACCESS_TOKEN_HEADER;
use connectrpc::ConnectError;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use crate::guest::Guest;
use crate::users::{self, Account};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Result of checking the token header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// No token was sent.
    Absent,
    /// The sandbox's token.
    Right,
    /// Another value, or several headers.
    Wrong,
}

/// Compares the token header with the sandbox's token.
pub(crate) fn token(headers: &HeaderMap, expected: &Secret) -> Token {
    let mut values = headers.get_all(ACCESS_TOKEN_HEADER).iter().filter(|v| !v.is_empty());
    match (values.next(), values.next()) {
        (None, _) => Token::Absent,
        (Some(value), None) if bool::from(value.as_bytes().ct_eq(expected.expose().as_bytes())) => Token::Right,
        _ => Token::Wrong,
    }
}

/// The user named by `Authorization: Basic`.
fn basic_user(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(LENIENT.decode(credentials.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, _password)| user.to_owned()).filter(|user| !user.is_empty())
}

/// The account for a call: the one it names, or the default.
pub(crate) fn account(guest: &Guest, headers: &HeaderMap) -> Result<Account, ConnectError> {
    match basic_user(headers) {
        None => Ok(users::find_or_root(&guest.settings().default_user)),
        Some(name) => users::find(&name)
            .ok_or_else(|| ConnectError::unauthenticated(format!("invalid username: '{}'", truncated(&name)))),
    }
}

/// Shortens a client-supplied name for use in a message.
pub(crate) fn truncated(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn basic() {
        assert_eq!(basic_user(&headers("Basic dXNlcjo=")), Some("user".to_owned()));
        assert_eq!(basic_user(&headers("basic dXNlcjo")), Some("user".to_owned()));
        assert_eq!(basic_user(&headers("Basic dXNlcjpzZWNyZXQ=")), Some("user".to_owned()));
        for none in ["Basic Og==", "Basic dXNlcg==", "Bearer dXNlcjo=", "Basic !!", "Basic", "Basic /////w=="] {
            assert_eq!(basic_user(&headers(none)), None, "{none}");
        }
    }

    #[test]
    fn tokens() {
        let expected = Secret::new("right");
        let mut map = HeaderMap::new();
        assert_eq!(token(&map, &expected), Token::Absent);
        map.insert(ACCESS_TOKEN_HEADER, HeaderValue::from_static(""));
        assert_eq!(token(&map, &expected), Token::Absent);
        map.insert(ACCESS_TOKEN_HEADER, HeaderValue::from_static("right"));
        assert_eq!(token(&map, &expected), Token::Right);
        map.append(ACCESS_TOKEN_HEADER, HeaderValue::from_static("right"));
        assert_eq!(token(&map, &expected), Token::Wrong);
        map.insert(ACCESS_TOKEN_HEADER, HeaderValue::from_static("rightx"));
        assert_eq!(token(&map, &expected), Token::Wrong);
    }

    proptest! {
        #[test]
        fn any_header_never_panics(value in "[ -~]{0,60}") {
            let _ = basic_user(&headers(&value));
        }
    }
}
