//! Tokens are verified with OpenSSL, which shares no code with what signs them.

use std::collections::BTreeMap;
use std::process::Command;

use cabana_store::{Boot, Store};
use cabana_types::sandbox::State;
use cabana_types::{BuildId, LifecyclePolicy, Resources, TemplateId, Traffic};
use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("time")
}

fn sandbox() -> Sandbox {
    Sandbox {
        id: SandboxId::from_random([1; 20]),
        team: "default".parse().expect("team"),
        project: "default".parse().expect("project"),
        template: TemplateId::from_random([2; 20]),
        build: BuildId::from_random([3; 16]),
        alias: None,
        state: State::Running,
        isolation: "native".into(),
        resources: Resources::default(),
        metadata: BTreeMap::new(),
        env_vars: BTreeMap::new(),
        access_token: None,
        secure: true,
        egress: std::sync::Arc::default(),
        iam: BTreeMap::from([("aws".into(), "sts.amazonaws.com".into()), ("gcp".into(), "//iam".into())]),
        traffic: Traffic::default(),
        created_at: at(0),
        started_at: None,
        end_at: at(0),
        ended_at: None,
        idempotency: None,
        policy: LifecyclePolicy::default(),
        boot: Boot::default(),
        since: at(0),
        archives: 0,
        archive_digest: None,
        created_by: None,
        last_lines: vec![],
    }
}

async fn identity(dir: &tempfile::TempDir) -> Identity {
    let store = Store::open(&dir.path().join("cabana.db")).await.expect("store");
    Identity::new(store, Arc::new(Sealer::for_tests()), "https://api.example.com:8443".into())
}

fn decoded(part: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(part).expect("base64url")
}

/// DER of an integer in big-endian.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let first = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len() - 1);
    let mut value = bytes[first..].to_vec();
    if value[0] >= 0x80 {
        value.insert(0, 0);
    }
    [&[2, u8::try_from(value.len()).expect("short")][..], &value].concat()
}

/// Whether OpenSSL verifies a token with the key of a set that it names.
fn verifies(dir: &tempfile::TempDir, token: &str, keys: &Value) -> bool {
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let kid = serde_json::from_slice::<Value>(&decoded(header)).expect("header")["kid"].clone();
    let key = keys.as_array().expect("keys").iter().find(|key| key["kid"] == kid).expect("the key is published");
    let coordinate = |name: &str| decoded(key[name].as_str().expect("coordinate"));
    // SubjectPublicKeyInfo of a P-256 key, up to the point.
    let head = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
    ];
    let public = [&head[..], &coordinate("x"), &coordinate("y")].concat();
    let signature = decoded(signature);
    let (r, s) = signature.split_at(32);
    let body = [integer(r), integer(s)].concat();
    let signature = [&[0x30, u8::try_from(body.len()).expect("short")][..], &body].concat();
    let file = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    };
    let done = Command::new("openssl")
        .args(["dgst", "-sha256", "-keyform", "DER", "-verify"])
        .arg(file("public.der", &public))
        .arg("-signature")
        .arg(file("signature", &signature))
        .arg(file("signed", format!("{header}.{claims}").as_bytes()))
        .output()
        .expect("openssl");
    done.status.success()
}

#[tokio::test]
async fn a_token_says_who_asks_and_verifies() {
    let dir = tempfile::tempdir().expect("directory");
    let identity = identity(&dir).await;
    let row = sandbox();
    let token = identity.token_at(&row, "aws", at(0)).await.expect("token");
    let keys = serde_json::to_value(identity.keys().await.expect("keys")).expect("JSON");
    assert!(verifies(&dir, token.expose(), &keys));
    let mut forged: Vec<String> = token.expose().split('.').map(str::to_owned).collect();
    let claims: Value = serde_json::from_slice(&decoded(&forged[1])).expect("claims");
    forged[1] = URL_SAFE_NO_PAD.encode(json!({"sub": "another"}).to_string());
    assert!(!verifies(&dir, &forged.join("."), &keys));
    assert_eq!(claims["iss"], "https://api.example.com:8443");
    assert_eq!(claims["aud"], "sts.amazonaws.com");
    assert_eq!(claims["sub"], format!("spiffe://api.example.com/team/default/sandbox/{}", row.id));
    let (iat, exp) = (claims["iat"].as_i64().expect("iat"), claims["exp"].as_i64().expect("exp"));
    assert!(iat == at(0).as_second() && exp - iat <= 600 && claims["nbf"].as_i64().is_some_and(|nbf| nbf <= iat));
    assert_eq!((&claims["sandbox_id"], &claims["team_id"]), (&json!(row.id), &json!("default")));
    assert_eq!(claims["template_id"], json!(row.template));
    assert!(claims["jti"].is_string());
}

#[tokio::test]
async fn tokens_are_kept_below_their_life() {
    let dir = tempfile::tempdir().expect("directory");
    let identity = identity(&dir).await;
    let row = sandbox();
    let first = identity.token_at(&row, "aws", at(0)).await.expect("token");
    assert_eq!(identity.token_at(&row, "aws", at(299)).await.expect("same"), first);
    assert_ne!(identity.token_at(&row, "aws", at(301)).await.expect("new"), first);
    assert_ne!(identity.token_at(&row, "gcp", at(0)).await.expect("other"), first);
    assert_eq!(identity.token_at(&row, "azure", at(0)).await, Err(CredentialError::NotFound));
}

#[tokio::test]
async fn keys_rotate_and_old_ones_are_published_for_a_while() {
    let dir = tempfile::tempdir().expect("directory");
    let identity = identity(&dir).await;
    let day = Duration::from_secs(24 * 3600);
    let now = Timestamp::now();
    let old = identity.signer(now - KEY_LIFE).await.expect("first").id.clone();
    assert_eq!(identity.signer(now - day).await.expect("same").id, old);
    let new = identity.signer(now).await.expect("second").id.clone();
    assert_ne!(new, old);
    let published = |keys: Vec<Jwk>| keys.into_iter().map(|key| key.kid).collect::<Vec<_>>();
    assert_eq!(published(identity.keys().await.expect("keys")), [new.clone(), old]);
    let later = Identity::new(identity.store.clone(), Arc::clone(&identity.sealer), String::new());
    assert_eq!(later.signer(now).await.expect("read from the store").id, new);
    assert_eq!(later.token_at(&sandbox(), "aws", now + KEY_LIFE * 2).await.map(drop), Ok(()));
    let keys = later.store.signing_keys().await.expect("keys");
    assert_eq!(keys.len(), 2, "the first was forgotten");
}
