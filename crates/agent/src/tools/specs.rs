//! Names, words and schemas of all tools, in one place. Those of the tools for sandboxes as a whole are in `specs/lifecycle.rs`.

mod lifecycle;

use serde_json::{Value, json};

use super::{Group, Spec};
pub(super) use lifecycle::{CREATE, FORK, INFO, KILL, LIST, PAUSE, RESUME, SNAPSHOT};

/// Characters of a path.
const MAX_PATH: u64 = 4096;

/// The schema of a tool's arguments.
pub(super) fn schema(spec: &Spec) -> Value {
    let mut properties = (spec.properties)();
    if let (true, Some(fields)) = (spec.opens, properties.as_object_mut()) {
        let words = "Id or name of the sandbox; the default one if omitted";
        fields.insert("sandbox".into(), json!({"type": "string", "maxLength": 64, "description": words}));
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": spec.required,
    })
}

fn path(words: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": MAX_PATH, "description": words})
}

fn directory(words: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": MAX_PATH, "default": ".", "description": words})
}

fn flag(words: &str) -> Value {
    json!({"type": "boolean", "default": false, "description": words})
}

fn number(least: u64, most: u64, default: u64, words: &str) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most, "default": default, "description": words})
}

fn line(words: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "description": words})
}

fn text(least: u64, most: u64, words: &str) -> Value {
    match least {
        0 => json!({"type": "string", "maxLength": most, "description": words}),
        _ => json!({"type": "string", "minLength": least, "maxLength": most, "description": words}),
    }
}

fn globs(words: &str) -> Value {
    json!({"type": "array", "items": {"type": "string", "maxLength": 256}, "maxItems": 20, "description": words})
}

fn variables(words: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": words})
}

/// A tool that only reads.
const READING: Spec = Spec {
    name: "",
    title: "",
    description: "",
    group: Group::Files,
    read_only: true,
    destructive: false,
    idempotent: true,
    opens: true,
    own_time: false,
    properties: || json!({}),
    required: &[],
};
/// A tool that replaces or removes files.
const CHANGING: Spec = Spec { read_only: false, destructive: true, idempotent: false, ..READING };

pub(super) static READ_FILE: Spec = Spec {
    name: "sandbox_read_file",
    title: "Read a file",
    description: "Reads a text file of the sandbox with line numbers, at most 2,000 lines or 64 KiB at once; start_line and \
                  end_line select a range. Images are returned as images.",
    properties: || {
        json!({
            "path": path("Path of the file; relative paths start at the working directory"),
            "start_line": line("First line to read, from 1"),
            "end_line": line("Last line to read"),
        })
    },
    required: &["path"],
    ..READING
};

pub(super) static WRITE_FILE: Spec = Spec {
    name: "sandbox_write_file",
    title: "Write a file",
    description: "Creates a file of the sandbox with this content, or replaces it as a whole; missing directories are made. To \
                  change a part of a file, use sandbox_find_replace or sandbox_apply_patch.",
    idempotent: true,
    properties: || {
        json!({
            "path": path("Path of the file"),
            "content": text(0, 5_242_880, "The whole content"),
            "create_only": flag("Fail if the file exists"),
            "executable": flag("Make the file executable"),
        })
    },
    required: &["path", "content"],
    ..CHANGING
};

pub(super) static DELETE_FILE: Spec = Spec {
    name: "sandbox_delete_file",
    title: "Delete a file",
    description: "Deletes a file, a link or an empty directory of the sandbox; recursive also deletes a directory with \
                  everything in it.",
    properties: || json!({"path": path("What to delete"), "recursive": flag("Delete a directory with its content")}),
    required: &["path"],
    ..CHANGING
};

pub(super) static LIST_DIRECTORY: Spec = Spec {
    name: "sandbox_list_directory",
    title: "List a directory",
    description: "Lists a directory of the sandbox: directories first, with sizes, modes and link targets. For a name that you \
                  half know, sandbox_find_files is quicker.",
    properties: || {
        json!({
            "path": directory("The directory"),
            "depth": number(1, 5, 1, "Levels of directories to list"),
            "hidden": flag("Also list names that begin with a dot"),
            "limit": number(1, 2000, 500, "Entries to list at most"),
        })
    },
    ..READING
};

pub(super) static RUN_COMMAND: Spec = Spec {
    name: "sandbox_run_command",
    title: "Run a command",
    description: "Runs a script with `bash -lc` in the sandbox and returns what it printed and its exit code. Long output is cut \
                  in the middle; all of it is in a file that the result names. Nothing can be typed: pass stdin or use \
                  non-interactive flags. For servers and other programs that do not end, set background.",
    group: Group::Commands,
    own_time: true,
    properties: || {
        json!({
            "command": text(1, 65536, "The script"),
            "cwd": path("Working directory"),
            "timeout_seconds": number(1, 1800, 180, "The command is ended after this time"),
            "background": flag("Return after a second and leave the command running"),
            "env": variables("Environment variables"),
            "stdin": text(0, 1_048_576, "Standard input; empty if omitted"),
        })
    },
    required: &["command"],
    ..CHANGING
};

pub(super) static GREP_FILES: Spec = Spec {
    name: "sandbox_grep_files",
    title: "Search file contents",
    description: "Searches the content of files with a regular expression (ripgrep's syntax), skipping binary files and what \
                  ignore files name. Returns path:line:text, at most 10 lines of a file.",
    properties: || {
        json!({
            "pattern": text(1, 1024, "Regular expression, or text with literal"),
            "path": directory("Directory or file to search"),
            "include": globs("Search only files that match one of these globs, such as *.rs"),
            "exclude": globs("Skip files that match one of these globs"),
            "literal": flag("The pattern is a text, not a regular expression"),
            "case": {"enum": ["smart", "sensitive", "insensitive"], "default": "smart", "description":
                "Smart: upper and lower case match each other unless the pattern has an upper-case letter"},
            "context": number(0, 5, 0, "Lines to show before and after each match"),
            "output": {"enum": ["lines", "files", "count"], "default": "lines", "description":
                "Matching lines, only the paths of files, or the number of matches for each file"},
            "limit": number(1, 1000, 100, "Lines or files to return at most"),
            "ignored": flag("Also search hidden and ignored files"),
        })
    },
    required: &["pattern"],
    ..READING
};

pub(super) static FIND_FILES: Spec = Spec {
    name: "sandbox_find_files",
    title: "Find files by name",
    description: "Finds files whose path contains the letters of the query in this order (fuzzy), best match first. Skips what \
                  ignore files name.",
    properties: || {
        json!({
            "query": text(1, 256, "Letters of the path, such as `srvmain` for src/server/main.rs"),
            "path": directory("Directory to search"),
            "kind": {"enum": ["file", "directory", "any"], "default": "file", "description": "What to find"},
            "limit": number(1, 500, 50, "Paths to return at most"),
            "ignored": flag("Also find hidden and ignored files"),
        })
    },
    required: &["query"],
    ..READING
};

pub(super) static APPLY_PATCH: Spec = Spec {
    name: "sandbox_apply_patch",
    title: "Apply a patch",
    description: "Applies a patch to files of the sandbox, all of it or nothing: a unified diff as git makes it (several files, \
                  renames, new and deleted ones), or the form that begins with `*** Begin Patch`. Places are found by context, \
                  so line numbers may be off.",
    properties: || {
        json!({
            "patch": text(1, 1_048_576, "The patch"),
            "cwd": path("Directory that its paths are relative to"),
            "dry_run": flag("Only check that it applies"),
        })
    },
    required: &["patch"],
    ..CHANGING
};

pub(super) static FIND_REPLACE: Spec = Spec {
    name: "sandbox_find_replace",
    title: "Replace text in a file",
    description: "Replaces a text in a file of the sandbox. Without all, the text must occur exactly once: include lines around \
                  it to make it unique. The result shows the difference.",
    properties: || {
        json!({
            "path": path("Path of the file"),
            "find": text(1, 262_144, "The text to find, exactly as it is in the file"),
            "replace": text(0, 262_144, "What to put there"),
            "all": flag("Replace every occurrence"),
            "regex": flag("`find` is a regular expression, and `replace` may use $1"),
            "expected_count": line("Fail unless there are this many occurrences"),
        })
    },
    required: &["path", "find", "replace"],
    ..CHANGING
};

pub(super) static DOWNLOAD_URL: Spec = Spec {
    name: "sandbox_download_url",
    title: "Make a download link",
    description: "Makes a link by which the user can download a file of the sandbox, or a directory as .tar.gz, without a key \
                  until it expires.",
    idempotent: false,
    properties: || {
        json!({
            "path": path("File or directory"),
            "expires_in_seconds": number(60, 604_800, 3600, "How long the link is valid"),
            "filename": text(0, 255, "Name of the downloaded file; that of the file if omitted"),
        })
    },
    required: &["path"],
    ..READING
};

pub(super) static MANAGE_COMMAND: Spec = Spec {
    name: "sandbox_command",
    title: "Look after a background command",
    description: "Reads the output of a command that sandbox_run_command started in the background, waits for its end, or stops \
                  it.",
    group: Group::Extra,
    own_time: true,
    properties: || {
        json!({
            "command_id": text(1, 64, "commandId from sandbox_run_command"),
            "action": {"enum": ["read", "wait", "stop"], "description":
                "read: what it printed so far; wait: the same after it has ended or wait_seconds have passed; stop: end it"},
            "wait_seconds": number(0, 60, 10, "How long to wait at most"),
        })
    },
    required: &["command_id", "action"],
    ..CHANGING
};

pub(super) static START_SERVICE: Spec = Spec {
    name: "sandbox_start_service",
    title: "Start a service",
    description: "Starts a command that serves a port, such as a development server, and waits until the port is open. People see it \
                  at the url in the answer. A service of the same name is replaced; names run beside each other.",
    group: Group::Extra,
    idempotent: false,
    properties: || {
        json!({
            "name": {"type": "string", "minLength": 1, "maxLength": 40, "default": "web", "description": "Name of the service"},
            "command": text(1, 65_536, "Command for bash; it must stay in the foreground"),
            "port": {"type": "integer", "minimum": 1, "maximum": 65_535, "description":
                "Port that it will listen on; the first one that it does if omitted"},
            "cwd": path("Directory to run it in; the working directory if omitted"),
            "env": variables("Environment variables"),
        })
    },
    required: &["command"],
    ..CHANGING
};

pub(super) static MANAGE_SERVICE: Spec = Spec {
    name: "sandbox_service",
    title: "Look after a service",
    description: "Tells what a service does, shows what it printed last, restarts it with the same command, or stops it.",
    group: Group::Extra,
    properties: || {
        json!({
            "name": {"type": "string", "minLength": 1, "maxLength": 40, "description": "Name of the service"},
            "action": {"enum": ["status", "logs", "restart", "stop"]},
        })
    },
    required: &["name", "action"],
    ..CHANGING
};
