//! Names, words and schemas of the tools that create and change sandboxes.

use serde_json::{Value, json};

use super::super::{Group, Spec};
use super::{READING, number, text, variables};

/// A tool that creates or changes sandboxes.
const LIFECYCLE: Spec = Spec { group: Group::Lifecycle, opens: false, ..READING };

pub(in crate::tools) static CREATE: Spec = Spec {
    name: "sandbox_create",
    title: "Create a sandbox",
    description: "Creates a sandbox, an isolated Linux computer of its own, and returns its id for the argument `sandbox` of the \
                  other tools.",
    read_only: false,
    idempotent: false,
    properties: || {
        json!({
            "template": text(1, 128, "Template to start from; base if omitted"),
            "name": text(1, 64, "Name by which the other tools can refer to it"),
            "cpu": {"type": "integer", "minimum": 1, "maximum": 256, "description": "Virtual CPUs"},
            "memory_mb": {"type": "integer", "minimum": 128, "maximum": 4_194_304, "description": "Memory in MiB"},
            "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 2_592_000, "description":
                "Time after which it is paused; 3600 if omitted"},
            "env": variables("Environment variables of every command"),
        })
    },
    ..LIFECYCLE
};

pub(in crate::tools) static LIST: Spec = Spec {
    name: "sandbox_list",
    title: "List sandboxes",
    description: "Lists the sandboxes that exist: id, name, state, template and when each was started.",
    properties: || {
        json!({
            "state": {"enum": ["running", "paused"], "description": "Only those in this state"},
            "limit": number(1, 100, 50, "Sandboxes to list at most"),
        })
    },
    ..LIFECYCLE
};

/// The one argument of most lifecycle tools.
fn one() -> Value {
    json!({"sandbox": text(1, 64, "Id or name of the sandbox")})
}

pub(in crate::tools) static INFO: Spec = Spec {
    name: "sandbox_info",
    title: "Describe a sandbox",
    description: "Describes one sandbox: state, template, resources, metadata, when it was started and when it is paused or \
                  ended.",
    properties: one,
    required: &["sandbox"],
    ..LIFECYCLE
};

pub(in crate::tools) static PAUSE: Spec = Spec {
    name: "sandbox_pause",
    title: "Pause a sandbox",
    description: "Pauses a sandbox: it uses no CPU, and everything in it is kept. The next call that uses it resumes it.",
    read_only: false,
    properties: one,
    required: &["sandbox"],
    ..LIFECYCLE
};

pub(in crate::tools) static RESUME: Spec = Spec {
    name: "sandbox_resume",
    title: "Resume a sandbox",
    description: "Resumes a paused sandbox. This is rarely needed: other tools resume it by themselves.",
    read_only: false,
    properties: one,
    required: &["sandbox"],
    ..LIFECYCLE
};

pub(in crate::tools) static KILL: Spec = Spec {
    name: "sandbox_kill",
    title: "Kill a sandbox",
    description: "Ends a sandbox for ever, with all files in it. Use sandbox_pause to keep it for later.",
    read_only: false,
    destructive: true,
    properties: one,
    required: &["sandbox"],
    ..LIFECYCLE
};

pub(in crate::tools) static SNAPSHOT: Spec = Spec {
    name: "sandbox_snapshot",
    title: "Snapshot a sandbox",
    description: "Takes a snapshot of a sandbox's disk; sandbox_create with the snapshot's id as template starts from it.",
    read_only: false,
    idempotent: false,
    properties: one,
    required: &["sandbox"],
    ..LIFECYCLE
};

pub(in crate::tools) static FORK: Spec = Spec {
    name: "sandbox_fork",
    title: "Fork a sandbox",
    description: "Makes new sandboxes with a copy of the disk of a running one, to try several ways at once.",
    read_only: false,
    idempotent: false,
    properties: || {
        json!({
            "sandbox": text(1, 64, "Id or name of the sandbox"),
            "count": number(1, 10, 1, "How many to make"),
        })
    },
    required: &["sandbox"],
    ..LIFECYCLE
};
