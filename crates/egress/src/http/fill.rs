//! Sets the headers of a host's rules, with secrets and tokens filled in.

use std::collections::BTreeMap;

use cabana_types::egress::Template;
use cabana_types::egress::template::Part;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::answer::Fault;
use super::target::is_controlled;
use crate::session::Session;

/// Bytes of a filled value.
pub(super) const MAX_VALUE: usize = 32 * 1024;

/// Sets the headers; existing ones of the same names are replaced.
pub(crate) async fn fill(
    session: &Session,
    rules: &BTreeMap<String, Template>,
    headers: &mut HeaderMap,
) -> Result<(), Fault> {
    let fault = |name: &str, reason: &str| Fault::Header(format!("the header {name} cannot be set: {reason}"));
    for (name, template) in rules {
        let header: HeaderName = name.parse().map_err(|_| fault(name, "its name is malformed"))?;
        if is_controlled(&header) {
            return Err(fault(name, "it belongs to the connection; remove it from the rules"));
        }
        let filled = timeout(session.proxy.config.limits.connect, value(session, template)).await;
        let value = filled.map_err(|_| "its values cannot be read in time".to_owned()).flatten();
        headers.insert(header, value.map_err(|reason| fault(name, &reason))?);
    }
    Ok(())
}

async fn value(session: &Session, template: &Template) -> Result<HeaderValue, String> {
    let mut filled = String::new();
    for part in template.parts() {
        let (found, what, name) = match part {
            Part::Text(text) => {
                filled.push_str(text);
                continue;
            }
            Part::Secret(name) => (session.proxy.credentials.secret(&session.owner, name).await, "secret", name),
            Part::Token(name) => (session.proxy.credentials.token(&session.owner, name).await, "token", name),
        };
        let secret = found.map_err(|error| format!("the {what} {name}: {error}"))?;
        filled.push_str(secret.expose());
    }
    if filled.len() > MAX_VALUE {
        return Err(format!("its value is longer than {MAX_VALUE} bytes"));
    }
    sensitive(filled.as_bytes())
}

/// A header value that contains a secret.
pub(super) fn sensitive(filled: &[u8]) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_bytes(filled).map_err(|_| {
        "a secret or token contains a line break or another character that no header can have".to_owned()
    })?;
    value.set_sensitive(true);
    Ok(value)
}
