//! The forms in which model providers and MCP take the description of tools.

use serde_json::{Value, json};

use crate::tools::{Spec, Tool};

/// A form of tool descriptions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// As in MCP's `tools/list`.
    #[default]
    Mcp,
    /// As in OpenAI's chat completions, which most other providers take too.
    OpenAi,
    /// As in Anthropic's messages.
    Anthropic,
}

impl Format {
    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "mcp" => Some(Self::Mcp),
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            _ => None,
        }
    }

    /// Describes tools.
    pub fn describe(self, tools: &[&dyn Tool]) -> Vec<Value> {
        tools.iter().map(|tool| self.one(tool.spec())).collect()
    }

    fn one(self, spec: &Spec) -> Value {
        let Spec { name, description, .. } = spec;
        match self {
            Self::Mcp => json!({
                "name": name,
                "title": spec.title,
                "description": description,
                "inputSchema": spec.schema(),
                "outputSchema": result_schema(),
                "annotations": annotations(spec),
            }),
            Self::OpenAi => json!({
                "type": "function",
                "function": {"name": name, "description": description, "parameters": spec.schema()},
            }),
            Self::Anthropic => json!({"name": name, "description": description, "input_schema": spec.schema()}),
        }
    }
}

/// The JSON schema of a result: a [`ToolResult`](cabana_types::tool::ToolResult) without its images.
pub fn result_schema() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "callId": text,
            "tool": text,
            "sandboxId": text,
            "status": {"enum": ["success", "error"]},
            "output": {"type": "string", "description": "the same text as in the content"},
            "data": {"type": "object", "description": "the result for programs"},
            // Not a list of types, which some clients cannot map to their own dialect.
            "error": {"anyOf": [{"type": "null"}, {
                "type": "object",
                "properties": {"code": text, "message": text, "hint": text, "retryable": {"type": "boolean"}},
                "required": ["code", "message", "hint", "retryable"],
            }]},
            "truncated": {"type": "boolean"},
            "durationMs": {"type": "integer", "minimum": 0},
        },
        "required": ["callId", "tool", "status", "output", "data", "error", "truncated", "durationMs"],
    })
}

fn annotations(spec: &Spec) -> Value {
    json!({
        "title": spec.title,
        "readOnlyHint": spec.read_only,
        "destructiveHint": spec.destructive,
        "idempotentHint": spec.idempotent,
        "openWorldHint": spec.opens && !spec.read_only && spec.own_time,
    })
}

#[cfg(test)]
mod tests {
    use cabana_types::CallId;
    use cabana_types::tool::{ToolError, ToolErrorCode, ToolResult, ToolStatus};

    use super::*;

    /// Clients and models rely on the names and schemas: a change shows here.
    #[test]
    fn names_and_schemas_stay() {
        insta::assert_json_snapshot!(Format::OpenAi.describe(crate::tools::all()));
    }

    #[test]
    fn the_schema_names_every_field_of_a_result() {
        let result = ToolResult {
            call_id: CallId::from_random([1; 20]),
            tool: "sandbox_read_file".into(),
            sandbox_id: Some("iabc".into()),
            status: ToolStatus::Error,
            output: String::new(),
            data: json!({}),
            images: Vec::new(),
            error: Some(ToolError {
                code: ToolErrorCode::FileNotFound,
                message: String::new(),
                hint: String::new(),
                retryable: false,
            }),
            truncated: false,
            duration_ms: 1,
        };
        let (schema, result) = (result_schema(), serde_json::to_value(result).unwrap());
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&schema["properties"]), names(&result));
        assert_eq!(names(&schema["properties"]["error"]["anyOf"][1]["properties"]), names(&result["error"]));
        for word in ["success", "error"] {
            assert!(schema["properties"]["status"]["enum"].as_array().unwrap().contains(&json!(word)));
        }
    }
}
