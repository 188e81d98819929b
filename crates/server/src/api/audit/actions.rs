//! The names of actions: the ids of operations in the API's description, so that they are as stable as the API.

use std::collections::HashMap;
use std::sync::LazyLock;

use http::Method;

/// Ids by method and route.
static ACTIONS: LazyLock<HashMap<(&'static str, String), String>> = LazyLock::new(|| {
    let mut actions = HashMap::new();
    for (path, item) in crate::api::described().paths.paths {
        let operations =
            [("GET", item.get), ("PUT", item.put), ("POST", item.post), ("DELETE", item.delete), ("PATCH", item.patch)];
        for (method, operation) in operations {
            if let Some(id) = operation.and_then(|operation| operation.operation_id) {
                actions.insert((method, path.clone()), without_version(&id).to_owned());
            }
        }
    }
    actions
});

/// The action of a request to a route.
pub(super) fn action(method: &Method, route: &str) -> Option<&'static str> {
    let method = ["GET", "PUT", "POST", "DELETE", "PATCH"].into_iter().find(|name| *name == method.as_str())?;
    ACTIONS.get(&(method, route.to_owned())).map(String::as_str)
}

/// Operations that exist in several versions of E2B's API are one action.
fn without_version(id: &str) -> &str {
    match id.rsplit_once("_v") {
        Some((name, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => id,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::auth::table::is_recorded;

    #[test]
    fn every_recorded_route_has_an_action() {
        let document: serde_json::Value = serde_json::from_str(crate::api::document()).expect("JSON");
        let mut ids = BTreeMap::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (name, operation) in item.as_object().expect("item") {
                let method: Method = name.to_uppercase().parse().expect("method");
                let id = operation["operationId"].as_str().unwrap_or_default();
                assert!(!id.is_empty(), "{method} {path} has no operation id");
                let other = ids.insert(id.to_owned(), path.clone());
                assert_eq!(other, None, "{method} {path}: another route has the operation id {id}");
                if is_recorded(&method, path) {
                    let action = action(&method, path).unwrap_or_default();
                    assert!(action.contains('_'), "{method} {path}: {action:?} does not say what is done to what");
                }
            }
        }
        assert!(ids.len() > 150);
    }

    #[test]
    fn versions_are_one_action() {
        assert_eq!(action(&Method::POST, "/sandboxes"), Some("create_sandbox"));
        assert_eq!(action(&Method::POST, "/v2/sandboxes"), Some("create_sandbox"));
        assert_eq!(action(&Method::POST, "/nothing"), None);
        assert_eq!(
            (without_version("a_v12"), without_version("get_voice"), without_version("x")),
            ("a", "get_voice", "x")
        );
    }
}
