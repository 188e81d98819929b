//! Workload identity: the option `iam` of a new sandbox, and what verifiers of its tokens need. That is public by design:
//! other systems have no key of this server.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use cabana_types::ErrorCode;
use cabana_types::egress::template::is_token_name;
use cabana_types::limits::{MAX_AUDIENCE_BYTES, MAX_IDENTITY_TOKENS, MAX_TOKEN_NAME_BYTES};
use cabana_types::wire::{NewSigningKey, SigningKeyChange};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};

use super::App;
use super::body::OptionalBody;
use crate::error::{ApiError, short};

/// The only type of tokens.
const TOKEN_TYPE: &str = "JWT-SVID";
/// How long verifiers may keep the keys, in seconds. A replaced one is published for much longer.
const KEEP_KEYS: &str = "public, max-age=300";

/// Description of the issuer of workload identity tokens, as OpenID Connect has it.
#[utoipa::path(get, path = "/.well-known/openid-configuration", tag = "identity", security(()),
    responses((status = 200, description = "Issuer and place of its keys", body = Object)))]
pub(super) async fn openid_configuration(State(app): State<Arc<App>>) -> impl IntoResponse {
    let issuer = app.vault.identity.issuer();
    let document = json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/.well-known/jwks.json"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "claims_supported": ["iss", "sub", "aud", "iat", "nbf", "exp", "jti", "sandbox_id", "template_id", "team_id"],
    });
    ([(CACHE_CONTROL, KEEP_KEYS)], Json(document))
}

/// Public keys that verify workload identity tokens.
#[utoipa::path(get, path = "/.well-known/jwks.json", tag = "identity", security(()),
    responses((status = 200, description = "A JSON Web Key Set", body = Object)))]
pub(super) async fn jwks(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let keys = app.vault.identity.keys().await.map_err(|error| {
        ApiError::new(ErrorCode::ServiceUnavailable, format!("The keys of this server cannot be read: {error}"))
    })?;
    Ok(([(CACHE_CONTROL, KEEP_KEYS)], Json(json!({ "keys": keys }))))
}

/// Replace the key that signs workload identity tokens. For operators: it is replaced every 30 days by itself.
#[utoipa::path(post, path = "/admin/signing-keys", tag = "identity", request_body = Option<SigningKeyChange>,
    responses((status = 201, description = "Tokens are signed with it from now on", body = NewSigningKey)))]
pub(super) async fn rotate_signing_key(
    State(app): State<Arc<App>>,
    OptionalBody(change): OptionalBody<SigningKeyChange>,
) -> Result<(StatusCode, Json<NewSigningKey>), ApiError> {
    let kid = app.vault.identity.rotate(change.withdraw).await.map_err(|error| {
        ApiError::new(ErrorCode::ServiceUnavailable, format!("The key could not be replaced: {error}"))
    })?;
    Ok((StatusCode::CREATED, Json(NewSigningKey { kid })))
}

/// The tokens that a request registers: audience by name.
pub(super) fn read_iam(iam: Option<&Value>) -> Result<BTreeMap<String, String>, ApiError> {
    let invalid = |text: String| Err(ApiError::invalid(text));
    let tokens = match iam {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(iam)) => match iam.get("tokens") {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(tokens)) => tokens,
            Some(_) => return invalid("iam.tokens must be an object".into()),
        },
        Some(_) => return invalid("iam must be an object".into()),
    };
    if tokens.len() > MAX_IDENTITY_TOKENS {
        return invalid(format!("iam.tokens: too many tokens: {} (max {MAX_IDENTITY_TOKENS})", tokens.len()));
    }
    let mut checked = BTreeMap::new();
    for (name, token) in tokens {
        if name.is_empty() {
            return invalid("iam.tokens: token name must not be empty".into());
        }
        let shown = short(name);
        if name.len() > MAX_TOKEN_NAME_BYTES || !is_token_name(name) {
            return invalid(format!(
                "iam.tokens: the name {shown:?} cannot be used: it has at most {MAX_TOKEN_NAME_BYTES} bytes and no $, {{, }} or \
                 control characters"
            ));
        }
        let text = |member| token.get(member).and_then(Value::as_str).unwrap_or_default();
        let audience = text("audience");
        if audience.is_empty() {
            return invalid(format!("iam.tokens.{shown}.audience: audience is required"));
        }
        if audience.len() > MAX_AUDIENCE_BYTES {
            return invalid(format!("iam.tokens.{shown}.audience: audience has more than {MAX_AUDIENCE_BYTES} bytes"));
        }
        if text("tokenType") != TOKEN_TYPE {
            return invalid(format!("iam.tokens.{shown}.tokenType: only \"{TOKEN_TYPE}\" is supported"));
        }
        checked.insert(name.clone(), audience.to_owned());
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_or_refused() {
        let read = |value: Value| read_iam(Some(&value)).map_err(|error| error.message().to_owned());
        for none in [json!(null), json!({}), json!({"tokens": null}), json!({"tokens": {}})] {
            assert_eq!(read(none), Ok(BTreeMap::new()));
        }
        let token = |audience: &str, kind: &str| json!({"audience": audience, "tokenType": kind});
        let two = json!({"tokens": {"a": token(" Any Text ", "JWT-SVID"), "b c": token("x", "JWT-SVID")}});
        assert_eq!(read(two).map(|tokens| tokens["a"].clone()), Ok(" Any Text ".to_owned()), "kept as it is");
        let many: serde_json::Map<_, _> = (0..6).map(|n| (n.to_string(), token("x", "JWT-SVID"))).collect();
        for (value, message) in [
            (json!({"tokens": many}), "iam.tokens: too many tokens: 6 (max 5)"),
            (json!({"tokens": {"": token("x", "JWT-SVID")}}), "iam.tokens: token name must not be empty"),
            (json!({"tokens": {"n": token("", "JWT-SVID")}}), "iam.tokens.n.audience: audience is required"),
            (json!({"tokens": {"n": {}}}), "iam.tokens.n.audience: audience is required"),
            (json!({"tokens": {"n": "x"}}), "iam.tokens.n.audience: audience is required"),
            (json!({"tokens": {"n": token("x", "jwt")}}), "iam.tokens.n.tokenType: only \"JWT-SVID\" is supported"),
            (json!({"tokens": {"n": {"audience": "x"}}}), "iam.tokens.n.tokenType: only \"JWT-SVID\" is supported"),
            (json!({"tokens": 7}), "iam.tokens must be an object"),
            (json!("all"), "iam must be an object"),
        ] {
            assert_eq!(read(value), Err(message.to_owned()));
        }
        for name in ["a{b", "a}b", "a$b", "a\nb", &"x".repeat(129)] {
            let message = read(json!({"tokens": {name: token("x", "JWT-SVID")}})).expect_err(name);
            assert!(message.contains("cannot be used"), "{message}");
        }
    }
}
