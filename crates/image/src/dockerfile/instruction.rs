//! The instructions of a Dockerfile, with their words still as they were written.

/// A command in one of its two forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for the shell in force.
    Shell(String),
    /// A program and its arguments, without a shell.
    Exec(Vec<String>),
    /// A text that says itself what runs it (`#!`).
    Script(String),
}

/// A file that stands in the Dockerfile itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InlineFile {
    pub(super) name: String,
    pub(super) content: String,
    pub(super) expands: bool,
}

/// Files that a `RUN` wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) from: Option<String>,
    pub(super) source: String,
    pub(super) target: String,
}

/// `COPY` and `ADD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyInstruction {
    pub(super) is_add: bool,
    pub(super) from: Option<String>,
    pub(super) chown: Option<String>,
    pub(super) chmod: Option<String>,
    pub(super) excludes: Vec<String>,
    pub(super) sources: Vec<String>,
    pub(super) inline: Vec<InlineFile>,
    pub(super) destination: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Instruction {
    Arg(Vec<(String, Option<String>)>),
    Cmd(Command),
    Copy(CopyInstruction),
    Entrypoint(Command),
    Env(Vec<(String, String)>),
    Expose(String),
    Healthcheck(Option<Command>),
    Label(Vec<(String, String)>),
    Run(Command, Vec<Bind>),
    Shell(Vec<String>),
    User(String),
    Workdir(String),
}

/// An instruction and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) line: usize,
    /// As it was written, for logs.
    pub(super) text: String,
    pub(super) instruction: Instruction,
}

/// `FROM` and what follows up to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedStage {
    pub(super) line: usize,
    pub(super) image: String,
    pub(super) platform: Option<String>,
    pub(super) name: Option<String>,
    pub(super) instructions: Vec<Placed>,
}
