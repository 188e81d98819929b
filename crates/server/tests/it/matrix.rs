//! The authorisation matrix: what another team gets from every route of the description. For what belongs to the first
//! team it is the same answer as for what does not exist, and no answer names anything of the first team. No key and a
//! wrong key are tried in `openapi.rs`.

use crate::http::Answer;
use crate::openapi::routes;
use crate::tenants::{BODY, Owned, as_other, parameters, with_another_team};

/// Bodies for routes that name resources in their body, or make new ones. `TEMPLATE` stands for a template of the first
/// team.
const CASES: &[(&str, &str, &str)] = &[
    ("POST", "/admin/audit/prune", r#"{"before": "2020-01-01T00:00:00Z"}"#),
    ("PUT", "/admin/prices", r#"{"prices": {"vcpu": 1}}"#),
    ("POST", "/admin/signing-keys", "{}"),
    ("POST", "/agents", r#"{"name": "theirs"}"#),
    ("POST", "/api-keys", r#"{"name": "theirs"}"#),
    ("POST", "/attachments", "{}"),
    ("POST", "/auth/codes", "{}"),
    ("DELETE", "/auth/session", "{}"),
    ("PUT", "/auth/session", r#"{"teamId": "default"}"#),
    ("POST", "/auth/confirm", r#"{"password": "x"}"#),
    ("PUT", "/auth/password", r#"{"password": "correct horse"}"#),
    ("PATCH", "/auth/user", r#"{"name": "theirs"}"#),
    ("POST", "/admin/teams", r#"{"name": "theirs", "owner": "a@b.c"}"#),
    ("POST", "/teams", r#"{"name": "theirs"}"#),
    ("POST", "/projects", r#"{"name": "theirs"}"#),
    ("POST", "/chats", r#"{"title": "theirs"}"#),
    ("POST", "/events/webhooks", BODY),
    ("POST", "/mcp", LIST_BY_TOOL),
    ("POST", "/model-providers", r#"{"name": "theirs", "kind": "anthropic"}"#),
    ("POST", "/sandboxes", r#"{"templateID": "TEMPLATE"}"#),
    ("POST", "/v2/sandboxes", r#"{"templateID": "TEMPLATE"}"#),
    ("POST", "/secrets", BODY),
    ("POST", "/templates", r#"{"dockerfile": "FROM TEMPLATE", "alias": "theirs"}"#),
    ("POST", "/v2/templates", r#"{"alias": "theirs", "cpuCount": 1, "memoryMB": 512}"#),
    ("POST", "/v3/templates", r#"{"name": "theirs"}"#),
    ("POST", "/templates/tags", r#"{"target": "TEMPLATE", "tags": ["theirs"]}"#),
    ("DELETE", "/templates/tags", r#"{"name": "TEMPLATE", "tags": ["default"]}"#),
    ("POST", "/v1/chat/completions", r#"{"model": "agent/Our agent", "messages": [{"role": "user", "content": "x"}]}"#),
    ("POST", "/volumes", BODY),
];

const LIST_BY_TOOL: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sandbox_list"}}"#;

/// Another value of the same form, which nothing has.
fn altered(value: &str) -> String {
    let (kept, last) = value.split_at(value.len() - 4);
    let next = |c: char| match c {
        '9' => '0',
        'f' => 'a',
        'z' => 'g',
        '0'..='8' | 'a'..='y' => char::from(c as u8 + 1),
        c => c,
    };
    kept.chars().chain(last.chars().map(next)).collect()
}

/// Status and body, with the name of what was asked for replaced.
fn form(answer: &Answer, value: &str) -> (u16, String) {
    let plain = value.replace("%2F", "/").replace("%3A", ":");
    (answer.status, answer.text.replace(value, "NAME").replace(&plain, "NAME"))
}

#[test]
fn what_another_team_has_looks_like_what_does_not_exist() {
    let server = with_another_team();
    let owned = Owned::new(&server);
    for (method, route, _) in routes() {
        let parameters = parameters(&route);
        let Some((first, rest)) = parameters.split_first() else { continue };
        // Their own names: as with E2B, one that is taken is forbidden.
        if ["alias", "teamID"].contains(first) {
            continue;
        }
        for value in owned.values(first).0.into_iter().filter(|value| value.len() >= 4) {
            let ask = |value: &str| {
                let mut path = route.replace(&format!("{{{first}}}"), value);
                for parameter in rest {
                    path = path.replace(&format!("{{{parameter}}}"), &owned.values(parameter).0[0]);
                }
                form(&as_other(&server, &method, &path, Some(BODY)), value)
            };
            assert_eq!(ask(&value), ask(&altered(&value)), "{method} {route} with {value}");
        }
    }
}

#[test]
fn no_answer_names_what_another_team_has() {
    let server = with_another_team();
    let owned = Owned::new(&server);
    let own = owned.ids(&server);
    let leaks = |answer: &Answer| own.iter().find(|name| answer.text.contains(name.as_str())).cloned();
    for (method, route, private) in routes().into_iter().filter(|(_, route, _)| !route.contains('{')) {
        if !private {
            continue;
        }
        let body = CASES.iter().find(|(m, r, _)| *m == method && *r == route).map(|(_, _, body)| *body);
        assert!(
            body.is_some() || method == "GET",
            "{method} {route} is a new route: add it to CASES with a body that it takes; where the body names a resource, \
             let it name one of the first team"
        );
        let ask = |template: &str| {
            let body = body.map(|body| body.replace("TEMPLATE", template));
            as_other(&server, &method, &route, body.as_deref())
        };
        let answer = ask("default/mine");
        assert!(answer.status < 500, "{method} {route}: {}", answer.text);
        assert_eq!(leaks(&answer), None, "{method} {route}: {}", answer.text);
        if body.is_some_and(|body| body.contains("TEMPLATE")) {
            assert_eq!(form(&answer, "default/mine"), form(&ask("default/none"), "default/none"), "{method} {route}");
        }
    }
    for query in ["/sandboxes/metrics?sandbox_ids=ID", "/snapshots?sandboxID=ID", "/sandboxes/events?sandboxID=ID"] {
        let answer = |id: &str| form(&as_other(&server, "GET", &query.replace("ID", id), None), id);
        assert_eq!(answer(&owned.running), answer(&altered(&owned.running)), "{query}");
    }
    // The control: their own team sees them.
    let listed = ["/v2/sandboxes", "/events/webhooks", "/templates", "/snapshots", "/secrets", "/teams"];
    let seen: Vec<_> = [&listed[..], &["/agents", "/model-providers", "/chats"]]
        .concat()
        .iter()
        .filter_map(|route| leaks(&server.get(route)))
        .collect();
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[test]
fn the_checks_of_the_machine_are_for_the_operator() {
    let server = with_another_team();
    let report = server.get("/status/doctor").is(200).json();
    assert!(report["level"].as_str().is_some_and(|level| level.contains(':')), "{report}");
    let checks = report["checks"].as_array().expect("checks");
    for group in ["machine", "protection", "hardening", "server"] {
        assert!(checks.iter().any(|check| check["group"] == group), "{group}: {report}");
    }
    for check in checks {
        let state = check["state"].as_str().expect("state");
        assert!(["ok", "warning", "failed"].contains(&state) && !check["message"].is_null(), "{check}");
        assert_eq!(state == "ok", check["hint"].is_null(), "{check}");
    }
    as_other(&server, "GET", "/status/doctor", None).error(403, "forbidden");
}

#[test]
fn the_check_of_the_server_tells_a_team_about_its_own_only() {
    let server = with_another_team();
    let build = cabana_types::BuildId::from_random([1; 16]);
    server.world.lose_build(&build);
    let own = server.get("/status/check").is(200);
    assert!(own.text.contains(build.as_str()), "{}", own.text);
    let other = as_other(&server, "GET", "/status/check", None).is(200);
    assert!(!other.text.contains(build.as_str()) && other.text.contains("1 more"), "{}", other.text);
}
