//! Bodies of the API for secrets, in E2B's form and in Novita's. No answer has a field for a value.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Secret, SecretId};

/// Body of `POST /secrets`. With `hosts` it is a request in Novita's form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewSecret {
    /// Its name: 1 to 128 letters, digits, `_` and `-`, stored in lower case. `sec_` is the beginning of ids.
    pub name: String,
    /// Its value. It is never returned.
    pub value: Secret,
    /// Labels; at most 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Hosts that it is for: names, or `*.name` (Novita).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// What it is for (Novita).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Body of `POST /secrets/{secretID}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretUpdate {
    /// The new value.
    pub value: Secret,
    /// New labels, instead of all present ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Body of `PUT /secrets/{secretID}` (Novita).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretReplacement {
    /// The new value.
    pub value: Secret,
    /// Hosts that it is for.
    pub hosts: Vec<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretInfo {
    /// Its id.
    #[serde(rename = "secretID")]
    pub secret_id: SecretId,
    /// Its name.
    pub name: String,
    /// How often its value was set.
    pub current_version: u32,
    /// Its labels.
    pub metadata: BTreeMap<String, String>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When its value was last set.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// A secret as Novita's clients know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretBinding {
    /// Its name as it was written.
    pub name: String,
    /// Hosts that it is for.
    pub hosts: Vec<String>,
    /// What stands for its value inside a sandbox.
    pub placeholder: String,
    /// Always true.
    pub has_secret: bool,
    /// Always `ready`.
    pub status: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// When its value was last set.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub updated_at: Option<Timestamp>,
}

/// Secrets as Novita's clients list them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretBindings {
    /// All of the team.
    pub secrets: Vec<SecretBinding>,
}

/// Answer of `DELETE /secrets/{secretID}` to Novita's clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedSecret {
    /// Its name.
    pub deleted: String,
}

/// A secret in the client's form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SecretView {
    /// E2B's.
    Info(SecretInfo),
    /// Novita's.
    Binding(SecretBinding),
}

/// A list of secrets in the client's form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SecretList {
    /// A page in E2B's form.
    Page(Vec<SecretInfo>),
    /// All, in Novita's form.
    All(SecretBindings),
}

/// Body of `POST /admin/signing-keys`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SigningKeyChange {
    /// Whether the keys before it are not published any more: no token that they have signed verifies then. Otherwise they
    /// stay for a day, so that tokens verify until they expire.
    #[serde(default)]
    pub withdraw: bool,
}

/// Answer of `POST /admin/signing-keys`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewSigningKey {
    /// Id of the key, as `/.well-known/jwks.json` has it.
    pub kid: String,
}
