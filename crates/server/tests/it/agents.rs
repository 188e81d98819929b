//! Agents and models.

use serde_json::{Value, json};

use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

#[test]
fn agents_are_made_changed_and_deleted() {
    let server = TestServer::start();
    let made = server.post("/agents", json!({"name": "Data analyst"})).is(201).json();
    let id = made["id"].as_str().expect("id").to_owned();
    assert!(id.starts_with("agent_"), "{id}");
    assert_eq!(made["tools"], json!([{"type": "sandbox"}, {"type": "services"}, {"type": "ask"}]));
    assert_eq!(made["limits"], json!({"maxSteps": 50, "maxMinutes": 60, "maxCostMicros": null}));
    assert_eq!((&made["kind"], &made["model"], &made["system"]), (&json!("loop"), &json!(null), &json!("")));
    let path = format!("/agents/{id}");
    assert_eq!(server.get(&path).is(200).json(), made);
    let change = json!({"model": "demo/demo", "system": "Be brief.", "tools": [], "suggestions": ["Hello"], "limits": {"maxSteps": 3}});
    let changed = server.call("PATCH", &path, Some(change)).is(200).json();
    assert_eq!((&changed["name"], &changed["model"]), (&json!("Data analyst"), &json!("demo/demo")));
    assert_eq!(
        (&changed["tools"], &changed["limits"]["maxSteps"], &changed["limits"]["maxMinutes"]),
        (&json!([]), &json!(3), &json!(60))
    );
    assert_eq!(server.get(&path).is(200).json(), changed);
    let changed = server.call("PATCH", &path, Some(json!({"model": ""}))).is(200).json();
    assert_eq!(changed["model"], json!(null));
    let other = server.post("/agents", json!({"name": "Another"})).is(201).member("id");
    let names = |server: &TestServer| -> Vec<String> {
        let page = server.get("/agents").is(200).json();
        page["agents"]
            .as_array()
            .expect("agents")
            .iter()
            .map(|a| a["name"].as_str().expect("name").to_owned())
            .collect()
    };
    assert_eq!(names(&server), ["Another", "Data analyst"]);
    server.post("/agents", json!({"name": "Another"})).error(409, "agent_conflict");
    server.call("PATCH", &path, Some(json!({"name": "Another"}))).error(409, "agent_conflict");
    server.call("DELETE", &format!("/agents/{other}"), None).is(204);
    server.call("DELETE", &format!("/agents/{other}"), None).error(404, "agent_not_found");
    assert_eq!(names(&server.restart()), ["Data analyst"]);
}

#[test]
fn mistakes_in_agents_are_named() {
    let server = TestServer::start();
    let with = |name: &str, value: Value| json!({"name": "a", name: value});
    for (body, code, said) in [
        (json!({}), "invalid_request", "name must have"),
        (with("name", json!("x".repeat(65))), "invalid_request", "name must have"),
        (with("name", json!(" a")), "invalid_request", "name must have"),
        (with("name", json!("a/b")), "invalid_request", "name must have"),
        (with("surprise", json!(1)), "invalid_request", "unknown field"),
        (with("kind", json!("acp")), "not_supported", "loop only"),
        (with("description", json!("x".repeat(2001))), "invalid_request", "description has more"),
        (with("system", json!("x".repeat(65_537))), "invalid_request", "system has more"),
        (with("limits", json!({"maxSteps": 0})), "invalid_request", "maxSteps"),
        (with("limits", json!({"maxSteps": 501})), "invalid_request", "maxSteps"),
        (with("limits", json!({"maxMinutes": 1441})), "invalid_request", "maxMinutes"),
        (with("limits", json!({"maxCostMicros": 0})), "invalid_request", "maxCostMicros"),
        (with("suggestions", json!(vec!["x"; 13])), "invalid_request", "more than 12"),
        (with("suggestions", json!(["x".repeat(301)])), "invalid_request", "A suggestion has"),
        (with("suggestions", json!([" "])), "invalid_request", "A suggestion has"),
        (with("tools", json!([{"type": "ask"}, {"type": "ask"}])), "invalid_request", "twice"),
        (with("tools", json!([{"type": "browser"}])), "invalid_request", "unknown variant"),
        (with("model", json!("nobody/x")), "model_not_found", "There is no model provider \"nobody\"; there are demo"),
        (with("model", json!("gpt")), "model_not_found", "write PROVIDER/MODEL"),
    ] {
        let message = server.post("/agents", body).error(400, code);
        assert!(message.contains(said), "{said}: {message}");
    }
    assert_eq!(server.get("/agents").is(200).json(), json!({"agents": []}));
}

#[test]
fn providers_of_a_team_are_its_own_and_their_keys_are_sealed() {
    let mut server = with_another_team();
    let new = json!({"name": "router", "kind": "openai", "baseUrl": "https://models.example.com/v1", "key": "canary-key", "models": ["a", "b/c"]});
    let made = server.post("/model-providers", new).is(201);
    assert!(!made.text.contains("canary"), "{}", made.text);
    let made = made.json();
    assert_eq!((&made["scope"], &made["hasKey"], &made["name"]), (&json!("team"), &json!(true), &json!("router")));
    assert_eq!(server.get("/model-providers").is(200).json(), json!({"providers": [made]}));
    let ids = |text: &Value| -> Vec<String> {
        text["models"].as_array().expect("models").iter().map(|m| m["id"].as_str().expect("id").to_owned()).collect()
    };
    let page = server.get("/models").is(200).json();
    assert_eq!(ids(&page), ["demo/demo", "router/a", "router/b/c"]);
    assert_eq!((&page["models"][0]["demo"], &page["models"][0]["default"]), (&json!(true), &json!(true)));
    assert!(page["suggestions"].as_array().is_some_and(|list| !list.is_empty()));
    server.post("/agents", json!({"name": "a", "model": "router/b/c"})).is(201);
    server.post("/agents", json!({"name": "b", "model": "router/z"})).error(400, "model_not_found");

    assert_eq!(as_other(&server, "GET", "/model-providers", None).is(200).json(), json!({"providers": []}));
    assert_eq!(ids(&as_other(&server, "GET", "/models", None).is(200).json()), ["demo/demo"]);
    as_other(&server, "DELETE", "/model-providers/router", None).error(404, "provider_not_found");

    server.stop();
    for entry in std::fs::read_dir(server.data_dir()).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_file() {
            let bytes = std::fs::read(&path).expect("file");
            assert!(!bytes.windows(10).any(|window| window == b"canary-key"), "{}", path.display());
        }
    }
    let server = server.restart();
    let replaced = server.post("/model-providers", json!({"name": "router", "kind": "anthropic"})).is(201).json();
    assert_eq!(
        (&replaced["hasKey"], &replaced["baseUrl"], &replaced["models"]),
        (&json!(false), &json!(null), &json!([]))
    );
    server.call("DELETE", "/model-providers/router", None).is(204);
    server.call("DELETE", "/model-providers/router", None).error(404, "provider_not_found");
}

#[test]
fn mistakes_in_providers_are_named_and_repeat_no_key() {
    let server = TestServer::start();
    let with = |name: &str, value: Value| {
        let mut body = json!({"name": "mine", "kind": "openai", "key": "canary"});
        body[name] = value;
        body
    };
    for (body, said) in [
        (json!({}), "name and kind"),
        (with("key", json!(["canary"])), "name and kind"),
        (with("more", json!("canary")), "name and kind"),
        (with("name", json!("demo")), "built in"),
        (with("name", json!("Mine")), "1 to 32"),
        (with("name", json!("")), "1 to 32"),
        (with("kind", json!("ollama")), "openai or anthropic"),
        (with("baseUrl", json!("http://models.example.com")), "https://"),
        (with("baseUrl", json!("ftp://models.example.com")), "must begin with"),
        (with("baseUrl", json!("https://user:canary@models.example.com")), "must not have a user"),
        (with("baseUrl", json!("models.example.com")), "is not a URL"),
        (with("key", json!("canary canary")), "printable"),
        (with("key", json!("canary".repeat(1000))), "4096"),
        (with("models", json!(["a b"])), "is not the name of a model"),
    ] {
        let message = server.post("/model-providers", body).error(400, "invalid_request");
        assert!(message.contains(said), "{said}: {message}");
        assert!(!message.contains("canary"), "{message}");
    }
    assert_eq!(server.get("/model-providers").is(200).json(), json!({"providers": []}));
}
