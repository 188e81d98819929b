//! The tools. Each is a file below: what it does, and its entry in [`all`]. Its name, words and schema are in `specs.rs`, from which REST,
//! MCP, OpenAPI and the forms of model providers are made.

mod command;
mod delete;
mod download;
mod find;
mod grep;
mod lifecycle;
mod list;
mod patch;
mod read;
mod replace;
mod run;
mod service;
pub(crate) mod specs;
mod write;

use std::fmt;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Context, Failure, Success};
use cabana_types::tool::ToolErrorCode;

/// A tool that models can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Its name, words and schema.
    fn spec(&self) -> &'static Spec;

    /// Does it. The arguments fit the schema and have all defaults.
    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure>;

    /// Finds out what became of a call that ran when the server ended, and goes on with it if that is possible. Nothing is done twice.
    async fn resume(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        match self.spec().read_only {
            true => self.run(arguments, context).await,
            false => Err(unknown_end(self.spec())),
        }
    }
}

/// The server ended while a call ran, and what became of it is not known.
fn unknown_end(spec: &Spec) -> Failure {
    let look = match spec.group {
        Group::Files => "read the files that it was to change: it may have been done as a whole, or not at all",
        Group::Commands => "look at what is there before you run it again: it may have been done in part",
        Group::Extra => "look at what runs, for example with sandbox_service, before you repeat the call",
        Group::Lifecycle => "look with sandbox_list before you repeat the call: it may have been done",
    };
    Failure::new(ToolErrorCode::Interrupted, "the server was restarted while the call ran").hint(look)
}

impl fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

/// Which tools belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Files of a sandbox.
    Files,
    /// Commands in a sandbox.
    Commands,
    /// Off unless somebody asks for them by name.
    Extra,
    /// Creating and changing sandboxes.
    Lifecycle,
}

/// Name, words and schema of a tool.
#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For models.
    pub description: &'static str,
    pub group: Group,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may remove or replace something.
    pub destructive: bool,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Whether it works in a sandbox, which is opened before.
    pub opens: bool,
    /// Whether it ends by itself in time and on cancellation.
    pub own_time: bool,
    pub(crate) properties: fn() -> Value,
    pub(crate) required: &'static [&'static str],
}

impl Spec {
    /// The JSON schema of the arguments.
    pub fn schema(&self) -> Value {
        specs::schema(self)
    }
}

/// A new tool is a file and a line here.
static ALL: &[&dyn Tool] = &[
    &read::ReadFile,
    &write::WriteFile,
    &delete::DeleteFile,
    &list::ListDirectory,
    &run::RunCommand,
    &grep::GrepFiles,
    &find::FindFiles,
    &patch::ApplyPatch,
    &replace::FindReplace,
    &download::DownloadUrl,
    &command::ManageCommand,
    &service::START,
    &service::MANAGE,
    &lifecycle::CREATE,
    &lifecycle::LIST,
    &lifecycle::INFO,
    &lifecycle::PAUSE,
    &lifecycle::RESUME,
    &lifecycle::KILL,
    &lifecycle::SNAPSHOT,
    &lifecycle::FORK,
];

/// Every tool, in the order in which they are listed.
pub fn all() -> &'static [&'static dyn Tool] {
    ALL
}

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static dyn Tool> {
    all().iter().copied().find(|tool| tool.spec().name == name)
}

/// The tools that a list of sets and names selects, in the order of [`all`]. Sets: `read` (tools that change nothing), `files`, `all` (the
/// ten of a sandbox), `lifecycle`. The error is the word that is none of them.
pub fn select<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Vec<&'static dyn Tool>, &'a str> {
    let mut chosen = vec![false; all().len()];
    for word in words {
        let mut found = false;
        for (tool, chosen) in all().iter().zip(&mut chosen) {
            let spec = tool.spec();
            let in_sandbox = matches!(spec.group, Group::Files | Group::Commands);
            let matches = match word {
                "read" => in_sandbox && spec.read_only,
                "files" => spec.group == Group::Files,
                "all" => in_sandbox,
                "lifecycle" => spec.group == Group::Lifecycle,
                name => spec.name == name,
            };
            *chosen |= matches;
            found |= matches;
        }
        if !found {
            return Err(word);
        }
    }
    Ok(all().iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(tool, _)| *tool).collect())
}

/// The arguments of a tool as its own type. The schema was checked before, so an error is a difference between the two.
fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, Failure> {
    serde_json::from_value(arguments)
        .map_err(|error| Failure::new(ToolErrorCode::InvalidArguments, format!("the arguments do not fit: {error}")))
}

/// `1 line`, `2 lines`.
fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `512 bytes`, `1.5 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "";
    for name in UNITS {
        if tenths < 10240 {
            break;
        }
        tenths /= 1024;
        unit = name;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_words_are_there() {
        let mut names: Vec<_> = all().iter().map(|tool| tool.spec().name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        for tool in all() {
            let spec = tool.spec();
            assert!(spec.description.len() > 40 && spec.title.len() > 3, "{}", spec.name);
            assert!(!(spec.read_only && spec.destructive), "{}", spec.name);
            assert_eq!(find(spec.name).map(|found| found.spec().name), Some(spec.name));
        }
    }

    #[test]
    fn sets_and_names_select() {
        let names = |words: &[&'static str]| {
            select(words.iter().copied()).map(|tools| tools.iter().map(|t| t.spec().name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["all"]).unwrap().len(), 10);
        assert_eq!(
            names(&["all", "lifecycle", "sandbox_command", "sandbox_start_service", "sandbox_service"]).unwrap().len(),
            all().len()
        );
        assert_eq!(
            names(&["sandbox_run_command", "sandbox_read_file"]).unwrap(),
            ["sandbox_read_file", "sandbox_run_command"]
        );
        let reading = [
            "sandbox_read_file",
            "sandbox_list_directory",
            "sandbox_grep_files",
            "sandbox_find_files",
            "sandbox_download_url",
        ];
        assert_eq!(names(&["read"]).unwrap(), reading);
        assert_eq!(names(&["files", "rm"]), Err("rm"));
    }

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in
            [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
