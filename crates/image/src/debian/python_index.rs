//! The Python package index that the host uses, so that a machine behind a mirror needs no further configuration.

use std::ffi::OsString;
use std::path::Path;

/// Settings of pip that choose an index, as they are spelled in its configuration file.
const SETTINGS: [&str; 3] = ["index-url", "extra-index-url", "trusted-host"];
const CONFIGURATION: &str = "/etc/pip.conf";

/// Environment variables for pip: those of this process, otherwise the host's configuration file.
pub(super) fn environment() -> Vec<(OsString, OsString)> {
    let file = std::fs::read_to_string(Path::new(CONFIGURATION)).unwrap_or_default();
    let variable = |setting: &&str| {
        let name = format!("PIP_{}", setting.to_uppercase().replace('-', "_"));
        let value = std::env::var_os(&name).or_else(|| Some(setting_of(&file, setting)?.into()))?;
        Some((name.into(), value))
    };
    SETTINGS.iter().filter_map(variable).collect()
}

/// A setting of the section `[global]`.
fn setting_of(text: &str, setting: &str) -> Option<String> {
    let mut section = "";
    text.lines().find_map(|line| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name;
        }
        let (name, value) = line.split_once('=')?;
        (section == "global" && name.trim() == setting && !value.trim().is_empty()).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_configuration_file() {
        let text =
            "# ours\n[install]\nindex-url = no\n[global]\ncert=/x\nindex-url = https://index.example/simple?a=b\n";
        assert_eq!(setting_of(text, "index-url").as_deref(), Some("https://index.example/simple?a=b"));
        assert_eq!(setting_of(text, "extra-index-url"), None);
        assert_eq!(setting_of("index-url = x", "index-url"), None);
    }
}
