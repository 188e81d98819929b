//! What an entry says of a request beside who and when: ids from the path, ids and names from the answer. Nothing else gets into the
//! log: no body, no header but `User-Agent`, no query.

use std::collections::BTreeMap;

use axum::body::{Body, HttpBody as _};
use axum::extract::RawPathParams;
use axum::response::Response;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, USER_AGENT};
use serde_json::Value;

/// Characters of a text.
const MAX_TEXT: usize = 128;
/// Bytes of an answer that is looked at.
const MAX_ANSWER: u64 = 64 << 10;
/// Ids of one list.
const MAX_IDS: usize = 10;
/// Parameters of paths that are names or ids. Others may be secrets.
const PARAMETERS: [&str; 6] = ["name", "providerName", "tag", "alias", "hash", "pid"];
/// What is taken from an answer: the ids of what was made, its name, and the code of an error.
const ANSWERED: [(&str, &str); 13] = [
    ("sandboxID", "sandboxID"),
    ("sandboxId", "sandboxID"),
    ("templateID", "templateID"),
    ("buildID", "buildID"),
    ("snapshotID", "snapshotID"),
    ("chatId", "chatId"),
    ("turnId", "turnId"),
    ("callId", "callId"),
    ("userId", "userId"),
    ("id", "id"),
    ("name", "name"),
    ("role", "role"),
    ("error_code", "error"),
];
/// Objects in an answer whose ids count as well.
const NESTED: [&str; 2] = ["chat", "turn"];

/// A client's text, short and on one line.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MAX_TEXT).collect()
}

/// The target and the details that a path names: the first parameter is the target.
pub(super) fn of_path(parameters: &RawPathParams) -> (Option<String>, BTreeMap<String, String>) {
    let is_id = |name: &str| name.ends_with("ID") || name.ends_with("Id") || PARAMETERS.contains(&name);
    let mut known = parameters.iter().filter(|(name, _)| is_id(name)).map(|(name, value)| (name, plain(value)));
    let target = known.next().map(|(_, value)| value);
    (target, known.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The client's program.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<(String, String)> {
    let agent = String::from_utf8_lossy(headers.get(USER_AGENT)?.as_bytes()).into_owned();
    Some(("userAgent".into(), plain(&agent)))
}

/// The details that an answer names, and the answer again. Streams and large answers are not looked at.
pub(super) async fn of_answer(response: Response) -> (Response, BTreeMap<String, String>) {
    let (parts, body) = response.into_parts();
    let is_json = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json || body.size_hint().exact().is_none_or(|length| length > MAX_ANSWER) {
        return (Response::from_parts(parts, body), BTreeMap::new());
    }
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => {
            let details = serde_json::from_slice(&bytes).map(|value| in_answer(&value)).unwrap_or_default();
            (Response::from_parts(parts, Body::from(bytes)), details)
        }
        // Its length was known, so it was in memory: it cannot fail.
        Err(_) => (Response::from_parts(parts, Body::empty()), BTreeMap::new()),
    }
}

fn in_answer(answer: &Value) -> BTreeMap<String, String> {
    let mut details = BTreeMap::new();
    let items: &[Value] = answer.as_array().map_or_else(|| std::slice::from_ref(answer), Vec::as_slice);
    for (field, name) in ANSWERED {
        let found: Vec<_> = items.iter().filter_map(|item| item[field].as_str()).take(MAX_IDS).map(plain).collect();
        if !found.is_empty() {
            details.insert(name.to_owned(), found.join(" "));
        }
    }
    for name in NESTED {
        if let Some(id) = answer[name]["id"].as_str() {
            details.insert(format!("{name}Id"), plain(id));
        }
    }
    details
}

/// The id of what was made, of all that an answer has named.
pub(super) fn made(details: &BTreeMap<String, String>) -> Option<&String> {
    let names = ANSWERED
        .iter()
        .map(|(_, name)| *name)
        .filter(|name| name.ends_with("ID") || name.ends_with("Id") || *name == "id");
    let first = if details.contains_key("id") { Some("id") } else { None };
    first.into_iter().chain(names).find_map(|name| details.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_give_ids_and_names_and_nothing_else() {
        let key = json!({"id": "k1", "key": "e2b_secret", "name": "deploy\nkey", "mask": {"prefix": "e2b_"}});
        let details = in_answer(&key);
        assert_eq!(details, [("id", "k1"), ("name", "deploy\u{fffd}key")].map(|(a, b)| (a.into(), b.into())).into());
        let sandbox = json!({"sandboxID": "iabc", "templateID": "t", "envdAccessToken": "secret", "clientID": "x"});
        let details = in_answer(&sandbox);
        assert_eq!(made(&details).map(String::as_str), Some("iabc"));
        assert!(!format!("{details:?}").contains("secret"));
        let forks = json!([{"sandboxID": "i1"}, {"sandboxID": "i2"}]);
        assert_eq!(in_answer(&forks)["sandboxID"], "i1 i2");
        let error = json!({"code": 404, "message": "what the client sent", "error_code": "sandbox_not_found"});
        assert_eq!(in_answer(&error), [("error".to_owned(), "sandbox_not_found".to_owned())].into());
        assert_eq!(in_answer(&json!({"chat": {"id": "chat_1"}, "turn": {"id": "turn_1"}}))["turnId"], "turn_1");
        for odd in [json!(null), json!("text"), json!([1, "x", []]), json!({"id": 7})] {
            assert!(in_answer(&odd).is_empty(), "{odd}");
        }
    }

    #[test]
    fn texts_are_short_and_on_one_line() {
        assert_eq!(plain("a\r\nb\u{1b}[31m\u{85}"), "a\u{fffd}\u{fffd}b\u{fffd}[31m\u{fffd}");
        assert_eq!(plain(&"ä".repeat(1000)).chars().count(), MAX_TEXT);
    }
}
