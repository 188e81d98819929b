//! Credentials for registries, as build requests carry them.

use cabana_types::Secret;
use serde::Deserialize;

use crate::error::{Error, Result};

/// As in a build request (`fromImageRegistry`).
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Credentials {
    /// User name and password.
    Registry {
        /// User name.
        username: String,
        /// Password or token.
        password: Secret,
    },
    /// An AWS key, which is exchanged for a password of ECR.
    Aws {
        /// Id of the key.
        aws_access_key_id: String,
        /// The secret key.
        aws_secret_access_key: Secret,
        /// Region of the registry.
        aws_region: String,
    },
    /// A service account of Google Cloud.
    Gcp {
        /// Content of the key file.
        service_account_json: Secret,
    },
}

/// User name and password for a registry.
#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) username: String,
    pub(super) password: Secret,
}

impl Login {
    /// The value of a basic `Authorization` header.
    pub(super) fn basic(&self) -> Result<http::HeaderValue> {
        use base64::Engine;
        let text = format!("{}:{}", self.username, self.password.expose());
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        authorization("Basic", &encoded)
    }
}

/// The value of an `Authorization` header, hidden from `Debug`.
pub(super) fn authorization(scheme: &str, token: &str) -> Result<http::HeaderValue> {
    let mut value = http::HeaderValue::from_str(&format!("{scheme} {token}"))
        .map_err(|_| Error::InvalidCredentials("they have characters that a header cannot have".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Credentials {
    /// The login, unless it has to be requested from AWS first.
    pub(super) fn login(&self) -> Result<Option<Login>> {
        match self {
            Self::Registry { username, password } => {
                if username.is_empty() || username.contains(':') {
                    return Err(Error::InvalidCredentials("the user name is empty or has a colon".to_owned()));
                }
                Ok(Some(Login { username: username.clone(), password: password.clone() }))
            }
            Self::Gcp { service_account_json } => {
                let is_account = serde_json::from_str::<serde_json::Value>(service_account_json.expose())
                    .is_ok_and(|value| value.get("private_key").is_some());
                if !is_account {
                    let reason = "serviceAccountJson is not the JSON file of a service account key";
                    return Err(Error::InvalidCredentials(reason.to_owned()));
                }
                Ok(Some(Login { username: "_json_key".to_owned(), password: service_account_json.clone() }))
            }
            Self::Aws { .. } => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Credentials {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_three_forms() {
        let login = parse(r#"{"type":"registry","username":"u","password":"p:q"}"#).login().unwrap().unwrap();
        assert_eq!(login.basic().unwrap(), "Basic dTpwOnE=");
        assert!(!format!("{login:?} {:?}", login.basic()).contains("dTpwOnE"), "secrets are not shown");
        let gcp = parse(r#"{"type":"gcp","serviceAccountJson":"{\"private_key\":\"k\"}"}"#);
        assert_eq!(gcp.login().unwrap().unwrap().username, "_json_key");
        assert!(!format!("{gcp:?}").contains("private_key"));
        assert!(parse(r#"{"type":"gcp","serviceAccountJson":"nope"}"#).login().is_err());
        let aws = parse(r#"{"type":"aws","awsAccessKeyId":"A","awsSecretAccessKey":"S","awsRegion":"eu-west-1"}"#);
        assert!(aws.login().unwrap().is_none() && !format!("{aws:?}").contains("\"S\""));
        assert!(serde_json::from_str::<Credentials>(r#"{"type":"other"}"#).is_err());
        assert!(parse(r#"{"type":"registry","username":"","password":"p"}"#).login().is_err());
    }
}
