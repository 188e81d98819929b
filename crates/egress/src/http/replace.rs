//! Replaces placeholders in header values by the secrets that they stand for. Nothing else of a request is looked at.

use cabana_types::Secret;
use cabana_types::egress::Placeholder;
use cabana_types::egress::placeholder::PREFIX;
use http::HeaderMap;
use tokio::time::timeout;

use super::answer::Fault;
use super::fill::{MAX_VALUE, sensitive};
use super::target::is_controlled;
use crate::session::Session;

/// Replaces the placeholders of a host. Others stay as they are.
pub(crate) async fn replace(
    session: &Session,
    placeholders: impl Iterator<Item = &Placeholder>,
    headers: &mut HeaderMap,
) -> Result<(), Fault> {
    let mut known = Vec::new();
    for placeholder in placeholders {
        if !is_used(placeholder, headers) {
            continue;
        }
        let asked = session.proxy.credentials.behind(&session.owner, &placeholder.text);
        let reason = match timeout(session.proxy.config.limits.connect, asked).await {
            Ok(Ok(value)) => {
                known.push((placeholder.text.as_str(), value));
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it cannot be read in time".to_owned(),
        };
        return Err(Fault::Header(format!("the secret {} cannot be filled in: {reason}", placeholder.secret)));
    }
    if known.is_empty() {
        return Ok(());
    }
    // All of them together: a sandbox can repeat a placeholder as often as it likes.
    let mut room = MAX_VALUE;
    for (name, value) in headers.iter_mut().filter(|(name, _)| !is_controlled(name)) {
        let filled = match replaced(value.as_bytes(), &known, &mut room) {
            Ok(None) => continue,
            Ok(Some(filled)) => sensitive(&filled),
            Err(TooLong) => Err(format!("the secrets in headers are longer than {MAX_VALUE} bytes")),
        };
        *value = filled.map_err(|reason| Fault::Header(format!("the header {name} cannot be set: {reason}")))?;
    }
    Ok(())
}

fn is_used(placeholder: &Placeholder, headers: &HeaderMap) -> bool {
    let text = placeholder.text.as_bytes();
    headers
        .iter()
        .filter(|(name, _)| !is_controlled(name))
        .any(|(_, value)| positions(value.as_bytes()).any(|at| value.as_bytes()[at..].starts_with(text)))
}

/// Where placeholders may begin.
fn positions(value: &[u8]) -> impl Iterator<Item = usize> {
    value.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX.as_bytes()).map(|(at, _)| at)
}

#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// The value with secrets in place of their placeholders, if it has any. `room` is how many bytes they may have.
fn replaced(value: &[u8], known: &[(&str, Secret)], room: &mut usize) -> Result<Option<Vec<u8>>, TooLong> {
    let (mut filled, mut done) = (Vec::new(), 0);
    for at in positions(value) {
        let Some((text, secret)) = known.iter().find(|(text, _)| value[at..].starts_with(text.as_bytes())) else {
            continue;
        };
        let secret = secret.expose().as_bytes();
        *room = room.checked_sub(secret.len()).ok_or(TooLong)?;
        filled.extend_from_slice(&value[done..at]);
        filled.extend_from_slice(secret);
        done = at + text.len();
    }
    if done == 0 {
        return Ok(None);
    }
    filled.extend_from_slice(&value[done..]);
    Ok(Some(filled))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "novita_secret_00ff";

    fn fill(value: &str, room: usize) -> Result<Option<String>, TooLong> {
        let known = [(TEXT, Secret::new("value")), ("novita_secret_11", Secret::new(""))];
        let mut room = room;
        replaced(value.as_bytes(), &known, &mut room)
            .map(|filled| filled.map(|bytes| String::from_utf8(bytes).expect("text")))
    }

    #[test]
    fn only_known_placeholders_are_replaced() {
        for (value, expected) in [
            ("Bearer novita_secret_00ff", Some("Bearer value")),
            ("novita_secret_00ff", Some("value")),
            ("a=novita_secret_00ff; b=novita_secret_00ff!", Some("a=value; b=value!")),
            ("novita_secret_novita_secret_00ff", Some("novita_secret_value")),
            ("novita_secret_11", Some("")),
            ("novita_secret_22", None),
            ("NOVITA_SECRET_00FF", None),
            ("novita_secret_00f", None),
            ("", None),
        ] {
            assert_eq!(fill(value, 100), Ok(expected.map(str::to_owned)), "{value}");
        }
        assert_eq!(fill(&TEXT.repeat(2), 10), Ok(Some("valuevalue".to_owned())));
        assert_eq!(fill(&TEXT.repeat(3), 10), Err(TooLong));
    }

    proptest! {
        #[test]
        fn it_is_the_same_as_replacing_texts(value in "(novita_secret_|00ff|[a-z0_]|é){0,12}") {
            let expected = value.replace(TEXT, "value");
            let filled = fill(&value, 1000).expect("room");
            prop_assert_eq!(filled.unwrap_or_else(|| value.clone()), expected);
        }
    }
}
