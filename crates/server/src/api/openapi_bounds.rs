//! Adds the bounds that handlers check to the OpenAPI document, from the same constants.
//!
//! They are a table because most of them apply to path and query parameters, which have no Rust type that an attribute could be on.

use cabana_types::chat::MAX_SYSTEM;
use cabana_types::limits::{
    CPU_COUNT, DISK_MB, MAX_DOCKERFILE_BYTES, MAX_FILES_HASH_BYTES, MAX_IDEMPOTENCY_KEY_BYTES, MAX_MAP_ENTRIES,
    MAX_NAME_BYTES, MAX_REFRESH_SECONDS, MAX_STEP_BYTES, MAX_TAG_BYTES, MAX_TEMPLATE_REF_BYTES, MAX_TIMEOUT_SECONDS,
    MEMORY_MB, PAGE,
};
use cabana_types::service::{MAX_COMMAND, MAX_LINK_SECONDS};
use utoipa::Number;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Object, SchemaType};
use utoipa::openapi::{OpenApi, RefOr, Schema, Type};

use super::agents;
use super::logs::{MAX_LINES, MAX_SEARCH};
use super::query::{MAX_OFFSET, MAX_PAGE, MAX_SECONDS};
use super::services::{MAX_TAIL, MAX_WAIT};
use super::tags::SORTS;
use super::terminal::{MAX_CWD, MAX_SIDE};
use crate::config::MAX_PROVIDER;
use crate::lifecycle::LEVELS;

/// A constraint on a value.
enum Bound {
    /// A whole number between the two, inclusive.
    Within(u64, u64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A text that matches.
    Like(&'static str),
    /// A text that matches, with a maximum length.
    ShortLike(&'static str, usize),
    /// A text with a maximum length.
    Short(usize),
    /// An object with a maximum number of members.
    Members(usize),
}

use Bound::{Like, Members, OneOf, Short, ShortLike, Within};

const SECONDS: Bound = Within(0, MAX_SECONDS.unsigned_abs());
const MILLIS: Bound = Within(0, MAX_SECONDS.unsigned_abs() * 1000 + 999);
const ROWS: Bound = Within(*PAGE.start() as u64, *PAGE.end() as u64);
const LINES: Bound = Within(1, MAX_LINES as u64);
const SIDE: Bound = Within(1, MAX_SIDE.unsigned_abs());
const OFFSET: Bound = Within(0, MAX_OFFSET.unsigned_abs());
const TIMEOUT: Bound = Within(0, MAX_TIMEOUT_SECONDS);
const TEMPLATE: Bound = ShortLike("^([A-Za-z0-9_-]+/)?[A-Za-z0-9_-]+(:[A-Za-z0-9._-]+)?$", MAX_TEMPLATE_REF_BYTES);

/// An empty parameter counts as absent.
const TEMPLATE_OR_NONE: Bound =
    ShortLike("^(([A-Za-z0-9_-]+/)?[A-Za-z0-9_-]+(:[A-Za-z0-9._-]+)?)?$", MAX_TEMPLATE_REF_BYTES);

const TAG: Bound = ShortLike("^[A-Za-z0-9._-]+$", MAX_TAG_BYTES);

const WAIT: Bound = Within(0, MAX_WAIT.unsigned_abs());
const SLUG: Bound = Like("^([a-z][a-z0-9]*(-[a-z0-9]+)*)?$");

const AGENT: Bound = ShortLike("^[A-Za-z0-9._-]([A-Za-z0-9 ._-]*[A-Za-z0-9._-])?$", agents::MAX_NAME);
/// The same, or null.
const AGENT_OR_NONE: Bound = Like("^[A-Za-z0-9._-]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9._-])?$");

/// Sets and names of tools.
const TOOLS: Bound = Like(TOOL_NAMES);
const TOOL_NAMES: &str = concat!(
    "^((read|files|all|lifecycle|sandbox_(read_file|write_file|delete_file|list_directory|run_command|grep_files|find_files|apply_patch",
    "|find_replace|download_url|command|start_service|service|create|list|info|pause|resume|kill|snapshot|fork))(,(read|files|all",
    "|lifecycle|sandbox_(read_file|write_file|delete_file|list_directory|run_command|grep_files|find_files|apply_patch|find_replace",
    "|download_url|command|start_service|service|create|list|info|pause|resume|kill|snapshot|fork)))*)?$",
);

/// By path (for GET and POST) and parameter.
const PARAMETERS: &[(&str, &str, Bound)] = &[
    ("/v2/sandboxes", "limit", ROWS),
    ("/snapshots", "limit", ROWS),
    ("/chats", "limit", ROWS),
    ("/chats", "status", OneOf(&["idle", "running", "waiting", "failed"])),
    ("/chats", "q", Short(super::chats::MAX_SEARCH)),
    ("/chats/{chatID}/messages", "limit", Within(1, super::chats::MAX_MESSAGES as u64)),
    ("/chats/{chatID}/events", "maxAge", Within(1, super::chats::MAX_AGE.unsigned_abs())),
    ("/chats/{chatID}/resume", "maxAge", Within(1, super::chats::MAX_AGE.unsigned_abs())),
    ("/chats/{chatID}/checkpoints/{turnID}/restore", "kind", OneOf(&["turn", "restore"])),
    ("/events/webhooks/{webhookID}/deliveries", "limit", ROWS),
    ("/v2/sandboxes", "order", OneOf(&["asc", "desc"])),
    ("/v2/sandboxes", "state", Like("^((running|paused|failed)(,(running|paused|failed))*|ended)?$")),
    ("/v2/sandboxes", "q", Short(MAX_SEARCH)),
    ("/v2/sandboxes", "template", TEMPLATE_OR_NONE),
    ("/v2/sandboxes", "Idempotency-Key", ShortLike("^[a-z0-9-]+$", MAX_IDEMPOTENCY_KEY_BYTES)),
    ("/sandboxes", "Idempotency-Key", ShortLike("^[a-z0-9-]+$", MAX_IDEMPOTENCY_KEY_BYTES)),
    ("/sandboxes/{sandboxID}/metrics", "start", SECONDS),
    ("/sandboxes/{sandboxID}/metrics", "end", SECONDS),
    ("/sandboxes/{sandboxID}/usage", "limit", Within(1, super::usage::MAX_INTERVALS as u64)),
    ("/sandboxes/{sandboxID}/logs", "start", MILLIS),
    ("/sandboxes/{sandboxID}/logs", "limit", LINES),
    ("/v2/sandboxes/{sandboxID}/logs", "cursor", MILLIS),
    ("/v2/sandboxes/{sandboxID}/logs", "limit", LINES),
    ("/v2/sandboxes/{sandboxID}/logs", "direction", OneOf(&["forward", "backward"])),
    ("/v2/sandboxes/{sandboxID}/logs", "level", OneOf(&LEVELS)),
    ("/v2/sandboxes/{sandboxID}/logs", "search", Short(MAX_SEARCH)),
    ("/sandboxes/{sandboxID}/terminal", "pid", Within(1, u32::MAX as u64)),
    ("/sandboxes/{sandboxID}/terminal", "cols", SIDE),
    ("/sandboxes/{sandboxID}/terminal", "rows", SIDE),
    ("/sandboxes/{sandboxID}/terminal", "cwd", Short(MAX_CWD)),
    ("/sandboxes/events", "startTime", SECONDS),
    ("/sandboxes/events", "endTime", SECONDS),
    ("/sandboxes/events", "state", OneOf(&["success", "failed"])),
    ("/sandboxes/events", "offset", OFFSET),
    ("/sandboxes/events", "limit", ROWS),
    ("/events/sandboxes", "offset", OFFSET),
    ("/events/sandboxes", "limit", ROWS),
    ("/events/sandboxes/{sandboxID}", "offset", OFFSET),
    ("/events/sandboxes/{sandboxID}", "limit", ROWS),
    ("/teams/{teamID}/metrics", "start", SECONDS),
    ("/teams/{teamID}/metrics", "end", SECONDS),
    ("/teams/{teamID}/metrics/max", "metric", OneOf(&["concurrent_sandboxes", "sandbox_start_rate"])),
    ("/teams/{teamID}/metrics/max", "start", SECONDS),
    ("/teams/{teamID}/metrics/max", "end", SECONDS),
    ("/templates/{templateID}", "templateID", TEMPLATE),
    ("/templates/{templateID}/builds/{buildID}/status", "templateID", TEMPLATE),
    ("/templates/{templateID}/builds/{buildID}/logs", "templateID", TEMPLATE),
    ("/templates/{templateID}/files/{hash}", "templateID", TEMPLATE),
    ("/templates/{templateID}/tags", "templateID", TEMPLATE),
    ("/templates/{templateID}/tags/count", "templateID", TEMPLATE),
    ("/templates/{templateID}/tags/exists", "templateID", TEMPLATE),
    ("/templates/{templateID}/tags/groups", "templateID", TEMPLATE),
    ("/templates/{templateID}/tags/{tag}/assignments", "templateID", TEMPLATE),
    ("/templates/aliases/{alias}", "alias", TEMPLATE),
    ("/templates/{templateID}/builds/{buildID}/status", "logsOffset", OFFSET),
    ("/templates/{templateID}/builds/{buildID}/status", "limit", ROWS),
    ("/templates/{templateID}/builds/{buildID}/status", "level", OneOf(&LEVELS)),
    ("/templates/{templateID}/builds/{buildID}/logs", "cursor", MILLIS),
    ("/templates/{templateID}/builds/{buildID}/logs", "limit", ROWS),
    ("/templates/{templateID}/builds/{buildID}/logs", "direction", OneOf(&["forward", "backward"])),
    ("/templates/{templateID}/builds/{buildID}/logs", "level", OneOf(&LEVELS)),
    ("/templates/{templateID}/builds/{buildID}/logs", "source", OneOf(&["temporary", "persistent"])),
    ("/templates/{templateID}/files/{hash}", "hash", ShortLike("^[A-Za-z0-9][A-Za-z0-9._-]*$", MAX_FILES_HASH_BYTES)),
    ("/templates/{templateID}/tags/exists", "tag", TAG),
    ("/templates/{templateID}/tags/groups", "assignmentLimit", ROWS),
    ("/templates/{templateID}/tags/groups", "tagsLimit", ROWS),
    ("/templates/{templateID}/tags/groups", "search", Short(MAX_TAG_BYTES)),
    ("/templates/{templateID}/tags/groups", "sort", OneOf(&SORTS)),
    ("/templates/{templateID}/tags/{tag}/assignments", "tag", TAG),
    ("/templates/{templateID}/tags/{tag}/assignments", "limit", ROWS),
    ("/tools", "format", OneOf(&["openai", "anthropic", "mcp"])),
    ("/tools", "tools", TOOLS),
    ("/sandboxes/{sandboxID}/services", "waitSeconds", WAIT),
    ("/services/{serviceID}/start", "waitSeconds", WAIT),
    ("/services/{serviceID}/restart", "waitSeconds", WAIT),
    ("/services/{serviceID}/logs", "tail", Within(0, MAX_TAIL.unsigned_abs())),
    ("/secrets", "limit", ROWS),
    ("/secrets", "nextToken", Like("^(sec_[0-7][0-9a-hjkmnp-tv-z]{25})?$")),
    ("/v2/templates", "limit", ROWS),
    ("/v2/templates", "page", Within(1, MAX_PAGE.unsigned_abs())),
    ("/v2/templates", "template_type", OneOf(&["template_build", "snapshot_template"])),
];

/// By schema and property. The configuration may set lower limits.
const MEMBERS: &[(&str, &str, Bound)] = &[
    ("NewSandbox", "templateID", TEMPLATE),
    ("NewSandbox", "timeout", TIMEOUT),
    ("NewSandbox", "cpuCount", Within(*CPU_COUNT.start() as u64, *CPU_COUNT.end() as u64)),
    ("NewSandbox", "memoryMB", Within(*MEMORY_MB.start() as u64, *MEMORY_MB.end() as u64)),
    ("NewSandbox", "diskSizeMB", Within(*DISK_MB.start() as u64, *DISK_MB.end() as u64)),
    ("NewSandbox", "metadata", Members(MAX_MAP_ENTRIES)),
    ("NewSandbox", "envVars", Members(MAX_MAP_ENTRIES)),
    ("NewTemplate", "name", TEMPLATE),
    ("NewTemplate", "alias", TEMPLATE),
    ("NewTemplate", "cpuCount", Within(*CPU_COUNT.start() as u64, *CPU_COUNT.end() as u64)),
    ("NewTemplate", "memoryMB", Within(*MEMORY_MB.start() as u64, *MEMORY_MB.end() as u64)),
    ("NewTemplate", "minFreeDiskMb", Within(0, *DISK_MB.end() as u64)),
    ("BuildStart", "fromTemplate", TEMPLATE_OR_NONE),
    ("BuildStart", "startCmd", Short(MAX_STEP_BYTES)),
    ("BuildStart", "readyCmd", Short(MAX_STEP_BYTES)),
    ("BuildStart", "dockerfile", Short(MAX_DOCKERFILE_BYTES)),
    ("BuildStart", "target", Short(MAX_NAME_BYTES)),
    ("BuildStart", "buildArgs", Members(MAX_MAP_ENTRIES)),
    ("TemplateStep", "type", OneOf(&["COPY", "RUN", "ENV", "WORKDIR", "USER"])),
    ("RegistryCredentials", "type", OneOf(&["registry", "aws", "gcp"])),
    ("AssignTags", "target", TEMPLATE),
    ("RemoveTags", "name", TEMPLATE),
    ("ConnectRequest", "timeout", TIMEOUT),
    ("TimeoutRequest", "timeout", TIMEOUT),
    ("RefreshRequest", "duration", Within(0, MAX_REFRESH_SECONDS)),
    ("NewService", "name", Like("^[a-z0-9][a-z0-9_-]{0,39}$")),
    ("NewService", "command", ShortLike(r"[^\u0000\s]", MAX_COMMAND)),
    ("NewService", "port", Within(1, 65_535)),
    ("NewService", "cwd", Short(MAX_CWD)),
    ("NewService", "env", Members(MAX_MAP_ENTRIES)),
    ("NewService", "slug", SLUG),
    ("ServiceUpdate", "slug", SLUG),
    ("OpenService", "path", ShortLike("^/([^/\\\\].*)?$", MAX_NAME_BYTES)),
    ("NewServiceLink", "expiresInSeconds", Within(1, MAX_LINK_SECONDS)),
    ("NewAgent", "name", AGENT),
    ("AgentUpdate", "name", AGENT_OR_NONE),
    ("NewAgent", "kind", OneOf(&["loop"])),
    ("NewAgent", "description", Short(agents::MAX_DESCRIPTION)),
    ("AgentUpdate", "description", Short(agents::MAX_DESCRIPTION)),
    ("NewAgent", "system", Short(MAX_SYSTEM)),
    ("AgentUpdate", "system", Short(MAX_SYSTEM)),
    ("TurnLimits", "maxSteps", Within(1, 500)),
    ("TurnLimits", "maxMinutes", Within(1, 1440)),
    ("NewModelProvider", "name", ShortLike("^[a-z0-9-]+$", MAX_PROVIDER)),
    ("NewModelProvider", "kind", OneOf(&["openai", "anthropic"])),
    ("NewModelProvider", "baseUrl", Like("^https://[^@?#]+$")),
    ("KeyRequest", "name", ShortLike(r"^[^\u0000-\u001f\u007f-\u009f]+$", MAX_NAME_BYTES)),
    ("KeyName", "name", ShortLike(r"^[^\u0000-\u001f\u007f-\u009f]+$", MAX_NAME_BYTES)),
];

/// Adds the bounds to the document. Returns the names of those that matched nothing.
pub(super) fn apply(document: &mut OpenApi) -> Vec<String> {
    let mut missed = vec![];
    for (path, name, bound) in PARAMETERS {
        let mut found = false;
        let item = document.paths.paths.get_mut(*path);
        let operations = item.map(|item| [&mut item.get, &mut item.post]).into_iter().flatten();
        for operation in operations.flatten() {
            found |= bind_parameter(operation, name, bound);
        }
        if !found {
            missed.push(format!("{path} {name}"));
        }
    }
    for (body, name, bound) in MEMBERS {
        let schemas = document.components.as_mut().map(|components| &mut components.schemas);
        let member = match schemas.and_then(|schemas| schemas.get_mut(*body)) {
            Some(RefOr::T(Schema::Object(object))) => object.properties.get_mut(*name),
            _ => None,
        };
        if !member.is_some_and(|schema| bind(schema, bound)) {
            missed.push(format!("{body}.{name}"));
        }
    }
    missed
}

fn bind_parameter(operation: &mut Operation, name: &str, bound: &Bound) -> bool {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.name == name
            && let Some(schema) = &mut parameter.schema
        {
            return bind(schema, bound);
        }
    }
    false
}

fn bind(schema: &mut RefOr<Schema>, bound: &Bound) -> bool {
    let RefOr::T(Schema::Object(object)) = schema else { return false };
    match bound {
        Within(least, most) => {
            object.minimum = Some(number(*least));
            object.maximum = Some(number(*most));
        }
        OneOf(texts) => object.enum_values = Some(texts.iter().map(|text| (*text).into()).collect()),
        Like(pattern) => object.pattern = Some((*pattern).to_owned()),
        ShortLike(pattern, most) => {
            object.pattern = Some((*pattern).to_owned());
            object.max_length = Some(*most);
            not_null(object);
        }
        Short(most) => object.max_length = Some(*most),
        Members(most) => object.max_properties = Some(*most),
    }
    true
}

fn number(value: u64) -> Number {
    usize::try_from(value).map_or(Number::UInt(usize::MAX), Number::UInt)
}

/// A header is present or absent, but never null.
fn not_null(object: &mut Object) {
    object.schema_type = SchemaType::Type(Type::String);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_matches_something() {
        let mut document = super::super::described();
        assert_eq!(apply(&mut document), Vec::<String>::new());
    }

    #[test]
    fn every_tool_can_be_selected() {
        for tool in cabana_agent::tools::all() {
            let name = tool.spec().name.trim_start_matches("sandbox_");
            let words = TOOL_NAMES.split(|c: char| !c.is_ascii_lowercase() && c != '_');
            assert_eq!(words.filter(|word| *word == name).count(), 2, "{name}");
        }
    }
}
