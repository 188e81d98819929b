//! Parses lines into instructions. Every error names the line and what to do about it.
//!
//! Why not `parse-dockerfile`: variables are expanded later, when arguments and base images are known, which needs the raw words with their
//! quotes, the escape character and the rules of each here-document; and every error must name the line, also within a continued
//! instruction, and what to do. The lines would have to be split again beside another parser's tree.

use super::instruction::{Bind, Command, CopyInstruction, InlineFile, Instruction, ParsedStage, Placed};
use super::lines::{self, Heredoc, Line, first_word, raw_words};
use super::{DockerfileError, Note, fail};

const MAX_STAGES: usize = 200;

/// A Dockerfile that is well-formed. What its words mean depends on arguments and base images: see
/// [`Dockerfile::plan`].
#[derive(Debug, Clone)]
pub struct Dockerfile {
    /// `ARG`s before the first `FROM`.
    pub(super) arguments: Vec<(usize, String, Option<String>)>,
    pub(super) stages: Vec<ParsedStage>,
    pub(super) escape: char,
    pub(super) notes: Vec<Note>,
}

impl Dockerfile {
    /// Reads a Dockerfile.
    pub fn parse(text: &str) -> Result<Self, DockerfileError> {
        let lines = lines::split(text)?;
        let mut file = Self { arguments: Vec::new(), stages: Vec::new(), escape: lines.escape, notes: Vec::new() };
        for line in &lines.lines {
            if line.keyword == "FROM" {
                if file.stages.len() >= MAX_STAGES {
                    return fail(line.number, format!("there are more than {MAX_STAGES} stages"));
                }
                let stage = from(line, lines.escape)?;
                if stage.name.is_some() && file.stages.iter().any(|known| known.name == stage.name) {
                    return fail(line.number, "a stage of this name is already there");
                }
                file.stages.push(stage);
                continue;
            }
            let instruction = instruction(line, lines.escape, &mut file.notes)?;
            match (file.stages.last_mut(), instruction) {
                (_, None) => {}
                (None, Some(Instruction::Arg(list))) => {
                    file.arguments.extend(list.into_iter().map(|(name, value)| (line.number, name, value)));
                }
                (None, Some(_)) => {
                    return fail(line.number, "the first instruction must be FROM (only ARG may come before)");
                }
                (Some(stage), Some(instruction)) => {
                    let text = format!("{} {}", line.keyword, line.rest).chars().take(2000).collect();
                    stage.instructions.push(Placed { line: line.number, text, instruction });
                }
            }
        }
        if file.stages.is_empty() {
            return fail(1, "there is no FROM: a Dockerfile begins with the image it is based on");
        }
        Ok(file)
    }

    /// What the author should know.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// An instruction out of an image's `ONBUILD`.
pub(super) fn trigger(text: &str, number: usize, notes: &mut Vec<Note>) -> Result<Option<Placed>, DockerfileError> {
    let lines = lines::split(text)?;
    let [line] = &lines.lines[..] else { return fail(number, "an ONBUILD of the base image is not one instruction") };
    let line = Line { number, ..line.clone() };
    if line.keyword == "FROM" {
        return fail(number, "an ONBUILD of the base image is FROM");
    }
    let text = format!("ONBUILD {} {}", line.keyword, line.rest).chars().take(2000).collect();
    Ok(instruction(&line, lines.escape, notes)?.map(|instruction| Placed { line: number, text, instruction }))
}

fn from(line: &Line, escape: char) -> Result<ParsedStage, DockerfileError> {
    let (flags, rest) = flags(line, escape)?;
    let mut platform = None;
    for (name, value) in flags {
        match &name[..] {
            "platform" => platform = value,
            _ => return fail(line.number, format!("FROM does not know --{name}")),
        }
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (image, name) = match &words[..] {
        [image] => (*image, None),
        [image, r#as, name] if r#as.eq_ignore_ascii_case("as") => (*image, Some(name.to_lowercase())),
        _ => return fail(line.number, "FROM is written as FROM image or FROM image AS name"),
    };
    if let Some(name) = &name {
        let fine = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'));
        if !fine || !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.len() > 100 {
            return fail(line.number, "the name of a stage has letters, digits, - _ . and begins with a letter");
        }
    }
    Ok(ParsedStage { line: line.number, image: image.to_owned(), platform, name, instructions: Vec::new() })
}

fn instruction(line: &Line, escape: char, notes: &mut Vec<Note>) -> Result<Option<Instruction>, DockerfileError> {
    let number = line.number;
    let mut note = |text: &str| notes.push(Note { line: number, text: text.to_owned() });
    let need = || {
        if line.rest.is_empty() {
            fail(number, format!("{} has nothing behind it", line.keyword))
        } else {
            Ok(line.rest.clone())
        }
    };
    Ok(Some(match &line.keyword[..] {
        "ARG" => Instruction::Arg(arguments(&need()?, number, escape)?),
        "CMD" => Instruction::Cmd(command(&line.rest, number)?),
        "ENTRYPOINT" => Instruction::Entrypoint(command(&line.rest, number)?),
        "ENV" => Instruction::Env(pairs(&need()?, number, "ENV", escape)?),
        "LABEL" => Instruction::Label(pairs(&need()?, number, "LABEL", escape)?),
        "EXPOSE" => Instruction::Expose(need()?),
        "USER" => {
            let user = need()?;
            if user.contains(char::is_whitespace) && !user.contains(['$', '"', '\'']) {
                return fail(number, "USER is written as user or user:group");
            }
            Instruction::User(user)
        }
        "WORKDIR" => Instruction::Workdir(need()?),
        "COPY" => Instruction::Copy(copy(line, escape, notes, false)?),
        "ADD" => Instruction::Copy(copy(line, escape, notes, true)?),
        "RUN" => {
            let (command, binds) = run(line, escape, notes)?;
            Instruction::Run(command, binds)
        }
        "SHELL" => match command(&need()?, number)? {
            Command::Exec(shell) if !shell.is_empty() => Instruction::Shell(shell),
            _ => return fail(number, "SHELL is written as a list: SHELL [\"/bin/bash\", \"-c\"]"),
        },
        "HEALTHCHECK" => Instruction::Healthcheck(healthcheck(line, escape, notes)?),
        "STOPSIGNAL" => {
            note("STOPSIGNAL is not used: a sandbox is ended as a whole");
            return Ok(None);
        }
        "VOLUME" => {
            note("VOLUME is not used: the directory is a part of the template like others");
            return Ok(None);
        }
        "MAINTAINER" => {
            note("MAINTAINER is not used: write LABEL");
            return Ok(None);
        }
        "ONBUILD" => {
            note("ONBUILD is not used: a template has no instructions for others");
            return Ok(None);
        }
        other => {
            let known: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
            return fail(number, format!("{known} is not an instruction"));
        }
    }))
}

type Flag = (String, Option<String>);

/// `--name=value` before the words, and the words.
fn flags(line: &Line, escape: char) -> Result<(Vec<Flag>, String), DockerfileError> {
    let mut flags = Vec::new();
    let mut rest = line.rest.trim_start();
    while let Some(after) = rest.strip_prefix("--") {
        let (word, behind) = first_word(rest, escape);
        rest = behind.trim_start();
        if after.starts_with(char::is_whitespace) || after.is_empty() {
            break;
        }
        let (name, value) = match word[2..].split_once('=') {
            Some((name, value)) => (name, Some(value.trim_matches('"').to_owned())),
            None => (&word[2..], None),
        };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') {
            return fail(line.number, format!("{} is not an option", word.chars().take(60).collect::<String>()));
        }
        flags.push((name.to_owned(), value));
        if flags.len() > 100 {
            return fail(line.number, "there are too many options");
        }
    }
    Ok((flags, rest.to_owned()))
}

/// A list in JSON is a program with arguments, everything else a line for the shell.
fn command(text: &str, number: usize) -> Result<Command, DockerfileError> {
    if text.starts_with('[') {
        match serde_json::from_str::<Vec<String>>(text) {
            Ok(list) => return Ok(Command::Exec(list)),
            // `[ -f x ] && …` is a line for the shell; a list that is almost one is a mistake.
            Err(_) if text.starts_with("[\"") && text.trim_end().ends_with(']') => {
                return fail(number, "the list is not valid JSON (strings in double quotes, commas between)");
            }
            Err(_) => {}
        }
    }
    Ok(Command::Shell(text.to_owned()))
}

/// When a template is ready. How often and how long it is asked is not the template's affair.
fn healthcheck(line: &Line, escape: char, notes: &mut Vec<Note>) -> Result<Option<Command>, DockerfileError> {
    let number = line.number;
    let (flags, rest) = flags(line, escape)?;
    for (name, _) in flags {
        match &name[..] {
            "interval" | "timeout" | "start-period" | "start-interval" | "retries" => {
                notes.push(Note { line: number, text: format!("HEALTHCHECK --{name} is not used") });
            }
            other => return fail(number, format!("HEALTHCHECK has no option --{other:.40}")),
        }
    }
    let rest = rest.trim();
    let (kind, test) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match (kind.to_ascii_uppercase().as_str(), test.trim()) {
        ("NONE", "") => Ok(None),
        ("CMD", test) if !test.is_empty() => command(test, number).map(Some),
        _ => fail(number, "HEALTHCHECK is written as HEALTHCHECK CMD command, or HEALTHCHECK NONE"),
    }
}

fn run(line: &Line, escape: char, notes: &mut Vec<Note>) -> Result<(Command, Vec<Bind>), DockerfileError> {
    let number = line.number;
    let (flags, rest) = flags(line, escape)?;
    let mut binds = Vec::new();
    for (name, value) in flags {
        let value = value.unwrap_or_default();
        match (&name[..], &value[..]) {
            ("mount", options) => binds.extend(mount(options, number, notes)?),
            ("network", "default") | ("security", "sandbox") => {}
            ("network" | "security", other) => {
                return fail(
                    number,
                    format!("RUN --{name}={other:.40} is not supported: steps have the network of a sandbox"),
                );
            }
            _ => return fail(number, format!("RUN does not know --{name}")),
        }
    }
    if rest.is_empty() {
        return fail(number, "RUN has nothing behind it");
    }
    let command = match &line.heredocs[..] {
        [doc] => script(&rest, doc, escape),
        docs => {
            let mut text = rest;
            for doc in docs {
                text = format!("{text}\n{}", doc.raw.trim_end_matches('\n'));
            }
            command(&text, number)?
        }
    };
    Ok((command, binds))
}

fn script(rest: &str, doc: &Heredoc, escape: char) -> Command {
    // A heredoc alone is the script itself; with a command before it, it is the command's input.
    if raw_words(rest, escape).len() == 1 {
        let content = doc.content.clone();
        return if content.starts_with("#!") { Command::Script(content) } else { Command::Shell(content) };
    }
    Command::Shell(format!("{rest}\n{}", doc.raw))
}

fn mount(options: &str, number: usize, notes: &mut Vec<Note>) -> Result<Option<Bind>, DockerfileError> {
    let kind = options.split(',').find_map(|option| option.trim().strip_prefix("type=")).unwrap_or("bind");
    match kind {
        "cache" | "tmpfs" => {
            let text =
                format!("RUN --mount=type={kind} is not used: the directory is a part of the template like others");
            notes.push(Note { line: number, text });
            Ok(None)
        }
        "secret" | "ssh" => fail(
            number,
            format!(
                "RUN --mount=type={kind} is not supported: what a step sees can end up in the template; fetch it at run time"
            ),
        ),
        "bind" => {
            let option = |names: &[&str]| {
                options
                    .split(',')
                    .filter_map(|option| option.trim().split_once('='))
                    .find(|(name, _)| names.contains(name))
            };
            let Some((_, target)) = option(&["target", "dst", "destination"]).filter(|(_, target)| !target.is_empty())
            else {
                return fail(number, "RUN --mount=type=bind needs target=…");
            };
            let source = option(&["source", "src"]).map_or(".", |(_, source)| source);
            let from = option(&["from"]).map(|(_, from)| from.to_owned());
            let text = "RUN --mount=type=bind is done like COPY before it: the files stay in the template".to_owned();
            notes.push(Note { line: number, text });
            Ok(Some(Bind { from, source: source.to_owned(), target: target.to_owned() }))
        }
        other => fail(number, format!("RUN --mount=type={other:.40} is not supported")),
    }
}

fn copy(line: &Line, escape: char, notes: &mut Vec<Note>, is_add: bool) -> Result<CopyInstruction, DockerfileError> {
    let (number, keyword) = (line.number, &line.keyword);
    let (flags, rest) = flags(line, escape)?;
    let mut copy = CopyInstruction {
        is_add,
        from: None,
        chown: None,
        chmod: None,
        excludes: Vec::new(),
        sources: Vec::new(),
        inline: Vec::new(),
        destination: String::new(),
    };
    for (name, value) in flags {
        match (&name[..], value) {
            ("from", Some(value)) if !is_add => copy.from = Some(value),
            ("chown", Some(value)) => copy.chown = Some(value),
            ("chmod", Some(value)) => copy.chmod = Some(value),
            ("exclude", Some(value)) => copy.excludes.push(value),
            // It is about how layers are kept, which we do not do.
            ("link", _) => {}
            ("parents" | "keep-git-dir" | "checksum" | "unpack", _) => {
                return fail(number, format!("{keyword} --{name} is not supported"));
            }
            ("from" | "chown" | "chmod" | "exclude", None) => {
                return fail(number, format!("--{name} needs a value: --{name}=…"));
            }
            _ => return fail(number, format!("{keyword} does not know --{name}")),
        }
    }
    let mut words = match command(&rest, number)? {
        Command::Exec(list) => list,
        Command::Shell(text) | Command::Script(text) => raw_words(&text, escape),
    };
    let Some(destination) = words.pop() else { return fail(number, format!("{keyword} needs what and where to")) };
    copy.destination = destination;
    let mut docs = line.heredocs.iter();
    for word in words {
        let is_heredoc = word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("<<");
        match docs.as_slice().first().filter(|_| is_heredoc) {
            Some(doc) => {
                copy.inline.push(InlineFile {
                    name: doc.name.clone(),
                    content: doc.content.clone(),
                    expands: doc.expands,
                });
                docs.next();
            }
            None => copy.sources.push(word),
        }
    }
    if copy.sources.is_empty() && copy.inline.is_empty() {
        return fail(number, format!("{keyword} needs what and where to"));
    }
    if copy.from.is_some() && !copy.inline.is_empty() {
        return fail(number, "COPY --from and a heredoc do not go together");
    }
    for source in &copy.sources {
        if is_add && (source.contains("://") || source.starts_with("git@")) {
            return fail(
                number,
                format!("ADD {source:.100} is not supported: fetch it with RUN curl or RUN git clone"),
            );
        }
    }
    if is_add && copy.chown.is_none() && copy.sources.iter().any(|source| source.ends_with(".zip")) {
        notes.push(Note { line: number, text: "ADD does not unpack zip files".to_owned() });
    }
    Ok(copy)
}

fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn arguments(text: &str, number: usize, escape: char) -> Result<Vec<(String, Option<String>)>, DockerfileError> {
    let mut list = Vec::new();
    for word in raw_words(text, escape) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        if !is_variable(&name) {
            return fail(number, format!("{name:.60} is not the name of an argument"));
        }
        list.push((name, value));
    }
    Ok(list)
}

/// `a=b c="d e"`, or the old form `a the rest`.
fn pairs(text: &str, number: usize, keyword: &str, escape: char) -> Result<Vec<(String, String)>, DockerfileError> {
    let words = raw_words(text, escape);
    let first = words.first().map(String::as_str).unwrap_or_default();
    if !first.contains('=') {
        let Some((name, value)) = text.split_once(char::is_whitespace) else {
            return fail(number, format!("{keyword} {first:.60} has no value: write {keyword} {first:.60}=value"));
        };
        return Ok(vec![(name.to_owned(), value.trim().to_owned())]);
    }
    let mut list = Vec::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return fail(number, format!("{word:.60} has no value: put quotes around values with spaces"));
        };
        if name.is_empty() {
            return fail(number, format!("{keyword} has a value without a name"));
        }
        list.push((name.to_owned(), value.to_owned()));
    }
    Ok(list)
}
