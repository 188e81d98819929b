//! Teams are isolated from each other.

use cabana_store::{ApiKey, Store, Team};
use cabana_types::KeyId;
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::build_world::{TestBuild, ready};
use crate::http::{Answer, send};
use crate::openapi::routes;
use crate::server::TestServer;

pub(crate) const OTHER_KEY: &str = "e2b_0123456789012345678901234567890123456789";

/// A tool, and a call of one.
const TOOL: &str = "sandbox_read_file";
const CALL: &str = "call_aaaaaaaaaaaaaaaaaaaa";

/// A server with a second team.
pub(crate) fn with_another_team() -> TestServer {
    let mut server = TestServer::start();
    server.stop();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let store = Store::open(&server.data_dir().join("cabana.db")).await.expect("open");
        let team = Team { id: "other".parse().expect("id"), name: "other".into(), created_at: Timestamp::now() };
        let key = ApiKey {
            id: KeyId::from_random([3; 16]),
            team: team.id.clone(),
            hash: Sha256::digest(OTHER_KEY).into(),
            name: "other".into(),
            prefix: "e2b_01".into(),
            suffix: "6789".into(),
            created_at: Timestamp::now(),
            last_used_at: None,
            scopes: cabana_types::Permissions::PLAIN_KEY,
            expires_at: None,
            cidrs: vec![],
            created_by: None,
            project: None,
        };
        store.add_team(team).await.expect("team");
        store.add_key(key).await.expect("key");
        store.close().await;
    });
    server.restart()
}

pub(crate) fn as_other(server: &TestServer, method: &str, path: &str, body: Option<&str>) -> Answer {
    send(server.address, method, path, &[("x-api-key", OTHER_KEY)], body.map(str::as_bytes)).expect("answer")
}

#[test]
fn the_sandboxes_of_another_team_are_not_found() {
    let server = with_another_team();
    let running = server.create();
    let ended = server.create();
    server.kill(&ended).is(204);
    let mut tried = 0;
    for (method, path, _) in routes().into_iter().filter(|(_, path, _)| path.contains("{sandboxID}")) {
        for id in [&running, &ended] {
            let path = path.replace("{sandboxID}", id).replace("{name}", TOOL).replace("{callID}", CALL);
            if path.ends_with("/download") {
                // Authorised by its link, which only its team gets.
                as_other(&server, &method, &path, None).error(401, "unauthorized");
                continue;
            }
            let message = as_other(&server, &method, &path, Some(r#"{"timeout": 5}"#)).error(404, "sandbox_not_found");
            assert!(message.contains("was not found"), "no details are revealed: {method} {path}: {message}");
            tried += 1;
        }
    }
    assert!(tried >= 20, "{tried}");
    for path in ["/v2/sandboxes", "/sandboxes", "/events/sandboxes"] {
        assert_eq!(as_other(&server, "GET", path, None).is(200).json(), json!([]), "{path}");
    }
    assert_eq!(as_other(&server, "GET", "/v2/sandboxes", None).header("x-total-running"), Some("0"));
    let metrics = as_other(&server, "GET", &format!("/sandboxes/metrics?sandbox_ids={running}"), None).is(200).json();
    assert_eq!(metrics, json!({"sandboxes": {}}));
    assert_eq!(server.listed(), [running], "and nothing happened to them");
}

#[test]
fn idempotency_keys_belong_to_a_team() {
    let server = with_another_team();
    let body = r#"{"templateID":"base"}"#;
    let post = |key: &str| {
        let headers = [("x-api-key", key), ("idempotency-key", "same")];
        let made = send(server.address, "POST", "/v2/sandboxes", &headers, Some(body.as_bytes())).expect("answer");
        made.is(201).member("sandboxID")
    };
    assert_ne!(post(&server.key), post(OTHER_KEY));
}

#[test]
fn a_public_template_is_for_every_team() {
    let server = with_another_team();
    let made = as_other(&server, "POST", "/v2/sandboxes", Some(r#"{"templateID":"base"}"#)).is(201);
    let teams = as_other(&server, "GET", "/teams", None).is(200).json();
    assert_eq!((&teams[0]["teamID"], teams.as_array().map(Vec::len)), (&json!("other"), Some(1)));
    server.kill(&made.member("sandboxID")).error(404, "sandbox_not_found");
}

#[test]
fn the_keys_of_another_team_are_not_found() {
    let server = with_another_team();
    let rows = as_other(&server, "GET", "/api-keys", None).is(200).json();
    assert_eq!((&rows[0]["name"], rows.as_array().map(Vec::len)), (&json!("other"), Some(1)));
    let id = server.get("/api-keys").is(200).json()[0]["id"].as_str().expect("id").to_owned();
    as_other(&server, "DELETE", &format!("/api-keys/{id}"), None).error(404, "key_not_found");
    as_other(&server, "PATCH", &format!("/api-keys/{id}"), Some(r#"{"name":"mine"}"#)).error(404, "key_not_found");
    assert_eq!(server.get("/api-keys").is(200).json()[0]["name"], "first");
}

#[test]
fn the_webhooks_of_another_team_are_not_found() {
    let server = with_another_team();
    let hook = json!({"name": "n", "url": "https://example.com/", "events": ["sandbox.lifecycle.paused"], "signatureSecret": "s"});
    let id = server.post("/events/webhooks", hook).is(201).member("id");
    assert_eq!(as_other(&server, "GET", "/events/webhooks", None).is(200).json(), json!([]));
    let mut tried = 0;
    for (method, path, _) in routes().into_iter().filter(|(_, path, _)| path.contains("{webhookID}")) {
        let answer = as_other(&server, &method, &path.replace("{webhookID}", &id), Some(r#"{"name":"mine"}"#));
        answer.error(404, "webhook_not_found");
        tried += 1;
    }
    assert_eq!(tried, 4);
    assert_eq!(server.get(&format!("/events/webhooks/{id}")).is(200).member("name"), "n");
}

/// One resource of each kind that a team can have.
pub(crate) struct Owned {
    pub(crate) running: String,
    ended: String,
    webhook: String,
    secret: String,
    key: String,
    pub(crate) build: TestBuild,
    snapshot: String,
    service: String,
    link: String,
    chat: String,
    attachment: String,
    agent: String,
}

/// A model provider of a team.
const PROVIDER: &str = "our-own-models";

impl Owned {
    pub(crate) fn new(server: &TestServer) -> Self {
        let (running, ended) = (server.create(), server.create());
        server.kill(&ended).is(204);
        let hook = json!({"name": "n", "url": "https://example.com/", "events": ["sandbox.lifecycle.paused"], "signatureSecret": "s"});
        let webhook = server.post("/events/webhooks", hook).is(201).member("id");
        let secret = server.post("/secrets", json!({"name": "mine", "value": "v"})).is(201).member("secretID");
        let key = server.get("/api-keys").is(200).json()[0]["id"].as_str().expect("id").to_owned();
        let build = ready(server, "mine");
        let snapshot = server.post(&format!("/sandboxes/{running}/snapshots"), json!({})).is(201).member("snapshotID");
        let new = json!({"command": "sleep 1000", "port": 8000});
        let service = server.post(&format!("/sandboxes/{running}/services"), new).is(201).member("id");
        let link = server.post(&format!("/services/{service}/links"), json!({})).is(201).member("id");
        let agent = server.post("/agents", json!({"name": "Our agent"})).is(201).member("id");
        server.post("/model-providers", json!({"name": PROVIDER, "kind": "openai", "key": "k"})).is(201);
        let attachment =
            crate::attachments::upload(server, &[("a.txt", b"text")])[0]["id"].as_str().expect("id").to_owned();
        let chat = server.post("/chats", json!({"title": "Our chat"})).is(201).json()["chat"]["id"]
            .as_str()
            .expect("id")
            .to_owned();
        Self { running, ended, webhook, secret, key, build, snapshot, service, link, chat, attachment, agent }
    }

    /// All ids of the team's resources, and its key. No answer to another team may contain one.
    pub(crate) fn ids(&self, server: &TestServer) -> Vec<String> {
        let Self { running, ended, webhook, secret, key, build, snapshot, service, link, chat, attachment, agent } =
            self;
        let ids = [running, ended, webhook, secret, key, &build.template, &build.build, snapshot, service, link];
        let more = [chat, attachment, agent, &server.key];
        ids.into_iter().chain(more).cloned().chain([PROVIDER.to_owned()]).collect()
    }

    /// Values of a path parameter, and the response that another team gets for them.
    pub(crate) fn values(&self, parameter: &str) -> (Vec<String>, u16, &'static str) {
        let clone = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        match parameter {
            "sandboxID" => (clone(&[&self.running, &self.ended]), 404, "sandbox_not_found"),
            "webhookID" => (clone(&[&self.webhook]), 404, "webhook_not_found"),
            "secretID" => (clone(&[&self.secret, "mine"]), 404, "secret_not_found"),
            "serviceID" => (clone(&[&self.service]), 404, "service_not_found"),
            "linkID" => (clone(&[&self.link]), 404, "service_not_found"),
            "chatID" => (clone(&[&self.chat]), 404, "chat_not_found"),
            "attachmentID" => (clone(&[&self.attachment]), 404, "attachment_not_found"),
            "agentID" => (clone(&[&self.agent]), 404, "agent_not_found"),
            "providerName" => (clone(&[PROVIDER]), 404, "provider_not_found"),
            "apiKeyID" => (clone(&[&self.key]), 404, "key_not_found"),
            "templateID" => {
                (clone(&[&self.build.template, "default%2Fmine", &self.snapshot]), 404, "template_not_found")
            }
            // As with E2B: a name that is taken is forbidden, not missing.
            "alias" => (clone(&["default%2Fmine"]), 403, "forbidden"),
            "teamID" => (clone(&["default"]), 403, "forbidden"),
            // Those of other teams; the ones of the team itself are in `roles.rs`.
            "projectID" => (clone(&["prj_00000000000000000000"]), 404, "project_not_found"),
            "invitationID" => (clone(&["inv_00000000000000000000"]), 403, "forbidden"),
            // Only operators see people of other teams.
            "userID" => (clone(&["usr_00000000000000000000"]), 403, "forbidden"),
            // Only operators have to do with plans.
            "planID" => (clone(&["self-hosted"]), 403, "forbidden"),
            // Programs have no sessions.
            "sessionID" => (clone(&["ses_00000000000000000000"]), 404, "session_not_found"),
            // Not supported for any team.
            "volumeID" => (clone(&["some"]), 400, "not_supported"),
            // Parts of the resource before them in the path.
            "callID" => (clone(&[CALL]), 404, "sandbox_not_found"),
            "turnID" => (clone(&["turn_aaaaaaaaaaaaaaaaaaaa"]), 404, "chat_not_found"),
            "pid" => (clone(&["812"]), 404, "sandbox_not_found"),
            "shareID" => (clone(&["grt_00000000000000000000"]), 404, "chat_not_found"),
            "name" => (clone(&[TOOL]), 404, "sandbox_not_found"),
            "buildID" => (clone(&[&self.build.build]), 404, "template_not_found"),
            "hash" => (clone(&["abc"]), 404, "template_not_found"),
            "tag" => (clone(&["default"]), 404, "template_not_found"),
            _ => panic!("{{{parameter}}} is a new parameter: make one here, and say what another team gets for it"),
        }
    }
}

/// A body that every route can read.
pub(crate) const BODY: &str = r#"{"timeout": 5, "name": "theirs", "public": true, "value": "v", "hosts": ["a.org"]}"#;

/// The names of the parameters of a path, in order.
pub(crate) fn parameters(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

/// Every route with a parameter: for the resources of one team, another team gets the same response as if they did not
/// exist.
#[test]
fn every_route_hides_what_another_team_has() {
    let server = with_another_team();
    let owned = Owned::new(&server);
    let state = |path: &str| {
        let mut rows = server.get(path).is(200).json();
        // The request updates the key's last use.
        rows.as_array_mut().expect("rows").iter_mut().for_each(|row| row["lastUsed"] = json!(null));
        rows
    };
    let all = [
        "/v2/sandboxes",
        "/events/webhooks",
        "/api-keys",
        "/templates",
        "/templates/mine/tags",
        "/snapshots",
        "/secrets",
    ];
    let before = all.map(state);
    let mut tried = 0;
    for (method, path, _) in routes() {
        let parameters = parameters(&path);
        let Some((first, rest)) = parameters.split_first() else { continue };
        let (values, status, code) = owned.values(first);
        for value in values {
            let mut path = path.replace(&format!("{{{first}}}"), &value);
            for parameter in rest {
                path = path.replace(&format!("{{{parameter}}}"), &owned.values(parameter).0[0]);
            }
            if path.ends_with("/exists") {
                path.push_str("?tag=default");
            }
            let answer = as_other(&server, &method, &path, Some(BODY));
            // Uploads and downloads are authorised by their link, which only its team gets.
            let by_link = (method == "PUT" && path.starts_with("/templates/") && path.contains("/files/"))
                || path.ends_with("/download");
            // Keys have no permission for members unless one asks for it.
            let of_members = path.starts_with("/projects/") && (method != "GET" || path.ends_with("/members"));
            let (status, code) = match (by_link, of_members) {
                (true, _) => (401, "unauthorized"),
                (_, true) => (403, "forbidden"),
                _ if path.ends_with("/leave") => (404, "team_not_found"),
                // The same for all teams.
                _ if path.starts_with("/templates/gallery/") => (404, "template_not_found"),
                _ => (status, code),
            };
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
            answer.error(status, code);
            tried += 1;
        }
    }
    assert!(tried >= 60, "{tried}");
    // Ids in bodies and queries.
    let target =
        r#"{"target": "default/mine", "name": "default/mine", "tags": ["theirs"], "templateID": "default/mine"}"#;
    for (method, path) in [("POST", "/templates/tags"), ("DELETE", "/templates/tags"), ("POST", "/v2/sandboxes")] {
        as_other(&server, method, path, Some(target)).error(404, "template_not_found");
    }
    for path in ["/snapshots", &format!("/snapshots?sandboxID={}", owned.running), "/events/webhooks"] {
        assert_eq!(as_other(&server, "GET", path, None).is(200).json(), json!([]), "{path}");
    }
    assert_eq!(all.map(state), before, "and nothing happened to any of it");
}
