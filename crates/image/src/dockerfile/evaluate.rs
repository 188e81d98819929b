//! Evaluates a stage: each step with its environment, user, directory and shell.

use std::collections::BTreeMap;

use super::expand::Expansion;
use super::instruction::{Bind, Command, CopyInstruction, Instruction, Placed};
use super::plan::{Settings, Stage, is_proxy};
use super::{DockerfileError, Note, fail, parse};
use crate::digest::{Digest, Hasher};
use crate::manifest::Defaults;

/// Bytes of all variables. Programs cannot be started with much more.
const MAX_ENVIRONMENT: usize = 128 << 10;

/// Result of evaluating a stage.
#[derive(Debug, Clone, Default)]
pub struct Evaluated {
    /// What is to be done, in order.
    pub steps: Vec<Step>,
    /// Defaults for running the result.
    pub defaults: Defaults,
    /// Notes for the author.
    pub notes: Vec<Note>,
    arguments: BTreeMap<String, String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The line of the instruction.
    pub line: usize,
    /// The instruction as it was written, for logs.
    pub text: String,
    /// What to do.
    pub action: Action,
    /// The environment: that of the image, and arguments.
    pub environment: BTreeMap<String, String>,
    /// As in [`Defaults::user`].
    pub user: String,
    /// Absolute.
    pub directory: String,
}

/// Action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a program with arguments. A line for the shell has the shell in front.
    Run(Vec<String>),
    /// Writes the text to a file and runs it: its first line names the interpreter.
    RunScript(String),
    /// Copies files.
    Copy(Copy),
    /// Creates the step's directory, with its parents, for the step's user.
    MakeDirectory,
}

/// Source of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFrom {
    /// The build context.
    Context,
    /// A stage, by its index in the plan.
    Stage(usize),
    /// An image, by the name in the Dockerfile.
    Image(String),
}

/// Files to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Where they come from.
    pub from: CopyFrom,
    /// Which; relative to the context or the root of what they come from, may be patterns.
    pub sources: Vec<String>,
    /// Files whose content stands in the Dockerfile.
    pub inline: Vec<Inline>,
    /// Absolute. With a slash at its end it is a directory.
    pub destination: String,
    /// `user[:group]`, by name or number; root where it is absent.
    pub owner: Option<String>,
    /// Permissions for all files.
    pub mode: Option<u32>,
    /// Patterns of what is left out.
    pub excludes: Vec<String>,
    /// Archives in the context are unpacked (`ADD`).
    pub unpacks: bool,
}

/// A file whose content stands in the Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline {
    /// Its name, where the destination is a directory.
    pub name: String,
    /// Its content.
    pub content: String,
}

impl Evaluated {
    /// Initial state of a stage based on an image.
    pub fn of_image(defaults: Defaults) -> Self {
        Self { defaults, ..Self::default() }
    }
}

impl Step {
    /// Cache key of the step's result: `before` is that of the previous step (or of the base), `files` the digest
    /// of the copied files. Everything that changes the result changes the key.
    pub fn key(&self, before: Digest, files: Option<Digest>) -> Digest {
        let mut hasher = Hasher::default();
        let mut put = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        put(&before.to_string());
        put(&files.map(|digest| digest.to_string()).unwrap_or_default());
        put(&format!("{:?}", self.action));
        put(&self.user);
        put(&self.directory);
        for (name, value) in &self.environment {
            put(name);
            put(value);
        }
        hasher.finish()
    }
}

pub(super) fn evaluate(
    stage: &Stage,
    place: usize,
    settings: &Settings,
    base: &Evaluated,
) -> Result<Evaluated, DockerfileError> {
    let mut defaults = base.defaults.clone();
    let triggers = std::mem::take(&mut defaults.on_build);
    let mut state = State {
        settings,
        place,
        environment: defaults.environment(),
        arguments: base.arguments.clone(),
        defaults,
        steps: Vec::new(),
        sets_command: false,
    };
    // Proxies are passed to steps without being declared.
    state
        .arguments
        .extend(settings.given.iter().filter(|(name, _)| is_proxy(name)).map(|(k, v)| (k.clone(), v.clone())));
    let mut notes = Vec::new();
    for text in triggers.iter().take(100) {
        if let Some(placed) = parse::trigger(text, stage.line, &mut notes)? {
            state.take(&placed)?;
        }
    }
    for placed in &stage.parsed.instructions {
        state.take(placed)?;
    }
    state.defaults.env = state.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Ok(Evaluated { steps: state.steps, defaults: state.defaults, notes, arguments: state.arguments })
}

struct State<'a> {
    settings: &'a Settings,
    /// Of the stage in the plan.
    place: usize,
    environment: BTreeMap<String, String>,
    arguments: BTreeMap<String, String>,
    defaults: Defaults,
    steps: Vec<Step>,
    /// A `CMD` of this stage survives an `ENTRYPOINT`; one of the base does not.
    sets_command: bool,
}

impl State<'_> {
    /// The environment takes precedence over arguments.
    fn values(&self) -> BTreeMap<String, String> {
        let mut values = self.arguments.clone();
        values.extend(self.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
        values
    }

    fn take(&mut self, placed: &Placed) -> Result<(), DockerfileError> {
        let line = placed.line;
        let values = self.values();
        let expansion = Expansion { values: &values, escape: self.settings.escape };
        let word = |text: &str| expansion.word(text).or_else(|reason| fail(line, reason));
        match &placed.instruction {
            Instruction::Arg(list) => {
                for (name, default) in list {
                    self.argument(name, default.as_deref(), line)?;
                }
            }
            Instruction::Env(list) => {
                for (name, value) in list {
                    let (name, value) = (word(name)?, word(value)?);
                    check_name(&name, line)?;
                    self.environment.insert(name, value);
                }
            }
            Instruction::Label(list) => {
                for (name, value) in list {
                    self.defaults.labels.insert(word(name)?, word(value)?);
                }
            }
            Instruction::Expose(text) => {
                for port in expansion.words(text).or_else(|reason| fail(line, reason))? {
                    let port = check_port(&port, line)?;
                    if !self.defaults.exposed_ports.contains(&port) {
                        self.defaults.exposed_ports.push(port);
                    }
                }
            }
            Instruction::User(text) => {
                let user = word(text)?;
                if user.is_empty() || user.contains(char::is_whitespace) || user.matches(':').count() > 1 {
                    return fail(line, "USER is written as user or user:group");
                }
                self.defaults.user = user;
            }
            Instruction::Workdir(text) => {
                let path = word(text)?;
                if path.is_empty() {
                    return fail(line, "WORKDIR is empty");
                }
                self.defaults.working_dir = self.absolute(&path, line)?;
                self.step(placed, Action::MakeDirectory);
            }
            Instruction::Shell(shell) => self.defaults.shell = shell.clone(),
            Instruction::Cmd(command) => {
                self.defaults.cmd = self.program(command);
                self.sets_command = true;
            }
            Instruction::Entrypoint(command) => {
                self.defaults.entrypoint = self.program(command);
                if !self.sets_command {
                    self.defaults.cmd.clear();
                }
            }
            Instruction::Healthcheck(command) => {
                self.defaults.healthcheck = command.as_ref().map(|command| self.program(command)).unwrap_or_default();
            }
            Instruction::Run(command, binds) => {
                for bind in binds {
                    let copy = self.copy(&as_copy(bind), &expansion, line)?;
                    self.step(placed, Action::Copy(copy));
                }
                let action = match command {
                    Command::Script(text) => Action::RunScript(text.clone()),
                    other => Action::Run(self.program(other)),
                };
                if matches!(&action, Action::Run(program) if program.is_empty()) {
                    return fail(line, "RUN has nothing to run");
                }
                self.step(placed, action);
            }
            Instruction::Copy(copy) => {
                let copy = self.copy(copy, &expansion, line)?;
                self.step(placed, Action::Copy(copy));
            }
        }
        let size = |values: &BTreeMap<String, String>| values.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        if size(&self.environment) + size(&self.arguments) > MAX_ENVIRONMENT {
            return fail(line, format!("the variables are larger than {MAX_ENVIRONMENT} bytes"));
        }
        Ok(())
    }

    fn argument(&mut self, name: &str, default: Option<&str>, line: usize) -> Result<(), DockerfileError> {
        let value = match (self.settings.given.get(name), default) {
            (Some(given), _) => Some(given.clone()),
            // Earlier arguments are already in effect.
            (None, Some(default)) => {
                let values = self.values();
                let expansion = Expansion { values: &values, escape: self.settings.escape };
                Some(expansion.word(default).or_else(|reason| fail(line, reason))?)
            }
            (None, None) => self.settings.global.get(name).cloned(),
        };
        if let Some(value) = value {
            self.arguments.insert(name.to_owned(), value);
        }
        Ok(())
    }

    fn program(&self, command: &Command) -> Vec<String> {
        match command {
            Command::Exec(list) => list.clone(),
            Command::Shell(text) | Command::Script(text) => {
                let mut program = self.defaults.shell.clone();
                if program.is_empty() {
                    program = vec!["/bin/sh".to_owned(), "-c".to_owned()];
                }
                program.push(text.clone());
                program
            }
        }
    }

    fn step(&mut self, placed: &Placed, action: Action) {
        let directory = if self.defaults.working_dir.is_empty() { "/" } else { &self.defaults.working_dir };
        self.steps.push(Step {
            line: placed.line,
            text: placed.text.clone(),
            action,
            environment: self.values(),
            user: self.defaults.user.clone(),
            directory: directory.to_owned(),
        });
    }

    /// Relative to the current directory, with `.` and `..` resolved; a trailing slash is kept.
    fn absolute(&self, path: &str, line: usize) -> Result<String, DockerfileError> {
        let joined =
            if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.defaults.working_dir) };
        if joined.len() > 4000 || joined.contains('\0') {
            return fail(line, "the path is too long");
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                _ => parts.push(part),
            }
        }
        // Names there can refer to other files.
        if parts.first().is_some_and(|first| matches!(*first, "proc" | "sys")) {
            return fail(line, "paths in /proc and /sys cannot be used here");
        }
        Ok(format!("/{}", parts.join("/")))
    }

    fn copy(&self, copy: &CopyInstruction, expansion: &Expansion<'_>, line: usize) -> Result<Copy, DockerfileError> {
        let word = |text: &str| expansion.word(text).or_else(|reason| fail(line, reason));
        let from = match &copy.from {
            None => CopyFrom::Context,
            Some(name) => {
                let global = Expansion { values: &self.settings.global, escape: self.settings.escape };
                let name = global.word(name).or_else(|reason| fail(line, reason))?;
                // A later stage with this name is not meant.
                match self.settings.places.get(&name.to_lowercase()).filter(|place| **place < self.place) {
                    Some(place) => CopyFrom::Stage(*place),
                    None => CopyFrom::Image(name),
                }
            }
        };
        let sources = copy.sources.iter().map(|source| word(source)).collect::<Result<Vec<_>, _>>()?;
        if sources.iter().any(|source| source.is_empty()) {
            return fail(line, "a source is empty: a variable may not be set");
        }
        let given = word(&copy.destination)?;
        if given.is_empty() {
            return fail(line, "the destination is empty: a variable may not be set");
        }
        let mut destination = self.absolute(&given, line)?;
        let is_directory = given.ends_with('/') || given.ends_with("/.") || given == ".";
        if is_directory && !destination.ends_with('/') {
            destination.push('/');
        }
        if !is_directory && sources.len() + copy.inline.len() > 1 {
            return fail(
                line,
                format!("with more than one source the destination must be a directory: write {given:.100}/"),
            );
        }
        let inline = |file: &super::instruction::InlineFile| -> Result<Inline, DockerfileError> {
            let content = match file.expands {
                true => expansion.text(&file.content).or_else(|reason| fail(line, reason))?,
                false => file.content.clone(),
            };
            Ok(Inline { name: file.name.clone(), content })
        };
        let mode = match &copy.chmod {
            None => None,
            Some(text) => {
                let text = word(text)?;
                match u32::from_str_radix(&text, 8) {
                    Ok(mode) if mode <= 0o7777 && !text.starts_with('+') => Some(mode),
                    _ => return fail(line, format!("--chmod={text:.40}: only numbers such as 755 are supported")),
                }
            }
        };
        Ok(Copy {
            from,
            sources,
            inline: copy.inline.iter().map(inline).collect::<Result<Vec<_>, _>>()?,
            destination,
            owner: copy.chown.as_deref().map(word).transpose()?.filter(|owner| !owner.is_empty()),
            mode,
            excludes: copy.excludes.iter().map(|text| word(text)).collect::<Result<Vec<_>, _>>()?,
            unpacks: copy.is_add,
        })
    }
}

fn as_copy(bind: &Bind) -> CopyInstruction {
    CopyInstruction {
        is_add: false,
        from: bind.from.clone(),
        chown: None,
        chmod: None,
        excludes: Vec::new(),
        sources: vec![bind.source.clone()],
        inline: Vec::new(),
        destination: bind.target.clone(),
    }
}

fn check_name(name: &str, line: usize) -> Result<(), DockerfileError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return fail(line, "ENV has a value without a name");
    }
    Ok(())
}

/// `80`, `80/tcp`, `8000-8010/udp`.
fn check_port(text: &str, line: usize) -> Result<String, DockerfileError> {
    let lower = text.to_lowercase();
    let (ports, protocol) = lower.split_once('/').unwrap_or((&lower, "tcp"));
    let fine = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    if !fine(first) || !fine(last) || !matches!(protocol, "tcp" | "udp" | "sctp") {
        return fail(line, format!("{text:.40} is not a port"));
    }
    Ok(format!("{ports}/{protocol}"))
}
