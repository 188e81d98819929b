//! The tools of a turn: what the model may call, and what happens before a call.

use cabana_agent::model::ToolDefinition;
use cabana_agent::prompt;
use cabana_agent::tools::{self, Tool};
use cabana_types::chat::{ASK_USER, Approve, ChatTool, MAIN_SANDBOX, fits};
use serde_json::{Value, json};

/// Tools of services.
const SERVICES: [&str; 2] = ["sandbox_start_service", "sandbox_service"];
/// Tools of a sandbox beside the ten.
const EXTRA: &str = "sandbox_command";

/// Who runs a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Runner {
    /// The server, in a sandbox.
    Tool(&'static dyn Tool),
    /// The client, or a person.
    Client,
}

/// The sandbox that a chat makes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxSpec {
    pub(crate) template: Option<String>,
    pub(crate) cpu_count: Option<i64>,
    pub(crate) memory_mb: Option<i64>,
    /// Further names that the model may use.
    pub(crate) names: Vec<String>,
}

/// The tools of a turn.
#[derive(Debug, Default)]
pub(crate) struct ToolSet {
    tools: Vec<&'static dyn Tool>,
    functions: Vec<ToolDefinition>,
    approve: Vec<(String, Approve)>,
    sandbox: Option<SandboxSpec>,
    services: bool,
    ask: bool,
}

/// The tools of a chat that names none.
pub(crate) fn default_tools() -> Vec<ChatTool> {
    let sandbox = ChatTool::Sandbox {
        template: None,
        cpu_count: None,
        memory_mb: None,
        names: Vec::new(),
        allow: Vec::new(),
        approve: Default::default(),
    };
    vec![sandbox, ChatTool::Services {}, ChatTool::Ask {}]
}

impl ToolSet {
    pub(crate) fn new(chosen: &[ChatTool]) -> Self {
        let mut set = Self::default();
        for tool in chosen {
            match tool {
                ChatTool::Sandbox { template, cpu_count, memory_mb, names, allow, approve } => {
                    let all = tools::select(["all", EXTRA]).unwrap_or_default();
                    let allowed = |name: &str| allow.is_empty() || allow.iter().any(|pattern| fits(pattern, name));
                    set.tools.extend(all.into_iter().filter(|tool| allowed(tool.spec().name)));
                    set.approve.extend(approve.iter().map(|(pattern, approve)| (pattern.clone(), *approve)));
                    set.sandbox = Some(SandboxSpec {
                        template: template.clone(),
                        cpu_count: *cpu_count,
                        memory_mb: *memory_mb,
                        names: names.clone(),
                    });
                }
                ChatTool::Services {} => set.services = true,
                ChatTool::Ask {} => set.ask = true,
                ChatTool::Function { name, description, parameters } => {
                    let schema = match parameters {
                        Value::Null => json!({"type": "object", "properties": {}}),
                        schema => schema.clone(),
                    };
                    set.functions.push(ToolDefinition { name: name.clone(), description: description.clone(), schema });
                }
            }
        }
        // Services run in a sandbox.
        set.services &= set.sandbox.is_some();
        if set.services {
            set.tools.extend(tools::select(SERVICES).unwrap_or_default());
        }
        if set.ask {
            set.functions.push(prompt::ask_user());
        }
        set
    }

    /// What the model is told about them.
    pub(super) fn definitions(&self) -> Vec<ToolDefinition> {
        let of_sandbox = self.tools.iter().map(|tool| {
            let spec = tool.spec();
            ToolDefinition {
                name: spec.name.to_owned(),
                description: spec.description.to_owned(),
                schema: spec.schema(),
            }
        });
        of_sandbox.chain(self.functions.iter().cloned()).collect()
    }

    /// Who runs a tool; `None` if there is no such tool.
    pub(super) fn runner(&self, name: &str) -> Option<Runner> {
        let own = self.tools.iter().find(|tool| tool.spec().name == name).map(|tool| Runner::Tool(*tool));
        own.or_else(|| self.functions.iter().any(|function| function.name == name).then_some(Runner::Client))
    }

    /// Names of all tools.
    pub(super) fn names(&self) -> Vec<&str> {
        let own = self.tools.iter().map(|tool| tool.spec().name);
        own.chain(self.functions.iter().map(|function| function.name.as_str())).collect()
    }

    /// What happens before a call. The longest pattern that fits decides.
    pub(super) fn approval(&self, name: &str) -> Approve {
        let fitting = self.approve.iter().filter(|(pattern, _)| fits(pattern, name));
        fitting.max_by_key(|(pattern, _)| pattern.len()).map_or(Approve::Auto, |(_, approve)| *approve)
    }

    /// The sandbox that the chat makes; `None` if it has none.
    pub(crate) fn sandbox(&self) -> Option<&SandboxSpec> {
        self.sandbox.as_ref()
    }

    /// The environment that the model is told about.
    pub(super) fn environment<'a>(&self, uploads: bool, names: &'a [String]) -> prompt::Environment<'a> {
        prompt::Environment { sandbox: self.sandbox.is_some(), services: self.services, ask: self.ask, uploads, names }
    }

    /// Whether a call changes nothing.
    pub(super) fn is_read_only(&self, name: &str) -> bool {
        match self.runner(name) {
            Some(Runner::Tool(tool)) => tool.spec().read_only,
            // A question can wait beside others.
            Some(Runner::Client) => name == ASK_USER,
            None => true,
        }
    }

    /// Names of sandboxes that the model may use.
    pub(crate) fn sandbox_names(&self) -> Vec<String> {
        let names = self.sandbox.as_ref().map(|spec| spec.names.clone()).unwrap_or_default();
        if names.is_empty() { vec![MAIN_SANDBOX.to_owned()] } else { names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_follow_from_the_configuration() {
        let tools: Vec<ChatTool> = serde_json::from_str(
            r#"[{"type":"sandbox","allow":["sandbox_read_*","sandbox_run_command"],"approve":{"*":"ask","sandbox_run_*":"never"}},
                {"type":"function","name":"weather"}]"#,
        )
        .unwrap();
        let set = ToolSet::new(&tools);
        assert_eq!(set.names(), ["sandbox_read_file", "sandbox_run_command", "weather"]);
        assert_eq!(set.approval("sandbox_read_file"), Approve::Ask);
        assert_eq!(set.approval("sandbox_run_command"), Approve::Never);
        assert!(matches!(set.runner("weather"), Some(Runner::Client)));
        assert!(set.runner("sandbox_write_file").is_none());
        let all = ToolSet::new(&default_tools());
        assert_eq!(all.names().len(), 14);
        assert!(ToolSet::new(&[ChatTool::Services {}]).names().is_empty(), "services need a sandbox");
    }
}
