//! The `network` object of a request. Options that are not supported are rejected: ignoring one would be a security hole.

use cabana_types::limits::{MAX_HOST_BYTES, MAX_HTTPS_PORTS};
use cabana_types::routing::GUEST_PORT;
use http::uri::Authority;
use serde_json::Value;

use super::new_sandbox::{is_something, unsupported};
use crate::error::{ApiError, short};

/// Validated network options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NetworkOptions {
    /// Outgoing traffic is denied.
    pub(super) denied: bool,
    /// Ports need a token.
    pub(super) private: bool,
    /// What the sandbox sees as `Host`.
    pub(super) mask_host: Option<String>,
    /// Ports that speak TLS inside.
    pub(super) https_ports: Vec<u16>,
}

impl NetworkOptions {
    /// Parses and validates the object.
    pub(super) fn read(network: Option<&Value>) -> Result<Self, ApiError> {
        let members = match network {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Object(members)) => members,
            Some(_) => return Err(ApiError::invalid("network must be an object")),
        };
        let mut options = Self::default();
        for (name, value) in members {
            match (name.as_str(), value) {
                ("allowPublicTraffic", Value::Bool(public)) => options.private = !public,
                ("maskRequestHost", Value::String(text)) if !text.is_empty() => options.mask_host = Some(host(text)?),
                ("httpsPorts", Value::Array(list)) => options.https_ports = ports(list)?,
                ("denyOut", Value::Array(list)) if list.iter().any(|v| v == "0.0.0.0/0") => options.denied = true,
                ("allowPublicTraffic" | "maskRequestHost" | "httpsPorts", value) if !value.is_null() && value != "" => {
                    let wanted = match name.as_str() {
                        "allowPublicTraffic" => "true or false",
                        "maskRequestHost" => "a host like localhost:${PORT}",
                        _ => "a list of ports",
                    };
                    return Err(ApiError::invalid(format!("network.{name} must be {wanted}")));
                }
                (_, value) if !is_something(value) => {}
                _ => return Err(unsupported(&format!("network.{}", short(name)))),
            }
        }
        Ok(options)
    }
}

/// Checks a host with `${PORT}` in place of the port.
fn host(text: &str) -> Result<String, ApiError> {
    // The longest port there is.
    let filled = text.replace("${PORT}", "65535");
    let fits = filled.len() <= MAX_HOST_BYTES
        && filled.parse::<Authority>().is_ok_and(|a| a.as_str() == filled && !a.host().is_empty())
        && !filled.contains(['@', '$', '{', '}']);
    if fits {
        Ok(text.to_owned())
    } else {
        let text = format!("network.maskRequestHost must be a host like localhost:${{PORT}}, not {:?}", short(text));
        Err(ApiError::invalid(text))
    }
}

/// Checks, sorts and deduplicates ports.
fn ports(list: &[Value]) -> Result<Vec<u16>, ApiError> {
    if list.len() > MAX_HTTPS_PORTS {
        let text = format!("network.httpsPorts has {} entries; at most {MAX_HTTPS_PORTS} are taken", list.len());
        return Err(ApiError::invalid(text));
    }
    let mut ports = vec![];
    for value in list {
        match value.as_u64().and_then(|p| u16::try_from(p).ok()) {
            Some(GUEST_PORT) => {
                let text = format!("network.httpsPorts must not name {GUEST_PORT}, the guest's own port");
                return Err(ApiError::invalid(text));
            }
            Some(port) if port > 0 => ports.push(port),
            _ => {
                let text = format!("network.httpsPorts takes ports from 1 to 65535, not {}", short(&value.to_string()));
                return Err(ApiError::invalid(text));
            }
        }
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use cabana_types::ErrorCode;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<NetworkOptions, ErrorCode> {
        NetworkOptions::read(Some(value)).map_err(|r| r.code())
    }

    #[test]
    fn options_are_kept_or_rejected() {
        assert_eq!(read(&json!({})), Ok(NetworkOptions::default()));
        assert_eq!(
            read(&json!({"allowOut": [], "denyOut": [], "allowPublicTraffic": true, "maskRequestHost": ""})),
            Ok(NetworkOptions::default())
        );
        assert_eq!(
            read(&json!({"denyOut": ["0.0.0.0/0"]})),
            Ok(NetworkOptions { denied: true, ..NetworkOptions::default() })
        );
        assert_eq!(
            read(&json!({"allowPublicTraffic": false, "maskRequestHost": "a.test:${PORT}", "httpsPorts": [9, 8, 9]})),
            Ok(NetworkOptions {
                private: true,
                mask_host: Some("a.test:${PORT}".into()),
                https_ports: vec![8, 9],
                ..NetworkOptions::default()
            })
        );
        for refused in [
            json!({"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1"]}),
            json!({"denyOut": ["10.0.0.0/8"]}),
            json!({"somethingNew": 1}),
            json!({"egressProxy": {"address": "a:1"}}),
        ] {
            assert_eq!(read(&refused), Err(ErrorCode::NotSupported), "{refused}");
        }
        for wrong in [
            json!([]),
            json!({"allowPublicTraffic": "no"}),
            json!({"maskRequestHost": 5}),
            json!({"maskRequestHost": "a b"}),
            json!({"maskRequestHost": "a\r\nx: y"}),
            json!({"maskRequestHost": "user@a"}),
            json!({"maskRequestHost": "a/b"}),
            json!({"maskRequestHost": "${HOST}"}),
            json!({"maskRequestHost": ":${PORT}"}),
            json!({"maskRequestHost": "x".repeat(300)}),
            json!({"httpsPorts": 443}),
            json!({"httpsPorts": [0]}),
            json!({"httpsPorts": [65536]}),
            json!({"httpsPorts": ["443"]}),
            json!({"httpsPorts": [49983]}),
            json!({"httpsPorts": (1..200).collect::<Vec<u16>>()}),
        ] {
            assert_eq!(read(&wrong), Err(ErrorCode::InvalidRequest), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_mask_that_is_taken_is_a_header_value(text in "\\PC{0,30}|[a-z.:${}PORT]{0,20}") {
            if let Ok(mask) = host(&text) {
                let filled = mask.replace("${PORT}", "80");
                prop_assert!(http::HeaderValue::from_str(&filled).is_ok());
                prop_assert!(!filled.contains(['/', '@', ' ']));
            }
        }
    }
}
