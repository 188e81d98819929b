//! How services are named: by their ids, or by their sandboxes and names.

use std::fmt;

use cabana_client::Client;
use cabana_types::service::is_name;
use cabana_types::{SandboxId, ServiceId};

use crate::failure::Failure;

/// Name of a service that has been given none.
const DEFAULT: &str = "web";

/// A service as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Id(ServiceId),
    Of(SandboxId, String),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Of(sandbox, name) => write!(f, "{sandbox}/{name}"),
        }
    }
}

impl Named {
    /// Its id.
    pub(super) async fn id(&self, client: &Client) -> Result<ServiceId, Failure> {
        match self {
            Self::Id(id) => Ok(id.clone()),
            Self::Of(sandbox, name) => {
                let services = client.services(sandbox).await?;
                let found = services.into_iter().find(|service| service.name == *name);
                found.map(|service| service.id).ok_or_else(|| {
                    Failure::user_error(format!("sandbox {sandbox} has no service named {name}"))
                        .hint(format!("`cabana service ls {sandbox}` lists them"))
                })
            }
        }
    }
}

/// Parses `svc_…`, `SANDBOX/NAME` or `SANDBOX`.
pub(super) fn parse(text: &str) -> Result<Named, String> {
    if text.starts_with("svc_") {
        let id = text.parse().map(Named::Id);
        return id.map_err(|_| "not a service id; `cabana service ls` lists the services".to_owned());
    }
    let (sandbox, name) = text.split_once('/').unwrap_or((text, DEFAULT));
    if !is_name(name) {
        return Err("the name of a service consists of a-z, 0-9, - and _".to_owned());
    }
    Ok(Named::Of(crate::args::parse_id(sandbox)?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let shown = |text: &str| parse(text).map(|named| named.to_string());
        assert_eq!(shown("svc_0123456789abcdefghij").as_deref(), Ok("svc_0123456789abcdefghij"));
        assert_eq!(shown("ifake0").as_deref(), Ok("ifake0/web"));
        assert_eq!(shown("ifake0/api-2").as_deref(), Ok("ifake0/api-2"));
        for wrong in ["svc_1", "", "/web", "ifake0/", "ifake0/A", "ifake0/a/b", "../x"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
