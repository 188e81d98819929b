//! Translates E2B's list of steps into the steps of Dockerfiles, each with the environment, user and directory in effect.

use std::collections::BTreeMap;

use cabana_image::dockerfile::{Action, Copy, CopyFrom, Step};
use cabana_store::Boot;
use cabana_types::wire::TemplateStep;

use super::failure::Failure;

/// One step and the archive that it copies from.
#[derive(Debug)]
pub(super) struct TranslatedStep {
    /// What to do.
    pub(super) step: Step,
    /// The uploaded archive that it copies from.
    pub(super) files: Option<String>,
    /// Whether to ignore the cache.
    pub(super) force: bool,
    /// Its number in the client's list, from 1.
    pub(super) number: String,
}

/// The default user of steps and sandboxes.
pub(super) const USER: &str = "user";

/// Adds what sandboxes need to an image: the user, and directories that everyone may write to.
pub(super) const PREPARE: &str = "\
set -e
if ! grep -q '^user:' /etc/passwd 2>/dev/null; then
    shell=/bin/sh
    if [ -x /bin/bash ]; then shell=/bin/bash; fi
    if command -v useradd >/dev/null; then useradd --create-home --shell $shell user
    elif command -v adduser >/dev/null; then adduser -D -s $shell user
    else
        mkdir -p /etc /home/user
        echo user:x:1000:1000::/home/user:$shell >>/etc/passwd
        echo user:x:1000: >>/etc/group
        chown -R 1000:1000 /home/user
    fi
fi
if [ -d /etc/sudoers.d ] && [ ! -e /etc/sudoers.d/user ]; then
    echo 'user ALL=(ALL:ALL) NOPASSWD:ALL' >/etc/sudoers.d/user
    chmod 440 /etc/sudoers.d/user
fi
mkdir -p /home/user /code /usr/local
chmod 777 /code /usr/local
";

/// Creates a user that an image lacks.
fn make_user(name: &str) -> String {
    format!(
        "id {name} >/dev/null 2>&1 || if command -v useradd >/dev/null; then useradd --create-home {name}; \
         else adduser -D {name}; fi"
    )
}

/// Returns all steps, and the boot configuration of the result.
pub(super) fn translate(boot: &Boot, steps: &[TemplateStep]) -> Result<(Vec<TranslatedStep>, Boot), Failure> {
    let mut state = State { boot: boot.clone(), translated: Vec::new() };
    for (index, step) in steps.iter().enumerate() {
        let number = (index + 1).to_string();
        state.take(step, &number).map_err(|message| Failure::new(&number, message))?;
    }
    Ok((state.translated, state.boot))
}

/// A command for a shell, as E2B runs all of them.
pub(super) fn shell(command: &str) -> Vec<String> {
    ["/bin/bash", "-l", "-c", command].map(str::to_owned).to_vec()
}

struct State {
    boot: Boot,
    translated: Vec<TranslatedStep>,
}

impl State {
    fn take(&mut self, step: &TemplateStep, number: &str) -> Result<(), String> {
        let argument = |at: usize| step.args.get(at).map(String::as_str).filter(|text| !text.is_empty());
        let need = |at: usize| argument(at).ok_or_else(|| format!("{} has nothing to work on", step.kind));
        let mut text = format!("{} {}", step.kind, step.args.join(" "));
        let (action, user) = match step.kind.as_str() {
            "RUN" => {
                let command = need(0)?;
                text = format!("RUN {command}");
                (Action::Run(shell(command)), argument(1).map(str::to_owned))
            }
            "COPY" => {
                let (source, destination) = (need(0)?, need(1)?);
                let path = fixed_part(source)?;
                let mut to = self.absolute(destination)?;
                if destination.ends_with('/') || destination == "." {
                    to.push('/');
                }
                let mode = match argument(3) {
                    None => None,
                    Some(mode) => Some(
                        u32::from_str_radix(mode.trim_start_matches("0o"), 8)
                            .ok()
                            .filter(|mode| *mode <= 0o7777)
                            .ok_or_else(|| format!("{mode:?} is not a mode: write it like 755"))?,
                    ),
                };
                text = format!("COPY {source} {destination}");
                let copy = Copy {
                    from: CopyFrom::Context,
                    sources: vec![path],
                    inline: Vec::new(),
                    destination: to,
                    owner: Some(argument(2).unwrap_or(&self.boot.default_user).to_owned()),
                    mode,
                    excludes: Vec::new(),
                    unpacks: false,
                };
                (Action::Copy(copy), None)
            }
            "ENV" => {
                for pair in step.args.chunks(2) {
                    let [name, value] = pair else { return Err("ENV has a name without a value".to_owned()) };
                    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                        return Err(format!("{name:?} is not the name of a variable"));
                    }
                    let value = expand(value, &self.values());
                    self.boot.env.insert(name.clone(), value);
                }
                return Ok(());
            }
            "WORKDIR" => {
                self.boot.default_workdir = Some(self.absolute(need(0)?)?);
                (Action::MakeDirectory, None)
            }
            "USER" => {
                let name = need(0)?;
                let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
                if name.len() > 32 || !name.bytes().all(plain) || name.starts_with('-') {
                    return Err(format!("{:?} is not the name of a user", super::failure::short(name)));
                }
                self.boot.default_user = name.to_owned();
                if name.bytes().all(|b| b.is_ascii_digit()) || name == "root" {
                    return Ok(());
                }
                (Action::Run(["/bin/sh", "-c", &make_user(name)].map(str::to_owned).to_vec()), Some("root".to_owned()))
            }
            other => {
                let other = super::failure::short(other);
                return Err(format!("{other:?} is not a step: there are RUN, COPY, ENV, WORKDIR and USER"));
            }
        };
        let files = step.files_hash.clone();
        if matches!(action, Action::Copy(_)) && files.is_none() {
            return Err("COPY has no files: upload them first, and give their filesHash".to_owned());
        }
        let force = step.force;
        let step = Step {
            line: 0,
            text,
            action,
            environment: self.boot.env.clone(),
            user: user.unwrap_or_else(|| self.boot.default_user.clone()),
            directory: self.directory(),
        };
        self.translated.push(TranslatedStep { step, files, force, number: number.to_owned() });
        Ok(())
    }

    fn directory(&self) -> String {
        self.boot.default_workdir.clone().unwrap_or_else(|| self.home())
    }

    fn home(&self) -> String {
        match self.boot.default_user.as_str() {
            "root" => "/root".to_owned(),
            user => format!("/home/{user}"),
        }
    }

    /// Values of variables.
    fn values(&self) -> BTreeMap<String, String> {
        let mut values = BTreeMap::from([
            ("HOME".to_owned(), self.home()),
            ("USER".to_owned(), self.boot.default_user.clone()),
            ("PWD".to_owned(), self.directory()),
        ]);
        values.extend(self.boot.env.clone());
        values
    }

    /// Resolves a path against the current directory and removes `.` and `..`.
    fn absolute(&self, path: &str) -> Result<String, String> {
        let path = expand(path, &self.values());
        let joined = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", self.home()),
            _ if path.starts_with('/') => path,
            _ => format!("{}/{path}", self.directory()),
        };
        if joined.len() > 4000 || joined.contains('\0') {
            return Err("the path is too long".to_owned());
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                _ => parts.push(part),
            }
        }
        if parts.first().is_some_and(|first| matches!(*first, "proc" | "sys" | "dev")) {
            return Err("paths in /proc, /sys and /dev cannot be used here".to_owned());
        }
        Ok(format!("/{}", parts.join("/")))
    }
}

/// The path in the uploaded archive that a source stands for. The client has put into the archive only what a pattern
/// matches, so the directory before the first wildcard is copied as it is, with the directories below it.
fn fixed_part(source: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in source.split('/') {
        if has_wildcard(part) {
            break;
        }
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| format!("{:?} is outside of the files", super::failure::short(source)))?;
            }
            _ => parts.push(part),
        }
    }
    Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

/// Whether part of a path has a wildcard of E2B's SDKs. A backslash escapes one.
fn has_wildcard(part: &str) -> bool {
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '*' | '?' | '[' | '{' => return true,
            _ => {}
        }
    }
    false
}

/// Expands `$NAME` and `${NAME}` of known variables; a backslash escapes the dollar sign.
fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        if let Some(kept) = before.strip_suffix('\\') {
            out.push_str(kept);
            out.push('$');
            rest = after;
            continue;
        }
        out.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, behind)) if name.chars().all(is_name) => (name, behind),
            _ => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
        };
        if name.is_empty() {
            out.push('$');
            rest = after;
            continue;
        }
        out.push_str(values.get(name).map_or("", String::as_str));
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(kind: &str, args: &[&str]) -> TemplateStep {
        TemplateStep {
            kind: kind.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            force: false,
            files_hash: (kind == "COPY").then(|| "hash".into()),
            force_upload: None,
        }
    }

    fn translated(steps: &[TemplateStep]) -> (Vec<TranslatedStep>, Boot) {
        translate(&Boot::default(), steps).unwrap()
    }

    #[test]
    fn environment_user_and_directory_carry_over() {
        let (steps, boot) = translated(&[
            step("ENV", &["A", "1", "B", "$A-${A}\\$A$"]),
            step("WORKDIR", &["app"]),
            step("RUN", &["make", ""]),
            step("USER", &["bob"]),
            step("RUN", &["x", "root"]),
            step("COPY", &["src", "./in/", "", "0755"]),
            step("WORKDIR", &["/srv/../opt"]),
        ]);
        assert_eq!(boot.env["B"], "1-1$A$");
        assert_eq!((boot.default_user.as_str(), boot.default_workdir.as_deref()), ("bob", Some("/opt")));
        let seen: Vec<_> =
            steps.iter().map(|p| (p.number.as_str(), p.step.user.as_str(), p.step.directory.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("2", "user", "/home/user/app"),
                ("3", "user", "/home/user/app"),
                ("4", "root", "/home/user/app"),
                ("5", "root", "/home/user/app"),
                ("6", "bob", "/home/user/app"),
                ("7", "bob", "/opt"),
            ]
        );
        let Action::Copy(copy) = &steps[4].step.action else { panic!("{:?}", steps[4]) };
        assert_eq!(
            (copy.destination.as_str(), copy.owner.as_deref(), copy.mode),
            ("/home/user/app/in/", Some("bob"), Some(0o755))
        );
        assert_eq!(steps[1].step.action, Action::Run(shell("make")));
    }

    #[test]
    fn a_pattern_stands_for_the_directory_before_it() {
        for (source, path) in [
            ("src", "src"),
            ("./src/", "src"),
            ("src/*", "src"),
            ("src/**/*.ts", "src"),
            ("a/b/*/c/*.txt", "a/b"),
            ("*.txt", "."),
            ("**", "."),
            ("src/[ab].{ts,tsx}", "src"),
            ("src/file?.txt", "src"),
            ("a/../b", "b"),
            ("a/../*", "."),
            (r"a\*b/c", r"a\*b/c"),
            (r"\[x\]/*", r"\[x\]"),
        ] {
            assert_eq!(fixed_part(source).as_deref(), Ok(path), "{source}");
        }
        for outside in ["..", "../a", "a/../../b", "../*"] {
            assert!(fixed_part(outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn unsupported_steps_are_refused_with_their_number() {
        for wrong in [
            step("RUN", &[]),
            step("FETCH", &["x"]),
            step("ENV", &["A"]),
            step("ENV", &["", "x"]),
            step("USER", &["a b"]),
            step("USER", &["-x"]),
            step("COPY", &["a", "b", "", "999"]),
            step("COPY", &["../a", "b"]),
            step("WORKDIR", &["/proc/self"]),
            TemplateStep { files_hash: None, ..step("COPY", &["a", "b"]) },
        ] {
            let failure = translate(&Boot::default(), &[step("RUN", &["true"]), wrong.clone()]).unwrap_err();
            assert_eq!(failure.step, "2", "{wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,60}") {
            let _ = expand(&text, &BTreeMap::from([("A".to_owned(), "1".to_owned())]));
            let _ = translate(&Boot::default(), &[step("WORKDIR", &[&text]), step("COPY", &[&text, &text]), step("USER", &[&text])]);
        }
    }
}
