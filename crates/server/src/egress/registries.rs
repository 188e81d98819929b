//! The package registries that this machine itself is configured to use: hosts of the URLs in the settings of its package
//! managers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabana_types::egress::{HostName, HostPattern, Target};

/// Files and directories with settings, below the root and below the home of root.
const SETTINGS: [&str; 5] =
    ["etc/apt/sources.list", "etc/apt/sources.list.d", "etc/pip.conf", "etc/npmrc", "etc/cargo/config.toml"];
const HOME_SETTINGS: [&str; 6] =
    [".config/pip/pip.conf", ".pip/pip.conf", ".npmrc", ".cargo/config.toml", ".bundle/config", ".m2/settings.xml"];
/// Variables that hold the URL of a registry.
const VARIABLES: [&str; 4] = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY", "GOPROXY"];

/// Bytes that are read of a file; files in a directory.
const MAX_FILE_BYTES: u64 = 256 * 1024;
const MAX_FILES: usize = 64;
/// Hosts that are taken.
const MAX_HOSTS: usize = 64;

/// The hosts, in order of their names.
pub(super) fn of_this_machine() -> Vec<Target> {
    let variables = VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
    targets(&texts(Path::new("/"), Path::new("/root")).into_iter().chain(variables).collect::<Vec<_>>())
}

fn texts(root: &Path, home: &Path) -> Vec<String> {
    let files = SETTINGS.map(|path| root.join(path)).into_iter().chain(HOME_SETTINGS.map(|path| home.join(path)));
    files
        .flat_map(|path| if path.is_dir() { inside(&path) } else { vec![path] })
        .filter_map(|path| read(&path))
        .collect()
}

fn inside(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.truncate(MAX_FILES);
    files
}

fn read(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = Vec::new();
    fs::File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn targets(texts: &[String]) -> Vec<Target> {
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim_start);
    let settings = lines.filter(|line| !line.starts_with(['#', ';']));
    let hosts: BTreeSet<HostName> = settings.flat_map(hosts).collect();
    hosts.into_iter().take(MAX_HOSTS).map(|name| Target::Host(HostPattern::Exact(name))).collect()
}

/// Host names of the URLs in a line. Addresses are not taken: a policy allows those of public networks by themselves.
fn hosts(line: &str) -> impl Iterator<Item = HostName> {
    line.split("://").skip(1).filter_map(|rest| {
        let authority = rest.split(|c: char| "/?#\"'<>[],;|".contains(c) || c.is_whitespace()).next()?;
        let host = authority.rsplit('@').next()?;
        host.split(':').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_the_settings_of_package_managers() {
        let root = tempfile::tempdir().expect("directory");
        let (etc, home) = (root.path().join("etc/apt/sources.list.d"), root.path().join("root"));
        fs::create_dir_all(&etc).expect("directory");
        fs::create_dir_all(home.join(".cargo")).expect("directory");
        for (path, text) in [
            (
                etc.join("a.list"),
                "# deb http://old.example.org x\ndeb [signed-by=/k] https://Deb.example.org/debian stable\n",
            ),
            (etc.join("b.sources"), "URIs: http://a.example.org:80/x http://10.0.0.1/y\n"),
            (root.path().join("etc/pip.conf"), "[global]\nindex-url = https://me:secret@py.example.org/simple\n"),
            (home.join(".npmrc"), "registry=https://js.example.org/\n;https://no.example.org\n"),
            (home.join(".cargo/config.toml"), "registry = \"sparse+https://rs.example.org/index/\"\n"),
        ] {
            fs::write(path, text).expect("write");
        }
        let found: Vec<String> = targets(&texts(root.path(), &home)).iter().map(Target::to_string).collect();
        let expected = ["a.example.org", "deb.example.org", "js.example.org", "py.example.org", "rs.example.org"];
        assert_eq!(found, expected);
        assert!(targets(&["://".into(), "x://@:/ y://*.a.b".into()]).is_empty());
    }
}
