//! Lists tools: a line for each, or everything about some.

use cabana_client::{Client, ToolDescription};
use serde_json::Value;

use crate::commands::Context;
use crate::failure::Outcome;

pub(super) async fn print(client: &Client, names: &[String], raw: bool, context: &Context) -> Outcome {
    let tools = client.tools(names).await?;
    if raw {
        context.out.json(&tools)?;
        return Ok(0);
    }
    if names.is_empty() {
        let rows: Vec<_> = tools.iter().map(|tool| vec![tool.name.clone(), keys(tool), first_sentence(tool)]).collect();
        context.out.rows(&["NAME", "ARGUMENTS", "DESCRIPTION"], &rows)?;
        return Ok(0);
    }
    for (number, tool) in tools.iter().enumerate() {
        if number > 0 {
            context.out.line("")?;
        }
        context.out.line(&format!("{}\n\n{}\n", tool.name, tool.description))?;
        for (key, property) in properties(tool) {
            context.out.line(&format!("  {key}: {}", describe(tool, &key, &property)))?;
        }
    }
    Ok(0)
}

/// All but `sandbox`, required ones first.
fn properties(tool: &ToolDescription) -> Vec<(String, Value)> {
    let all = tool.input_schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut all: Vec<_> = all.into_iter().filter(|(key, _)| key != "sandbox").collect();
    all.sort_by_key(|(key, _)| !is_required(tool, key));
    all
}

fn is_required(tool: &ToolDescription, key: &str) -> bool {
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    required.is_some_and(|list| list.iter().any(|name| name == key))
}

fn keys(tool: &ToolDescription) -> String {
    let shown = |(key, _): (String, Value)| if is_required(tool, &key) { key } else { format!("[{key}]") };
    properties(tool).into_iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn first_sentence(tool: &ToolDescription) -> String {
    let text = tool.description.lines().next().unwrap_or_default();
    match text.find(". ") {
        Some(at) => text[..at].to_owned(),
        None => text.trim_end_matches('.').to_owned(),
    }
}

fn describe(tool: &ToolDescription, key: &str, property: &Value) -> String {
    let mut words = Vec::new();
    match (property.get("type").and_then(Value::as_str), property.get("enum").and_then(Value::as_array)) {
        (_, Some(values)) => {
            words.push(values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "));
        }
        (Some(kind), None) => words.push(kind.to_owned()),
        (None, None) => {}
    }
    if let (Some(least), Some(most)) = (property.get("minimum"), property.get("maximum")) {
        words.push(format!("{least} to {most}"));
    }
    if is_required(tool, key) {
        words.push("required".to_owned());
    } else if let Some(default) = property.get("default") {
        words.push(format!("default {default}"));
    }
    let mut text = words.join(", ");
    if let Some(about) = property.get("description").and_then(Value::as_str) {
        text = format!("{text}. {about}");
    }
    text
}
