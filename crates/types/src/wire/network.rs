//! The network options of a sandbox: where it may connect, and how its ports are reached.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::Secret;
use crate::egress::Denials;

/// `network` in the bodies of create and connect, and the body of `PUT /sandboxes/{id}/network`. Not validated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkRequest {
    /// A policy to start from, to which the lists are added: `none`, `registries` or `internet` (Cabana).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// What the sandbox may connect to: addresses, CIDR ranges, host names and wildcards like `*.example.com`. Wins over
    /// `denyOut`. Host names need `0.0.0.0/0` in `denyOut`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_out: Option<Vec<String>>,
    /// What it may not connect to: addresses and CIDR ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_out: Option<Vec<String>>,
    /// IPv4 addresses of the servers that resolve its names, instead of the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_servers: Option<Vec<String>>,
    /// SOCKS5 proxy for its TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<NetworkProxy>,
    /// Headers to set in its requests, by host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<BTreeMap<String, Vec<NetworkRule>>>,
    /// `false` is the same as `0.0.0.0/0` in `denyOut`.
    #[serde(rename = "allow_internet_access", skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Whether requests to its ports need no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_public_traffic: Option<bool>,
    /// What it sees as `Host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<String>,
    /// Ports that speak TLS inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_ports: Option<Vec<i64>>,
    /// Names of further members, as newer clients may send.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// A SOCKS5 proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkProxy {
    /// `host:port`.
    pub address: String,
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password; never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// TLS to the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<NetworkProxyTls>,
}

/// TLS to a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkProxyTls {
    /// Whether it is used.
    #[serde(default)]
    pub enabled: bool,
    /// Name to verify, instead of the address's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// PEM certificates that replace the system's; never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_cert: Option<String>,
}

/// A rule for the requests to one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkRule {
    /// What it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<NetworkTransform>,
}

/// Changes of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkTransform {
    /// Headers to set; values may have placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

/// The network options of a sandbox, without secrets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxNetwork {
    /// Whether requests to its ports need no token.
    pub allow_public_traffic: bool,
    /// What it sees as `Host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<String>,
    /// Ports that speak TLS inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub https_ports: Vec<u16>,
    /// What it may connect to; wins over `denyOut`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_out: Vec<String>,
    /// What it may not connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_out: Vec<String>,
    /// Servers that resolve its names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
    /// SOCKS5 proxy for its TCP connections, without password and certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<NetworkProxy>,
    /// Headers to set in its requests, by host name, with placeholders.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, Vec<NetworkRule>>,
}

/// Answer of `GET /sandboxes/{id}/network` (Cabana).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkStatus {
    /// Its network options.
    pub network: SandboxNetwork,
    /// The preset that they are the same as: `none`, `registries` or `internet`; otherwise `custom`.
    pub preset: String,
    /// What was denied since the sandbox was started.
    pub denials: Denials,
}

// By hand: an error has to name the member, and a member that this version does not know must not be ignored, as it may be
// meant to restrict the sandbox.
impl<'de> Deserialize<'de> for NetworkRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Value::Object(members) = Value::deserialize(deserializer)? else {
            return Err(D::Error::custom("network must be an object"));
        };
        let mut request = Self::default();
        for (name, value) in members {
            if value.is_null() {
                continue;
            }
            match name.as_str() {
                "preset" => request.preset = member::<_, D>(&name, value, "none, registries or internet")?,
                "allowOut" => {
                    request.allow_out =
                        member::<_, D>(&name, value, "a list of addresses, CIDR ranges and host names")?;
                }
                "denyOut" => request.deny_out = member::<_, D>(&name, value, "a list of addresses and CIDR ranges")?,
                "dnsServers" => request.dns_servers = member::<_, D>(&name, value, "a list of IPv4 addresses")?,
                "egressProxy" => {
                    let wanted = "an object with address, and username, password and tls as needed";
                    request.egress_proxy = member::<_, D>(&name, value, wanted)?;
                }
                "rules" => {
                    let wanted = "an object like {\"api.example.com\": [{\"transform\": {\"headers\": {}}}]}";
                    request.rules = member::<_, D>(&name, value, wanted)?;
                }
                "allow_internet_access" => {
                    request.allow_internet_access = member::<_, D>(&name, value, "true or false")?;
                }
                "allowPublicTraffic" => {
                    request.allow_public_traffic = member::<_, D>(&name, value, "true or false")?;
                }
                "maskRequestHost" => {
                    request.mask_request_host = member::<_, D>(&name, value, "a host like localhost:${PORT}")?;
                }
                "httpsPorts" => request.https_ports = member::<_, D>(&name, value, "a list of ports")?,
                _ if is_empty(&value) => {}
                _ => request.unknown.push(name),
            }
        }
        Ok(request)
    }
}

fn member<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    name: &str,
    value: Value,
    wanted: &str,
) -> Result<Option<T>, D::Error> {
    // Not the reason: it may repeat a password.
    serde_json::from_value(value).map(Some).map_err(|_| D::Error::custom(format!("network.{name} must be {wanted}")))
}

/// Whether a value asks for nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_typed_and_mistakes_named() {
        let read = |value: Value| serde_json::from_value::<NetworkRequest>(value).map_err(|e| e.to_string());
        let request = read(json!({
            "allowOut": ["a.example"], "denyOut": null, "rules": {"a.example": [{"transform": {"headers": {"x": "y"}}}, {}]},
            "egressProxy": {"address": "a:1", "password": "hunter2", "tls": {"enabled": true, "caCert": "x"}},
            "empty": {"a": []}, "strict": true,
        }))
        .expect("request");
        assert_eq!((request.unknown.as_slice(), request.deny_out.as_ref()), (&["strict".to_owned()][..], None));
        assert!(!format!("{request:?}").contains("hunter2"));
        for (wrong, text) in [
            (json!([]), "network must be an object"),
            (json!({"allowOut": "a"}), "network.allowOut must be a list of addresses, CIDR ranges and host names"),
            (json!({"httpsPorts": ["1"]}), "network.httpsPorts must be a list of ports"),
            (json!({"rules": {"a": [{"transfrom": 1}]}}), "network.rules must be an object like"),
        ] {
            let error = read(wrong).expect_err("refused");
            assert!(error.starts_with(text), "{error}");
        }
        let error = read(json!({"egressProxy": {"adress": "hunter2"}})).expect_err("refused");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
