//! The `network` object of a request. Options that are not supported are rejected: ignoring one would be a security hole.

use cabana_types::egress::EgressPolicy;
use cabana_types::limits::{MAX_HOST_BYTES, MAX_HTTPS_PORTS};
use cabana_types::routing::GUEST_PORT;
use cabana_types::wire::NetworkRequest;
use http::uri::Authority;

use super::egress_policy;
use super::new_sandbox::unsupported;
use crate::egress::Egress;
use crate::error::{ApiError, short};

/// Validated network options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NetworkOptions {
    /// Where the sandbox may connect, if the request says anything about it.
    pub(super) egress: Option<EgressPolicy>,
    /// Ports need a token.
    pub(super) private: bool,
    /// What the sandbox sees as `Host`.
    pub(super) mask_host: Option<String>,
    /// Ports that speak TLS inside.
    pub(super) https_ports: Vec<u16>,
}

impl NetworkOptions {
    /// Validates the object. `internet` is `allow_internet_access` of the request.
    pub(super) fn read(
        network: Option<&NetworkRequest>,
        internet: Option<bool>,
        settings: &Egress,
    ) -> Result<Self, ApiError> {
        let none = NetworkRequest::default();
        let request = network.unwrap_or(&none);
        if let Some(name) = request.unknown.first() {
            return Err(unsupported(&format!("network.{}", short(name))));
        }
        Ok(Self {
            egress: egress_policy::requested(request, internet, settings)?,
            private: request.allow_public_traffic == Some(false),
            mask_host: request.mask_request_host.as_deref().filter(|text| !text.is_empty()).map(host).transpose()?,
            https_ports: ports(request.https_ports.as_deref().unwrap_or_default())?,
        })
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
fn ports(list: &[i64]) -> Result<Vec<u16>, ApiError> {
    if list.len() > MAX_HTTPS_PORTS {
        let text = format!("network.httpsPorts has {} entries; at most {MAX_HTTPS_PORTS} are taken", list.len());
        return Err(ApiError::invalid(text));
    }
    let mut ports = vec![];
    for &value in list {
        match u16::try_from(value).ok() {
            Some(GUEST_PORT) => {
                let text = format!("network.httpsPorts must not name {GUEST_PORT}, the guest's own port");
                return Err(ApiError::invalid(text));
            }
            Some(port) if port > 0 => ports.push(port),
            _ => {
                let text = format!("network.httpsPorts takes ports from 1 to 65535, not {value}");
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
    use cabana_types::egress::{Bounds, Preset};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<NetworkOptions, ErrorCode> {
        let settings = Egress { bounds: Bounds::default(), default: Preset::Internet, registries: vec![] };
        let request: NetworkRequest = serde_json::from_value(value.clone()).map_err(|_| ErrorCode::InvalidRequest)?;
        NetworkOptions::read(Some(&request), None, &settings).map_err(|r| r.code())
    }

    #[test]
    fn options_are_kept_or_rejected() {
        assert_eq!(read(&json!({})), Ok(NetworkOptions::default()));
        assert_eq!(
            read(&json!({"allowOut": null, "denyOut": null, "allowPublicTraffic": true, "maskRequestHost": ""})),
            Ok(NetworkOptions::default())
        );
        assert_eq!(
            read(&json!({"denyOut": ["0.0.0.0/0"]})),
            Ok(NetworkOptions { egress: Some(EgressPolicy::offline()), ..NetworkOptions::default() })
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
        assert_eq!(read(&json!({"somethingNew": 1})), Err(ErrorCode::NotSupported));
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
