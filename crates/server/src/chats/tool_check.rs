//! Checks the tools that a client chooses for a chat or an agent.

use std::collections::{BTreeMap, BTreeSet};

use cabana_agent::tools;
use cabana_types::chat::{ASK_USER, Approve, ChatTool, MAX_FUNCTIONS, MAX_SANDBOXES, fits};
use cabana_types::limits::{CPU_COUNT, MAX_TEMPLATE_REF_BYTES, MEMORY_MB};
use serde_json::Value;

use crate::error::short;

/// Characters of a sandbox's name in a chat.
const MAX_NAME: usize = 40;
/// Patterns of names of tools in one list, and characters of one.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN: usize = 64;
/// Characters of what a function is for.
const MAX_DESCRIPTION: usize = 4096;
/// Bytes of a function's schema, as JSON.
const MAX_SCHEMA: usize = 32 << 10;

/// Checks tools. An error says what to change.
pub(crate) fn check_tools(chosen: &[ChatTool]) -> Result<(), String> {
    let (mut kinds, mut functions) = (BTreeSet::new(), BTreeSet::new());
    for tool in chosen {
        let kind = match tool {
            ChatTool::Sandbox { template, cpu_count, memory_mb, names, allow, approve } => {
                check_template(template.as_deref())?;
                within("cpuCount", *cpu_count, (*CPU_COUNT.start(), *CPU_COUNT.end()))?;
                within("memoryMB", *memory_mb, (*MEMORY_MB.start(), *MEMORY_MB.end()))?;
                check_names(names)?;
                check_patterns(allow, approve)?;
                "sandbox"
            }
            ChatTool::Services {} => "services",
            ChatTool::Ask {} => "ask",
            ChatTool::Function { name, description, parameters } => {
                check_function(name, description, parameters)?;
                if !functions.insert(name.as_str()) {
                    return Err(format!("tools has two functions with the name {name:?}; choose another for one"));
                }
                if functions.len() > MAX_FUNCTIONS {
                    return Err(format!("tools has more than {MAX_FUNCTIONS} functions"));
                }
                continue;
            }
        };
        if !kinds.insert(kind) {
            return Err(format!("tools has {kind:?} twice; put all of it into one"));
        }
    }
    Ok(())
}

fn within(name: &str, value: Option<i64>, (least, most): (u32, u32)) -> Result<(), String> {
    match value {
        Some(value) if !(i64::from(least)..=i64::from(most)).contains(&value) => {
            Err(format!("{name} of the sandbox must be between {least} and {most}, not {value}"))
        }
        _ => Ok(()),
    }
}

/// Whether there is such a template is found out when the sandbox is made: it may be built later.
fn check_template(template: Option<&str>) -> Result<(), String> {
    let fits = |text: &str| {
        (1..=MAX_TEMPLATE_REF_BYTES).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./:".contains(&b))
    };
    match template {
        Some(text) if !fits(text) => Err(format!("{:?} is not the name of a template", short(text))),
        _ => Ok(()),
    }
}

fn check_names(names: &[String]) -> Result<(), String> {
    if names.len() > MAX_SANDBOXES {
        return Err(format!("names of the sandbox has more than {MAX_SANDBOXES}"));
    }
    let mut seen = BTreeSet::new();
    for name in names {
        let fits = (1..=MAX_NAME).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
        if !fits {
            let text = "is not the name of a sandbox: 1 to 40 of a-z, 0-9, _ and -, a letter or digit first";
            return Err(format!("{:?} {text}", short(name)));
        }
        if !seen.insert(name) {
            return Err(format!("names of the sandbox has {name:?} twice"));
        }
    }
    Ok(())
}

/// A pattern that no tool fits is a mistake, and with `approve` a dangerous one.
fn check_patterns(allow: &[String], approve: &BTreeMap<String, Approve>) -> Result<(), String> {
    for (list, patterns) in [("allow", allow.iter().collect::<Vec<_>>()), ("approve", approve.keys().collect())] {
        if patterns.len() > MAX_PATTERNS {
            return Err(format!("{list} of the sandbox has more than {MAX_PATTERNS} names"));
        }
        for pattern in patterns {
            let known = || tools::all().iter().any(|tool| fits(pattern, tool.spec().name));
            if pattern.len() > MAX_PATTERN || !known() {
                let pattern = short(pattern);
                return Err(format!("{list} of the sandbox: no tool is called {pattern:?}; GET /tools lists them"));
            }
        }
    }
    Ok(())
}

fn check_function(name: &str, description: &str, parameters: &Value) -> Result<(), String> {
    let fits = (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if !fits {
        return Err(format!("{:?} is not the name of a function: 1 to 64 letters, digits, _ and -", short(name)));
    }
    if name == ASK_USER || name.starts_with("sandbox_") {
        return Err(format!("{name:?} is a name of the server's own tools; choose another"));
    }
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("the description of function {name} has more than {MAX_DESCRIPTION} characters"));
    }
    // Left out: a function without parameters.
    let schema = match parameters {
        Value::Null => return Ok(()),
        Value::Object(schema) => schema,
        _ => return Err(format!("parameters of function {name} must be a JSON schema of an object")),
    };
    if schema.get("type").is_some_and(|kind| kind != "object") {
        return Err(format!("parameters of function {name} must be a JSON schema with \"type\": \"object\""));
    }
    if parameters.to_string().len() > MAX_SCHEMA {
        return Err(format!("parameters of function {name} have more than 32 KiB"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chats::toolset::default_tools;

    fn check(tools: Value) -> Result<(), String> {
        check_tools(&serde_json::from_value::<Vec<ChatTool>>(tools).expect("tools"))
    }

    #[test]
    fn what_fits_is_taken() {
        check_tools(&default_tools()).expect("the default");
        check(json!([])).expect("none");
        let sandbox = json!({"type": "sandbox", "template": "team/base:v1", "cpuCount": 1, "memoryMB": 512, "names": ["main", "db-2"],
            "allow": ["sandbox_*"], "approve": {"sandbox_run_command": "ask", "*": "never"}});
        let plain = json!({"type": "function", "name": "no_parameters"});
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let weather = json!({"type": "function", "name": "get-weather", "description": "d", "parameters": schema});
        check(json!([sandbox, {"type": "services"}, {"type": "ask"}, plain, weather])).expect("all");
    }

    #[test]
    fn mistakes_are_named() {
        let function =
            |name: &str, parameters: Value| json!([{"type": "function", "name": name, "parameters": parameters}]);
        let sandbox = |name: &str, value: Value| json!([{"type": "sandbox", name: value}]);
        let many: Vec<Value> = (0..65).map(|n| json!({"type": "function", "name": format!("f{n}")})).collect();
        let large = json!({"type": "object", "description": "x".repeat(33_000)});
        for (tools, said) in [
            (json!([{"type": "ask"}, {"type": "ask"}]), "\"ask\" twice"),
            (json!([{"type": "sandbox"}, {"type": "sandbox"}]), "\"sandbox\" twice"),
            (json!(many), "more than 64 functions"),
            (json!([{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]), "two functions"),
            (function("a b", json!({})), "is not the name of a function"),
            (function("", json!({})), "is not the name of a function"),
            (function("ask_user", json!({})), "server's own tools"),
            (function("sandbox_run_command", json!({})), "server's own tools"),
            (function("f", json!([])), "must be a JSON schema of an object"),
            (function("f", json!({"type": "array"})), "\"type\": \"object\""),
            (function("f", large), "more than 32 KiB"),
            (sandbox("template", json!("")), "is not the name of a template"),
            (sandbox("template", json!("a b")), "is not the name of a template"),
            (sandbox("cpuCount", json!(0)), "cpuCount of the sandbox must be between"),
            (sandbox("memoryMB", json!(-1)), "memoryMB of the sandbox must be between"),
            (sandbox("names", json!(["Main"])), "is not the name of a sandbox"),
            (sandbox("names", json!(["a", "a"])), "twice"),
            (sandbox("names", json!(["a", "b", "c", "d", "e", "f", "g", "h", "i"])), "more than 8"),
            (sandbox("allow", json!(["sandbox_rm"])), "no tool is called \"sandbox_rm\""),
            (sandbox("approve", json!({"run_command": "ask"})), "no tool is called \"run_command\""),
        ] {
            let text = check(tools).expect_err(said);
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
