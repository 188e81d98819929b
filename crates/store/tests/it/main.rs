//! Black-box tests of the store on real files.

mod audit;
mod build_logs;
mod builds;
mod chats;
mod feed;
mod history;
mod listing;
mod metering;
mod opening;
mod secrets;
mod services;
mod tool_calls;
mod upgrade;
mod usage;
mod webhooks;
mod writing;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cabana_store::{ApiKey, Boot, Build, BuildStatus, Idempotency, Inserted, ProvidedTemplate, Sandbox, Store, Team};
use cabana_types::egress::EgressPolicy;
use cabana_types::quota::Limits;
use cabana_types::sandbox::State;
use cabana_types::{
    BuildId, KeyId, LifecyclePolicy, ProjectId, Resources, SandboxId, Secret, TeamId, TemplateId, Traffic,
};
use jiff::Timestamp;

/// A database in its own directory.
struct TestDatabase {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl TestDatabase {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("cabana.db");
        Self { _dir: dir, path }
    }

    /// A database that no disk has to write.
    fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temporary directory");
        let path = dir.path().join("cabana.db");
        Self { _dir: dir, path }
    }

    async fn open(&self) -> Store {
        Store::open(&self.path).await.expect("open")
    }

    /// A store with a team, a key and a template.
    async fn populated(&self) -> Store {
        let store = self.open().await;
        assert!(store.create_first_team(team(), key(1)).await.expect("found"));
        assert_eq!(store.ensure_template(given(1)).await.expect("template"), template_id());
        store
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("time")
}

fn team() -> Team {
    Team { id: "default".parse().expect("id"), name: "default".into(), created_at: at(0) }
}

fn key_id(n: u8) -> KeyId {
    KeyId::from_random([n; 16])
}

fn key(n: u8) -> ApiKey {
    ApiKey {
        id: key_id(n),
        team: team().id,
        hash: [n; 32],
        name: format!("key {n}"),
        prefix: "e2b_".into(),
        suffix: "abcd".into(),
        created_at: at(i64::from(n)),
        last_used_at: None,
        scopes: cabana_types::Permissions::PLAIN_KEY,
        expires_at: None,
        cidrs: vec![],
        created_by: None,
        project: None,
    }
}

fn template_id() -> TemplateId {
    TemplateId::from_random([1; 20])
}

/// The template `base` with a finished build.
fn given(n: u8) -> ProvidedTemplate {
    ProvidedTemplate {
        id: template_id(),
        team: team().id,
        alias: "base".into(),
        public: true,
        build: build(n).id,
        ready: true,
        resources: Resources::default(),
        boot: build(n).boot,
        at: at(i64::from(n)),
    }
}

fn build(n: u8) -> Build {
    Build {
        id: BuildId::from_random([n; 16]),
        template: template_id(),
        status: BuildStatus::Ready,
        resources: Resources::default(),
        boot: Boot {
            default_workdir: Some("/home/user".into()),
            env: BTreeMap::from([("A".into(), "1".into())]),
            ..Boot::default()
        },
        tags: vec!["default".into()],
        created_at: at(i64::from(n)),
        updated_at: at(i64::from(n)),
        finished_at: Some(at(i64::from(n))),
        error: None,
        failed_step: None,
    }
}

fn sandbox_id(n: u8) -> SandboxId {
    let mut random = [0; 20];
    (random[0], random[1]) = (n / 36, n % 36);
    SandboxId::from_random(random)
}

fn sandbox(n: u8) -> Sandbox {
    Sandbox {
        id: sandbox_id(n),
        team: team().id,
        project: ProjectId::default_of(&team().id),
        template: template_id(),
        build: build(1).id,
        alias: Some("base".into()),
        state: State::Creating,
        isolation: "native".into(),
        resources: Resources::default(),
        metadata: BTreeMap::from([("n".into(), n.to_string()), ("parity".into(), (n % 2).to_string())]),
        env_vars: BTreeMap::from([("TOKEN".into(), "secret".into())]),
        access_token: Some(Secret::new(format!("token {n}"))),
        secure: true,
        egress: Arc::new(egress()),
        iam: BTreeMap::from([("aws".into(), "sts.amazonaws.com".into())]),
        traffic: Traffic {
            token: Some(Secret::new(format!("traffic {n}"))),
            mask_host: Some("localhost:${PORT}".into()),
            https_ports: vec![443, 8443],
        },
        created_at: at(0),
        started_at: None,
        end_at: at(300),
        ended_at: None,
        idempotency: None,
        policy: LifecyclePolicy { keep: vec!["data".into()], ..LifecyclePolicy::default() },
        boot: Boot { env: BTreeMap::from([("A".into(), "1".into())]), ..Boot::default() },
        since: at(0),
        archives: 0,
        archive_digest: None,
        created_by: Some(key_id(1).to_string()),
        last_lines: vec![],
    }
}

fn egress() -> EgressPolicy {
    serde_json::from_value(serde_json::json!({
        "allowOut": ["a.example.com", "9.9.9.9"], "denyOut": ["0.0.0.0/0"],
        "egressProxy": {"address": "proxy.example.com:1080", "username": "u", "password": "hunter2"},
        "rules": {"a.example.com": {"authorization": "Bearer hunter2"}},
    }))
    .expect("policy")
}

async fn insert(store: &Store, sandbox: Sandbox) {
    assert!(matches!(
        store.insert_sandbox(sandbox, key_id(1), Limits::default()).await.expect("insert"),
        Inserted::New
    ));
}

fn idempotency(key: &str) -> Option<Idempotency> {
    Some(Idempotency { key: key.into(), request: [9; 32] })
}

fn other_team() -> TeamId {
    "other".parse().expect("id")
}
