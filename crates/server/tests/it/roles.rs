//! The authorization matrix of people: every route of the description, for every role, in the right team, in another team, and for what
//! is in a project that they do not reach. What is expected is written here once more, apart from the program.

use cabana_server::auth::table::{Needs, needs};
use serde_json::{Value, json};

use crate::openapi::routes;
use crate::people::Browser;
use crate::tenants::parameters;

/// What each role may do in its team.
const EXPECTED: [(&str, &[&str]); 5] = [
    (
        "owner",
        &[
            "sandboxes:read",
            "sandboxes:write",
            "tools",
            "templates:read",
            "templates:write",
            "chats",
            "services:publish",
            "usage:read",
            "keys",
            "members",
            "audit:read",
        ],
    ),
    (
        "admin",
        &[
            "sandboxes:read",
            "sandboxes:write",
            "tools",
            "templates:read",
            "templates:write",
            "chats",
            "services:publish",
            "usage:read",
            "keys",
            "members",
            "audit:read",
        ],
    ),
    (
        "developer",
        &[
            "sandboxes:read",
            "sandboxes:write",
            "tools",
            "templates:read",
            "templates:write",
            "chats",
            "services:publish",
            "usage:read",
            "keys",
        ],
    ),
    ("billing", &["usage:read"]),
    ("viewer", &["sandboxes:read", "templates:read", "usage:read"]),
];

/// Routes that end the session or the membership of whoever asks.
const LAST: [&str; 2] = ["/auth/session", "/teams/{teamID}/leave"];

/// A path whose parameters name nothing that exists, but the team.
fn filled(route: &str, team: &str) -> String {
    let route = route.replace("{teamID}", team);
    parameters(&route).into_iter().fold(route.clone(), |path, name| path.replace(&format!("{{{name}}}"), "none"))
}

fn lacks(answer: &crate::http::Answer) -> bool {
    answer.status == 403 && answer.text.contains("This needs the permission")
}

#[test]
fn every_role_may_do_what_is_written_and_nothing_else() {
    let owner = Browser::owner();
    // Somebody else's team: nothing of it is known.
    let team = owner.call("POST", "/teams", json!({"name": "others"})).is(201).member("id");
    let (mut refused, mut open) = (0, 0);
    for (role, permissions) in EXPECTED {
        let person = owner.joined(&format!("the-{role}"), role);
        let session = person.get("/auth/session").is(200).json();
        assert_eq!(session["permissions"], json!(permissions), "{role}");
        for (method, route, private) in routes() {
            if !private || LAST.contains(&route.as_str()) || method == "GET" && route == "/live" {
                continue;
            }
            let needed = needs(&method.parse().expect("method"), &route).expect("an entry");
            if needed == Needs::Public {
                // Authorised by a link of its own.
                continue;
            }
            let needed = needed.permission();
            let allowed = needed.is_none_or(|needed| permissions.contains(&needed.as_str()));
            let answer = person.call(&method, &filled(&route, "default"), json!({}));
            assert_eq!(!lacks(&answer), allowed, "{method} {route} as {role}: {}", answer.text);
            assert!(answer.status < 500 || answer.status == 501, "{method} {route} as {role}: {}", answer.text);
            *(if allowed { &mut open } else { &mut refused }) += 1;
            let elsewhere = person.in_team(&team).call(&method, &filled(&route, &team), json!({}));
            elsewhere.error(404, "team_not_found");
        }
    }
    assert!(refused > 300 && open > 300, "{refused} {open}");
}

#[test]
fn what_is_in_another_project_looks_like_what_does_not_exist() {
    let owner = Browser::owner();
    let project = owner.call("POST", "/projects", json!({"name": "hidden"})).is(201).member("id");
    let make = |path: &str, mut body: Value, id: &str| {
        body["projectId"] = json!(project);
        owner.call("POST", path, body).is(if path.contains("templates") { 202 } else { 201 }).json()[id]
            .as_str()
            .expect("id")
            .to_owned()
    };
    let sandbox = make("/v2/sandboxes", json!({"templateID": "base"}), "sandboxID");
    let template = make("/v3/templates", json!({"name": "hidden"}), "templateID");
    let chat = owner.call("POST", "/chats", json!({"title": "hidden", "projectId": project})).is(201).json();
    let chat = chat["chat"]["id"].as_str().expect("id").to_owned();
    let service =
        owner.call("POST", &format!("/sandboxes/{sandbox}/services"), json!({"command": "true", "port": 8000}));
    let service = service.is(201).member("id");
    let person = owner.joined("ada", "developer");
    let mut tried = 0;
    for (method, route, private) in routes().into_iter().filter(|(_, route, private)| *private && route.contains('{')) {
        assert!(private);
        let first = parameters(&route)[0];
        let values = match first {
            "sandboxID" => [sandbox.clone(), "i00000000000000000000".to_owned()],
            "templateID" => [template.clone(), "00000000000000000000".to_owned()],
            "chatID" => [chat.clone(), format!("{}00000000000000000000", &chat[..chat.len() - 20])],
            "serviceID" => [service.clone(), format!("{}00000000000000000000", &service[..service.len() - 20])],
            "projectID" => [project.clone(), "prj_00000000000000000000".to_owned()],
            _ => continue,
        };
        let ask = |value: &str| {
            let path = route.replace(&format!("{{{first}}}"), value);
            let answer = person.call(&method, &filled(&path, "default"), json!({"timeout": 5, "role": "viewer"}));
            (answer.status, answer.text.replace(value, "NAME"))
        };
        let [hidden, unknown] = [ask(&values[0]), ask(&values[1])];
        assert_eq!(hidden, unknown, "{method} {route}");
        tried += 1;
    }
    assert!(tried > 70, "{tried}");
    for list in [
        "/v2/sandboxes",
        "/sandboxes",
        "/templates",
        "/v2/templates",
        "/chats",
        "/snapshots",
        "/events/sandboxes",
        "/projects",
    ] {
        let text = person.get(list).is(200).text;
        for id in [&sandbox, &template, &chat, &project] {
            assert!(!text.contains(id.as_str()), "{list}: {text}");
        }
    }
    // A name that a hidden template has is taken, and its builds are safe.
    person.call("POST", "/v3/templates", json!({"name": "hidden"})).is(409);
    person.call("POST", "/v2/sandboxes", json!({"templateID": template})).error(404, "template_not_found");
}
