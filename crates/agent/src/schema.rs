//! Checks arguments against a JSON schema, as far as the schemas of tools use it, and fills in defaults. Models read the messages: each
//! names the argument and what it takes.

use serde_json::{Map, Value};

/// Problems that one message lists.
const MAX_PROBLEMS: usize = 5;
/// Characters of a name that a message repeats.
const MAX_NAME: usize = 64;

/// The arguments with defaults, or what is wrong with them.
pub(crate) fn check(schema: &Value, arguments: &Value) -> Result<Value, String> {
    let empty = Value::Object(Map::new());
    let arguments = if arguments.is_null() { &empty } else { arguments };
    let mut problems = Vec::new();
    let checked = object(schema, arguments, "", &mut problems);
    if problems.is_empty() {
        return Ok(checked);
    }
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    problems.truncate(MAX_PROBLEMS);
    let mut text = problems.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    Err(text)
}

fn object(schema: &Value, given: &Value, at: &str, problems: &mut Vec<String>) -> Value {
    let Some(fields) = given.as_object() else {
        problems.push(format!("{} must be an object", named(at)));
        return Value::Null;
    };
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let additional = schema.get("additionalProperties");
    let mut checked = Map::new();
    for (name, given) in fields {
        let place = join(at, name);
        match (properties.get(name), additional) {
            // Some models send null for what they leave out.
            (Some(_), _) if given.is_null() && !is_required(schema, name) => {}
            (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => {
                checked.insert(name.clone(), value(schema, given, &place, problems));
            }
            (None, Some(Value::Bool(false))) => problems.push(unknown(name, properties)),
            (None, _) => {
                checked.insert(name.clone(), given.clone());
            }
        }
    }
    for name in required(schema) {
        if !fields.contains_key(name) {
            problems.push(format!("{} is required", named(&join(at, name))));
        }
    }
    for (name, schema) in properties {
        if let (false, Some(default)) = (checked.contains_key(name), schema.get("default")) {
            checked.insert(name.clone(), default.clone());
        }
    }
    Value::Object(checked)
}

fn value(schema: &Value, given: &Value, at: &str, problems: &mut Vec<String>) -> Value {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        if !choices.contains(given) {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            problems.push(format!("{} must be one of {}", named(at), choices.join(", ")));
        }
        return given.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => text(schema, given, at, problems),
        Some("integer") => return integer(schema, given, at, problems),
        Some("boolean") if !given.is_boolean() => problems.push(format!("{} must be true or false", named(at))),
        Some("array") => return array(schema, given, at, problems),
        Some("object") => return object(schema, given, at, problems),
        _ => {}
    }
    given.clone()
}

fn text(schema: &Value, given: &Value, at: &str, problems: &mut Vec<String>) {
    let Some(text) = given.as_str() else {
        problems.push(format!("{} must be a string", named(at)));
        return;
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let least = bound("minLength").unwrap_or(0);
    let most = bound("maxLength").unwrap_or(u64::MAX);
    // Most texts are far from the bounds: their bytes tell.
    let length = match text.len() as u64 {
        bytes if bytes > most || bytes < least.saturating_mul(4) => text.chars().count() as u64,
        bytes => bytes,
    };
    if length < least {
        problems.push(format!("{} must not be empty", named(at)));
    }
    if length > most {
        problems.push(format!("{} has {length} characters; at most {most} are possible", named(at)));
    }
}

fn integer(schema: &Value, given: &Value, at: &str, problems: &mut Vec<String>) -> Value {
    // 5.0 is an integer in JSON schema, and some models write it so.
    let number = given.as_i64().or_else(|| {
        let float = given.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15)?;
        format!("{float:.0}").parse().ok()
    });
    let Some(number) = number else {
        problems.push(format!("{} must be a whole number", named(at)));
        return Value::Null;
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) if !(least..=most).contains(&number) => {
            problems.push(format!("{} must be from {least} to {most}, not {number}", named(at)));
        }
        (Some(least), None) if number < least => {
            problems.push(format!("{} must be at least {least}, not {number}", named(at)));
        }
        _ => {}
    }
    number.into()
}

fn array(schema: &Value, given: &Value, at: &str, problems: &mut Vec<String>) -> Value {
    let Some(items) = given.as_array() else {
        problems.push(format!("{} must be a list", named(at)));
        return Value::Null;
    };
    if let Some(most) = schema.get("maxItems").and_then(Value::as_u64)
        && items.len() as u64 > most
    {
        problems.push(format!("{} has {} items; at most {most} are possible", named(at), items.len()));
        return Value::Null;
    }
    let Some(schema) = schema.get("items") else { return given.clone() };
    items.iter().enumerate().map(|(index, item)| value(schema, item, &format!("{at}[{index}]"), problems)).collect()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn is_required(schema: &Value, name: &str) -> bool {
    required(schema).any(|required| required == name)
}

fn unknown(name: &str, properties: &Map<String, Value>) -> String {
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let name: String = name.chars().take(MAX_NAME).collect();
    format!("there is no argument {name:?}; there are: {}", known.join(", "))
}

fn join(at: &str, name: &str) -> String {
    let name: String = name.chars().take(MAX_NAME).collect();
    if at.is_empty() { name } else { format!("{at}.{name}") }
}

fn named(at: &str) -> &str {
    if at.is_empty() { "the arguments" } else { at }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "minLength": 1, "maxLength": 8},
                "depth": {"type": "integer", "minimum": 1, "maximum": 5, "default": 1},
                "start": {"type": "integer", "minimum": 1},
                "hidden": {"type": "boolean", "default": false},
                "case": {"enum": ["smart", "sensitive"], "default": "smart"},
                "include": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["path"],
        })
    }

    #[test]
    fn defaults_are_filled_in() {
        let checked =
            check(&schema(), &json!({"path": "ä/b", "depth": 2.0, "start": null, "env": {"A": "b"}})).unwrap();
        let expected = json!({"path": "ä/b", "depth": 2, "hidden": false, "case": "smart", "env": {"A": "b"}});
        assert_eq!(checked, expected);
    }

    #[test]
    fn every_problem_is_named() {
        for (given, problem) in [
            (json!(null), "path is required"),
            (json!([]), "the arguments must be an object"),
            (json!({"path": ""}), "path must not be empty"),
            (json!({"path": null}), "path must be a string"),
            (json!({"path": "123456789"}), "path has 9 characters; at most 8 are possible"),
            (json!({"path": 1}), "path must be a string"),
            (json!({"path": "x", "depth": 9}), "depth must be from 1 to 5, not 9"),
            (json!({"path": "x", "depth": "1"}), "depth must be a whole number"),
            (json!({"path": "x", "depth": 1.5}), "depth must be a whole number"),
            (json!({"path": "x", "start": 0}), "start must be at least 1, not 0"),
            (json!({"path": "x", "hidden": "yes"}), "hidden must be true or false"),
            (json!({"path": "x", "case": "other"}), r#"case must be one of "smart", "sensitive""#),
            (json!({"path": "x", "include": "a"}), "include must be a list"),
            (json!({"path": "x", "include": ["a", "b", "c"]}), "include has 3 items; at most 2 are possible"),
            (json!({"path": "x", "include": ["a", 2]}), "include[1] must be a string"),
            (json!({"path": "x", "env": {"A": 1}}), "env.A must be a string"),
        ] {
            assert_eq!(check(&schema(), &given).unwrap_err(), problem, "{given}");
        }
        let unknown = check(&schema(), &json!({"path": "x", "pfad": "y"})).unwrap_err();
        assert!(unknown.starts_with(r#"there is no argument "pfad"; there are: "#), "{unknown}");
        let many = check(&schema(), &json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1})).unwrap_err();
        assert!(many.ends_with("; and 2 more"), "{many}");
        // Four bytes a character.
        assert!(check(&schema(), &json!({"path": "🦀🦀🦀🦀🦀🦀🦀🦀"})).is_ok());
    }
}
