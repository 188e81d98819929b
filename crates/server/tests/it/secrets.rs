//! `/secrets` in both forms, and workload identity.

use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

const NOVITA: [(&str, &str); 1] = [("user-agent", "novita-sandbox-python-sdk/2.1.1")];

fn create(server: &TestServer, name: &str, value: &str) -> Answer {
    server.post("/secrets", json!({"name": name, "value": value}))
}

#[test]
fn a_secret_has_versions_and_no_value() {
    let server = TestServer::start();
    let made =
        server.post("/secrets", json!({"name": " My-Key_1 ", "value": "canary-1", "metadata": {"a": "b"}})).is(201);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let (body, id) = (made.json(), made.member("secretID"));
    assert_eq!((&body["name"], &body["currentVersion"]), (&json!("my-key_1"), &json!(1)));
    assert_eq!((&body["metadata"], &body["createdAt"]), (&json!({"a": "b"}), &body["updatedAt"]));
    assert!(id.starts_with("sec_") && id.len() == 30, "{id}");
    assert_eq!(body.as_object().map(|o| o.len()), Some(6), "{body}");
    for selector in [id.as_str(), "my-key_1", "MY-KEY_1"] {
        assert_eq!(server.get(&format!("/secrets/{selector}")).is(200).json(), body);
    }
    let update = |body: Value| server.post("/secrets/my-key_1", body).is(200).json();
    let second = update(json!({"value": "canary-2\nsecond line"}));
    assert_eq!((&second["currentVersion"], &second["metadata"]), (&json!(2), &json!({"a": "b"})));
    assert_eq!(update(json!({"value": "", "metadata": {}}))["metadata"], json!({}));
    assert_eq!(server.get("/secrets").is(200).json().as_array().map(Vec::len), Some(1));
    let answer = server.call("DELETE", &format!("/secrets/{id}"), None).is(204);
    assert_eq!(answer.text, "");
    for (method, body) in [("GET", None), ("DELETE", None), ("POST", Some(json!({"value": "x"})))] {
        let answer = server.call(method, "/secrets/my-key_1", body);
        assert_eq!(answer.error(404, "secret_not_found"), "Secret not found");
    }
}

#[test]
fn bad_requests_get_a_fixed_text() {
    let server = TestServer::start();
    create(&server, "taken", "v").is(201);
    let conflict = create(&server, "TAKEN", "canary").error(409, "secret_conflict");
    assert_eq!(conflict, "Secret cannot be modified in its current state");
    let many: serde_json::Map<_, _> = (0..33).map(|n| (n.to_string(), json!("v"))).collect();
    let large: serde_json::Map<_, _> = (0..9).map(|n| (n.to_string(), json!("v".repeat(1000)))).collect();
    let mut bad =
        vec![json!({}), json!({"name": "canary"}), json!({"value": "canary"}), json!({"name": 1, "value": "v"})];
    for name in ["", "a b", "a.b", "canary/x", "sec_x", "SEC_abc", "ü", &"x".repeat(129)] {
        bad.push(json!({"name": name, "value": "canary"}));
    }
    for value in [json!("x".repeat(64 * 1024 + 1)), json!(["canary"]), json!({"canary": 1}), json!(7), json!(null)] {
        bad.push(json!({"name": "n", "value": value}));
    }
    for metadata in
        [json!(many), json!(large), json!({"": "v"}), json!({"k": "v".repeat(1025)}), json!({"k": 1}), json!("canary")]
    {
        bad.push(json!({"name": "n", "value": "v", "metadata": metadata}));
    }
    for hosts in [
        json!([]),
        json!(["*"]),
        json!(["https://canary"]),
        json!(["a:80"]),
        json!(["*foo.org"]),
        json!("a.org"),
        json!([1]),
    ] {
        bad.push(json!({"name": "n", "value": "v", "hosts": hosts}));
    }
    for body in bad {
        let text = body.to_string();
        let answer = server.post("/secrets", body);
        assert_eq!(answer.status, 400, "{text:.200}: {}", answer.text);
        assert_eq!(answer.error(400, "invalid_request"), "Invalid secrets request");
    }
    for body in [json!({}), json!({"value": 1}), json!({"value": "v", "metadata": {"k": {"canary": 1}}})] {
        assert_eq!(server.post("/secrets/taken", body).error(400, "invalid_request"), "Invalid secrets request");
    }
    for query in ["limit=0", "limit=101", "limit=canary", "nextToken=canary"] {
        let answer = server.get(&format!("/secrets?{query}"));
        assert_eq!(answer.error(400, "invalid_request"), "Invalid secrets request");
    }
    for selector in ["sec_canary", "a%20b", "%FF", &"x".repeat(200)] {
        server.get(&format!("/secrets/{selector}")).error(404, "secret_not_found");
    }
    create(&server, &"x".repeat(128), &"v".repeat(64 * 1024)).is(201);
}

#[test]
fn secrets_are_paged() {
    let server = TestServer::start();
    for n in 0..5 {
        create(&server, &format!("s{n}"), "v").is(201);
    }
    let (mut names, mut next) = (vec![], String::new());
    loop {
        let page = server.get(&format!("/secrets?limit=2{next}")).is(200);
        names.extend(
            page.json().as_array().expect("rows").iter().map(|row| row["name"].as_str().expect("name").to_owned()),
        );
        match page.header("x-next-token") {
            Some(token) => next = format!("&nextToken={token}"),
            None => break,
        }
    }
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4"]);
}

#[test]
fn novitas_form_on_the_same_paths() {
    let server = TestServer::start();
    let body = json!({"name": "Vendor.API_key", "value": "canary", "hosts": ["API.example.com", "*.example.com", "api.example.com"]});
    let made = server.post("/secrets", body.clone()).is(201).json();
    assert_eq!(
        (&made["name"], &made["hosts"]),
        (&json!("Vendor.API_key"), &json!(["api.example.com", "*.example.com"]))
    );
    assert_eq!(
        (&made["hasSecret"], &made["status"], &made["description"]),
        (&json!(true), &json!("ready"), &json!(null))
    );
    assert!(made["placeholder"].as_str().is_some_and(|text| text.starts_with("novita_secret_")), "{made}");
    server.post("/secrets", body).error(409, "secret_conflict");
    let replaced = json!({"value": "canary 2", "hosts": ["b.example.com"], "description": "d"});
    let replaced = server.call("PUT", "/secrets/Vendor.API_key", Some(replaced)).is(200).json();
    assert_eq!((&replaced["hosts"], &replaced["description"]), (&json!(["b.example.com"]), &json!("d")));
    assert_eq!(replaced["placeholder"], made["placeholder"]);
    let list = server.call_with("GET", "/secrets", &NOVITA, None).is(200).json();
    assert_eq!(list, json!({"secrets": [replaced]}));
    assert_eq!(server.call_with("GET", "/secrets/vendor.api_key", &NOVITA, None).is(200).json(), replaced);
    assert_eq!(server.get("/secrets").is(200).json()[0]["name"], "vendor.api_key", "one store for both");
    let gone =
        server.call_with("DELETE", "/secrets/Vendor.API_key", &[("x-novita-sdk-name", "x")], None).is(200).json();
    assert_eq!(gone, json!({"deleted": "Vendor.API_key"}));
    let put = json!({"value": "v", "hosts": ["b.org"]});
    server.call("PUT", "/secrets/Vendor.API_key", Some(put)).error(404, "secret_not_found");
}

#[test]
fn the_secrets_of_another_team_are_not_found() {
    let server = with_another_team();
    let id = create(&server, "mine", "v").is(201).member("secretID");
    assert_eq!(as_other(&server, "GET", "/secrets", None).is(200).json(), json!([]));
    for selector in [id.as_str(), "mine"] {
        for (method, body) in [("GET", None), ("POST", Some(r#"{"value":"x"}"#)), ("DELETE", None)] {
            as_other(&server, method, &format!("/secrets/{selector}"), body).error(404, "secret_not_found");
        }
        let put = r#"{"value":"x","hosts":["a.org"]}"#;
        as_other(&server, "PUT", &format!("/secrets/{selector}"), Some(put)).error(404, "secret_not_found");
    }
    as_other(&server, "POST", "/secrets", Some(r#"{"name":"mine","value":"theirs"}"#)).is(201);
    assert_eq!(server.get("/secrets/mine").is(200).json()["currentVersion"], 1);
}

#[test]
fn values_are_sealed_and_survive_a_restart() {
    let mut server = TestServer::start();
    create(&server, "key", "canary-of-the-test").is(201);
    server.post("/secrets/key", json!({"value": "canary-of-the-test-2"})).is(200);
    server.stop();
    for entry in std::fs::read_dir(server.data_dir()).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_file() {
            let bytes = std::fs::read(&path).expect("file");
            assert!(!bytes.windows(18).any(|window| window == b"canary-of-the-test"), "{}", path.display());
        }
    }
    let server = server.restart();
    assert_eq!(server.get("/secrets/key").is(200).json()["currentVersion"], 2);
}

#[test]
fn identity_is_described_to_everybody() {
    let server = TestServer::start();
    let get = |path: &str| send(server.address, "GET", path, &[], None).expect("answer").is(200).json();
    let issuer = format!("http://{}", server.address);
    let document = get("/.well-known/openid-configuration");
    assert_eq!(
        (&document["issuer"], &document["jwks_uri"]),
        (&json!(issuer), &json!(format!("{issuer}/.well-known/jwks.json")))
    );
    let keys = get("/.well-known/jwks.json");
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
    let key = &keys["keys"][0];
    assert_eq!((&key["kty"], &key["alg"], &key["crv"]), (&json!("EC"), &json!("ES256"), &json!("P-256")));
    assert!(key.get("d").is_none(), "only the public half: {key}");
    let server = server.restart();
    let again = send(server.address, "GET", "/.well-known/jwks.json", &[], None).expect("answer").is(200).json();
    assert_eq!(again, keys, "the key survives a restart");
}

#[test]
fn identity_tokens_are_registered_at_creation() {
    let server = TestServer::start();
    let tokens = |n: usize| -> serde_json::Map<String, Value> {
        (0..n).map(|n| (format!("t{n}"), json!({"audience": "aud", "tokenType": "JWT-SVID"}))).collect()
    };
    let id = server.create_with(json!({"iam": {"tokens": tokens(5)}}));
    let detail = server.get(&format!("/sandboxes/{id}")).is(200);
    assert!(!detail.text.contains("iam") && !detail.text.contains("JWT-SVID"), "{}", detail.text);
    let post = |iam: Value| server.post("/v2/sandboxes", json!({"templateID": "base", "iam": iam}));
    let message = post(json!({"tokens": tokens(6)})).error(400, "invalid_request");
    assert_eq!(message, "iam.tokens: too many tokens: 6 (max 5)");
    let message = post(json!({"tokens": {"aws": {"audience": "x"}}})).error(400, "invalid_request");
    assert_eq!(message, "iam.tokens.aws.tokenType: only \"JWT-SVID\" is supported");
    assert_eq!(server.listed(), [id]);
}

#[test]
fn placeholders_need_a_secret_with_hosts() {
    let server = TestServer::start();
    create(&server, "without-hosts", "canary").is(201);
    server.post("/secrets", json!({"name": "Good.one", "value": "canary", "hosts": ["a.org"]})).is(201);
    let refused = |secrets: Value, environment: Value| {
        let body = json!({"templateID": "base", "secrets": secrets, "envVars": environment});
        server.post("/v2/sandboxes", body).error(400, "invalid_request")
    };
    assert!(refused(json!({"KEY": "missing"}), json!({})).contains("does not exist: create it first"));
    assert!(refused(json!({"KEY": "without-hosts"}), json!({})).contains("has no hosts"));
    assert!(refused(json!({"KEY": "good.ONE"}), json!({"KEY": "x"})).contains("is in envVars, too"));
    assert!(refused(json!({"a=b": "good.one"}), json!({})).contains("must not contain ="));
    assert!(refused(json!({"": "good.one"}), json!({})).contains("a name has 1 to"));
    let many: serde_json::Map<_, _> = (0..33).map(|n| (format!("V{n}"), json!("good.one"))).collect();
    assert!(refused(json!(many), json!({})).contains("at most 32"));
    for wrong in [json!("text"), json!(["good.one"]), json!({"KEY": 1}), json!({"KEY": null})] {
        refused(wrong, json!({}));
    }
    let made = |secrets: Value| server.post("/v2/sandboxes", json!({"templateID": "base", "secrets": secrets})).is(201);
    for nothing in [json!(null), json!({})] {
        made(nothing);
    }
    let id = made(json!({"KEY": "GOOD.one"})).member("sandboxID");
    let shown = server.get(&format!("/sandboxes/{id}")).is(200);
    assert!(!shown.text.contains("novita_secret_") && !shown.text.contains("canary"), "{}", shown.text);
    let network = server.get(&format!("/sandboxes/{id}/network")).is(200).json();
    assert_eq!(network["preset"], json!("internet"), "placeholders are not part of it");
    server.call("PUT", &format!("/sandboxes/{id}/network"), Some(json!({"preset": "none"}))).is(204);
    assert_eq!(server.get(&format!("/sandboxes/{id}/network")).is(200).json()["preset"], json!("none"));
}

#[test]
fn placeholders_are_for_secrets_of_the_own_team() {
    let server = with_another_team();
    server.post("/secrets", json!({"name": "mine", "value": "canary", "hosts": ["a.org"]})).is(201);
    let body = r#"{"templateID": "base", "secrets": {"KEY": "mine"}}"#;
    let refused = as_other(&server, "POST", "/v2/sandboxes", Some(body)).error(400, "invalid_request");
    assert!(refused.contains("does not exist"), "{refused}");
}
