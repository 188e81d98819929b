//! Arguments of a tool as `key=value` pairs, with the types of the tool's schema.

use serde_json::{Map, Value};

use crate::failure::Failure;

/// Adds pairs to an object. A repeated key of a list adds to it.
pub(super) fn merge(given: Value, pairs: &[String], schema: &Value) -> Result<Value, Failure> {
    let Value::Object(mut arguments) = given else {
        return Err(Failure::user_error("the arguments are not a JSON object"));
    };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for pair in pairs {
        let Some((key, text)) = pair.split_once('=') else {
            return Err(Failure::user_error(format!("`{pair}` is not of the form key=value"))
                .hint(format!("the tool takes {}", keys(properties))));
        };
        let Some(property) = properties.get(key) else {
            return Err(Failure::user_error(format!("the tool has no argument `{key}`"))
                .hint(format!("it takes {}", keys(properties))));
        };
        let value = value(key, text, property)?;
        match (arguments.get_mut(key), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                arguments.insert(key.to_owned(), value);
            }
        }
    }
    Ok(Value::Object(arguments))
}

fn keys(properties: &Map<String, Value>) -> String {
    properties.keys().map(String::as_str).filter(|key| *key != "sandbox").collect::<Vec<_>>().join(", ")
}

fn value(key: &str, text: &str, property: &Value) -> Result<Value, Failure> {
    let wrong = |what: &str| Failure::user_error(format!("`{key}` must be {what}, not `{text}`"));
    match property.get("type").and_then(Value::as_str) {
        Some("integer") => text.parse::<i64>().map(Value::from).map_err(|_| wrong("a whole number")),
        Some("boolean") => text.parse::<bool>().map(Value::from).map_err(|_| wrong("true or false")),
        Some("number") => text.parse::<f64>().map(Value::from).map_err(|_| wrong("a number")),
        Some("array") if text.starts_with('[') => serde_json::from_str(text).map_err(|_| wrong("a JSON list")),
        Some("array") => Ok(Value::Array(vec![text.into()])),
        Some("object") => serde_json::from_str(text)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| wrong("a JSON object, such as {\"NAME\":\"value\"}")),
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(given: Value, pairs: &[&str]) -> Result<Value, String> {
        let schema = json!({"properties": {
            "path": {"type": "string"}, "limit": {"type": "integer"}, "hidden": {"type": "boolean"},
            "include": {"type": "array"}, "env": {"type": "object"}, "case": {"enum": ["smart"]},
        }});
        let pairs: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        merge(given, &pairs, &schema).map_err(|failure| failure.chain().collect())
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        assert_eq!(
            merged(
                json!({"path": "x", "limit": 1}),
                &["path=a=b", "limit=20", "hidden=true", "case=smart", "env={\"A\":\"b\"}"]
            ),
            Ok(json!({"path": "a=b", "limit": 20, "hidden": true, "case": "smart", "env": {"A": "b"}}))
        );
        assert_eq!(
            merged(json!({}), &["include=*.rs", "include=[\"a\",\"b\"]"]),
            Ok(json!({"include": ["*.rs", "a", "b"]}))
        );
        for wrong in ["limit=x", "hidden=1", "env=A", "other=1", "path"] {
            assert!(merged(json!({}), &[wrong]).is_err(), "{wrong}");
        }
        assert!(merged(json!([]), &["path=a"]).is_err());
    }
}
