//! Loads the configuration: defaults < file < environment < flags. Later sources win, setting by setting.

mod keys;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use cabana_types::env;
use toml::{Table, Value};

use self::keys::{check_type, read_keys, shown};
use super::{Config, ConfigError, DEFAULT_FILE, DEFAULTS};

/// Settings that are tables with names chosen by the operator. They can only be set in a file, and are added to the defaults.
const TABLES: [&str; 5] = ["images.aliases", "images.hosts", keys::PROVIDERS, "models.prices", "models.windows"];

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The compiled-in defaults.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(Cow<'static, str>),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Variable(name) => f.write_str(name),
            Source::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// A configuration with the source of each value.
#[derive(Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    settings: Settings,
}

// By hand: the settings are raw values, secrets among them.
impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            |(name, (value, source)): (&String, &(Value, Source))| format!("{}  # {source}", shown(name, value));
        f.debug_list().entries(self.settings.iter().map(shown)).finish()
    }
}

type Settings = BTreeMap<String, (Value, Source)>;

impl Loaded {
    /// Reads every source. `file` is the flag `--config`; `variable` reads the environment; `flags` are `(setting,
    /// value)` with the setting's dotted name (`listen`, `limits.max_sandboxes`).
    pub fn read(
        file: Option<&Path>,
        variable: impl Fn(&str) -> Option<String>,
        flags: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let mut settings = Settings::new();
        let defaults = parse(DEFAULTS, &Source::Default)?;
        flatten("", defaults, &Source::Default, &mut settings);

        let named = file.map(Path::to_owned).or_else(|| variable(env::CONFIG).map(PathBuf::from));
        if let Some((path, text)) = read_file(named)? {
            let source = Source::File(path);
            let mut from_file = Settings::new();
            flatten("", parse(&text, &source)?, &source, &mut from_file);
            for (name, value) in from_file {
                overlay(&mut settings, &name, value.0, &source)?;
            }
            typed(&settings, &source)?;
        }
        read_keys(&mut settings, &variable);
        for (variable_name, setting) in variables() {
            if let Some(text) = variable(variable_name) {
                let source = Source::Variable(variable_name.into());
                let value = parse_like(&settings, &setting, &text, &source)?;
                overlay(&mut settings, &setting, value, &source)?;
                typed(&settings, &source)?;
            }
        }
        for (setting, text) in flags {
            let source = Source::Flag(setting.replace('_', "-"));
            let value = parse_like(&settings, setting, text, &source)?;
            overlay(&mut settings, setting, value, &source)?;
            typed(&settings, &source)?;
        }
        let config = typed(&settings, &Source::Default)?;
        config.check().map_err(|(setting, message)| {
            let origin = settings.get(setting).map_or(Source::Default, |(_, source)| source.clone());
            ConfigError::Invalid { origin, message: format!("{setting}: {message}") }
        })?;
        Ok(Self { config, settings })
    }

    /// Every setting with its value and source, one per line.
    pub fn describe(&self) -> String {
        let lines: Vec<(String, &Source)> =
            self.settings.iter().map(|(name, (value, source))| (shown(name, value), source)).collect();
        let width = lines.iter().map(|(text, _)| text.chars().count()).max().unwrap_or_default();
        lines.iter().map(|(text, source)| format!("{text:width$}  # {source}\n")).collect()
    }
}

/// The environment variable of each setting, with the setting's name. `defaults.toml` defines it: the last word of the comment above the
/// setting.
fn variables() -> Vec<(&'static str, String)> {
    let (mut section, mut variable, mut all) = ("", None, vec![]);
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if line.starts_with('#') {
            variable = line.split_whitespace().next_back().filter(|word| word.starts_with("CABANA_"));
        } else if let (Some((name, _)), Some(variable)) = (line.split_once(" = "), variable.take()) {
            all.push((variable, if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }));
        }
    }
    all
}

fn parse(text: &str, source: &Source) -> Result<Table, ConfigError> {
    text.parse().map_err(|e: toml::de::Error| {
        // The error's own text contains the line, which may hold a secret.
        let line = e.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        ConfigError::Invalid { origin: source.clone(), message: format!("{place}{}", e.message()) }
    })
}

/// A file named by the operator must exist; the default one may be missing.
fn read_file(named: Option<PathBuf>) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let (path, must_exist) = match named {
        Some(path) => (path, true),
        None => (PathBuf::from(DEFAULT_FILE), false),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(None),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

fn flatten(prefix: &str, table: Table, source: &Source, into: &mut Settings) {
    for (name, value) in table {
        let full = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) if !TABLES.contains(&full.as_str()) => flatten(&full, inner, source, into),
            value => {
                into.insert(full, (value, source.clone()));
            }
        }
    }
}

/// Sets a setting that exists in the defaults.
fn overlay(settings: &mut Settings, name: &str, value: Value, source: &Source) -> Result<(), ConfigError> {
    check_type(name, &value, source)?;
    match settings.get_mut(name) {
        Some((Value::Table(before), from)) if value.is_table() => {
            before.extend(value.as_table().cloned().unwrap_or_default());
            *from = source.clone();
            Ok(())
        }
        Some(slot) => {
            *slot = (value, source.clone());
            Ok(())
        }
        None => {
            let known: Vec<&str> = settings.keys().map(String::as_str).collect();
            Err(ConfigError::Invalid {
                origin: source.clone(),
                message: format!("there is no setting {name:?}; there are {}", known.join(", ")),
            })
        }
    }
}

/// Parses a text as a value of the type that the setting has.
fn parse_like(settings: &Settings, name: &str, text: &str, source: &Source) -> Result<Value, ConfigError> {
    let wrong = |expected: &str| ConfigError::Invalid {
        origin: source.clone(),
        message: format!("{name}: expected {expected}, not {text:?}"),
    };
    match settings.get(name).map(|(value, _)| value) {
        Some(Value::Integer(_)) => text.trim().parse().map(Value::Integer).map_err(|_| wrong("a number")),
        Some(Value::Boolean(_)) => match text.trim() {
            "1" | "true" | "yes" => Ok(Value::Boolean(true)),
            "" | "0" | "false" | "no" => Ok(Value::Boolean(false)),
            _ => Err(wrong("true or false")),
        },
        Some(Value::Array(_)) => Ok(Value::Array(
            text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| Value::String(t.into())).collect(),
        )),
        _ => Ok(Value::String(text.into())),
    }
}

/// The settings as a typed configuration. `source` was added last, so an error is attributed to it.
fn typed(settings: &Settings, source: &Source) -> Result<Config, ConfigError> {
    let mut root = Table::new();
    for (name, (value, _)) in settings {
        let (path, last) = name.rsplit_once('.').map_or((None, name.as_str()), |(path, last)| (Some(path), last));
        let table = match path {
            None => &mut root,
            // The defaults have one level of tables, and other names are rejected before.
            Some(path) => match root.entry(path).or_insert_with(|| Value::Table(Table::new())) {
                Value::Table(table) => table,
                _ => continue,
            },
        };
        table.insert(last.into(), value.clone());
    }
    Config::deserialize(root)
        .map_err(|e| ConfigError::Invalid { origin: source.clone(), message: e.to_string().trim().replace('\n', " ") })
}

use serde::Deserialize as _;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PoolKind;

    pub(super) fn read(
        file: Option<&str>,
        variables: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> Result<Loaded, ConfigError> {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("config.toml");
        std::fs::write(&path, file.unwrap_or_default()).expect("write");
        let flags: Vec<_> = flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Loaded::read(
            Some(&path),
            |name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()),
            &flags,
        )
    }

    pub(super) fn complaint(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
        read(Some(file), variables, flags).expect_err("refused").to_string()
    }

    #[test]
    fn zero_configuration_works() {
        let loaded = read(None, &[], &[]).expect("defaults");
        assert_eq!(loaded.config.listen.to_string(), "127.0.0.1:3000");
        assert_eq!(loaded.config.domain(), None);
        assert_eq!(loaded.config.pool.kind, PoolKind::Auto);
    }

    #[test]
    fn every_setting_has_a_variable() {
        let loaded = read(None, &[], &[]).expect("defaults");
        for name in loaded.settings.keys() {
            let known = variables().iter().any(|(_, setting)| setting == name) || TABLES.contains(&name.as_str());
            assert!(known, "{name} has no variable");
        }
        for (variable, setting) in variables() {
            assert!(loaded.settings.contains_key(&setting), "{variable} sets {setting}, which is not there");
            let uses = variables().iter().filter(|(other, _)| *other == variable).count();
            assert_eq!(uses, 1, "{variable} sets several settings");
        }
        for (variable, setting) in [
            (env::DATA_DIR, "data_dir"),
            (env::TLS_MODE, "tls.mode"),
            ("CABANA_MAX_SANDBOXES", "limits.max_sandboxes"),
            ("CABANA_FAILED_HOURS", "retention.failed_hours"),
        ] {
            assert!(variables().contains(&(variable, setting.to_owned())), "{variable}");
        }
    }

    #[test]
    fn later_layers_win_and_are_named() {
        let file = "domain = \"a.test\"\n[limits]\nmax_sandboxes = 5\ncpu_count = 1\n";
        let loaded = read(
            Some(file),
            &[("CABANA_DOMAIN", "b.test"), ("CABANA_CPU_COUNT", "3"), ("CABANA_RESOLVERS", "1.1.1.1, 9.9.9.9")],
            &[("limits.cpu_count", "4")],
        )
        .expect("valid");
        let limits = &loaded.config.limits;
        assert_eq!((limits.max_sandboxes, limits.cpu_count, limits.memory_mb), (5, 4, 1024));
        assert_eq!(loaded.config.domain().as_deref(), Some("b.test"));
        assert_eq!(loaded.config.network.resolvers.len(), 2);
        let text = loaded.describe();
        let line = |name: &str| text.lines().find(|l| l.starts_with(name)).expect("line").to_owned();
        assert!(line("domain").ends_with("# CABANA_DOMAIN"));
        assert!(line("limits.cpu_count").ends_with("# --limits.cpu-count"));
        assert!(line("limits.max_sandboxes").ends_with("config.toml"));
        assert!(line("limits.memory_mb").ends_with("# default"));
    }

    #[test]
    fn tables_of_the_operators_own_names_are_added_to() {
        let file = concat!(
            "[images.aliases]\n\"corp/tools\" = \"tools\"\n[images.hosts.\"registry.lan:5000\"]\n",
            "plain_http = true\ninternal = true\n"
        );
        let images = read(Some(file), &[], &[]).expect("valid").config.images;
        assert_eq!(images.aliases["corp/tools"], "tools");
        assert_eq!(images.aliases["e2bdev/base"], "base", "the defaults stay");
        assert!(images.hosts["registry.lan:5000"].internal);
        assert!(complaint("[images.hosts.\"a b\"]\ninternal = true", &[], &[]).contains("images"));
        assert!(complaint("[images.hosts.\"x\"]\nproxy = 1", &[], &[]).contains("config.toml"));
    }

    #[test]
    fn mistakes_name_their_place() {
        assert!(complaint("lissten = \"x\"", &[], &[]).contains("there is no setting \"lissten\""));
        assert!(complaint("[limits]\nmax_sandboxes = \"many\"", &[], &[]).contains("config.toml"));
        assert!(complaint("listen = \"here\"", &[], &[]).contains("config.toml"));
        assert!(complaint("listen = [", &[], &[]).contains("config.toml: line 1: "));
        assert!(complaint("# fine\n\nlisten", &[], &[]).contains("config.toml: line 3: "));
        let text = complaint("", &[("CABANA_MAX_SANDBOXES", "lots")], &[]);
        assert_eq!(text, "CABANA_MAX_SANDBOXES: limits.max_sandboxes: expected a number, not \"lots\"");
        let text = complaint("", &[("CABANA_MAX_SANDBOXES", "0")], &[]);
        assert_eq!(text, "CABANA_MAX_SANDBOXES: limits.max_sandboxes: must be between 1 and 100000, not 0");
        assert!(complaint("", &[], &[("pool.kind", "tape")]).contains("--pool.kind"));
    }

    #[test]
    fn listening_beyond_loopback_must_be_meant() {
        let text = complaint("", &[], &[("listen", "0.0.0.0:3000")]);
        assert!(text.starts_with("--listen: listen: 0.0.0.0:3000 can be reached from other machines"), "{text}");
        assert!(text.contains("allow_insecure_listen = true"), "{text}");
        assert!(read(Some("allow_insecure_listen = true"), &[], &[("listen", "0.0.0.0:3000")]).is_ok());
        assert!(read(None, &[], &[("listen", "[::1]:3000")]).is_ok());
        assert!(read(Some("[tls]\nmode = \"internal\""), &[], &[("listen", "0.0.0.0:3000")]).is_ok());
    }

    #[test]
    fn encryption_needs_its_files_and_a_domain() {
        assert!(complaint("[tls]\nmode = \"on\"", &[], &[]).contains("config.toml"));
        assert!(complaint("[tls]\nmode = \"files\"\nkey = \"/k\"", &[], &[]).contains("tls.certificate"));
        let files = "[tls]\nmode = \"files\"\ncertificate = \"/c\"\nkey = \"/k\"";
        assert!(complaint(files, &[], &[]).contains("domain"));
        assert!(read(Some(files), &[("CABANA_DOMAIN", "e2b.test")], &[]).is_ok());
    }

    #[test]
    fn clients_are_told_the_port_of_the_domain() {
        let public = |domain: &str, mode: &str, port: u16| {
            let loaded = read(None, &[("CABANA_DOMAIN", domain), ("CABANA_TLS_MODE", mode)], &[]).expect("valid");
            loaded.config.public_domain(port)
        };
        assert_eq!(public("e2b.test", "internal", 8443).as_deref(), Some("e2b.test:8443"));
        assert_eq!(public("e2b.test", "internal", 443).as_deref(), Some("e2b.test"));
        assert_eq!(
            public("e2b.test:443", "internal", 8443).as_deref(),
            Some("e2b.test:443"),
            "an explicit port is kept"
        );
        assert_eq!(public("e2b.test", "off", 3000).as_deref(), Some("e2b.test"), "a proxy terminates TLS");
        assert_eq!(public("", "internal", 8443), None);
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = Loaded::read(Some(Path::new("/nonexistent/cabana.toml")), |_| None, &[]).expect_err("missing");
        assert!(matches!(error, ConfigError::Read { .. }));
    }
}
