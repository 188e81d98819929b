//! Dependencies that nothing imports: of each crate, and of the workspace's list.

use std::collections::{BTreeMap, BTreeSet};

use super::Problems;
use super::metadata::{Dependency, Metadata};
use crate::source::{File, views, words_at};

pub(super) fn check(
    metadata: &Metadata,
    files: &[File],
    ignored: &BTreeMap<String, String>,
    workspace: &str,
    problems: &mut Problems,
) {
    let mut wanted = BTreeSet::new();
    for package in metadata.members() {
        let folder = package.folder();
        let code = Code::of(folder, files);
        for dependency in &package.dependencies {
            wanted.insert(dependency.name.as_str());
            if ignored.contains_key(&format!("{folder}/{}", dependency.name)) {
                continue;
            }
            let name = &dependency.name;
            match code.use_of(dependency) {
                Use::Right => {}
                Use::InTests => problems.add(format!("{folder}: only tests use {name}. Move it to [dev-dependencies]")),
                Use::None => problems.add(format!("{folder}: nothing uses {name}. Remove it from Cargo.toml")),
            }
        }
    }
    let listed: toml::Table = workspace.parse().unwrap_or_default();
    let listed = listed.get("workspace").and_then(|table| table.get("dependencies")).and_then(toml::Value::as_table);
    for name in listed.into_iter().flat_map(toml::Table::keys).filter(|name| !wanted.contains(name.as_str())) {
        problems.add(format!("Cargo.toml: no crate uses {name}. Remove it from [workspace.dependencies]"));
    }
    let exists = |entry: &&String| {
        metadata.members().any(|package| {
            package.dependencies.iter().any(|dependency| format!("{}/{}", package.folder(), dependency.name) == **entry)
        })
    };
    for entry in ignored.keys().filter(|entry| !exists(entry)) {
        problems.add(format!("xtask/architecture.toml: there is no dependency {entry}. Remove it from [unused]"));
    }
}

enum Use {
    Right,
    InTests,
    None,
}

/// The code of one crate.
#[derive(Default)]
struct Code {
    product: String,
    tests: String,
    build: String,
}

impl Code {
    fn of(folder: &str, files: &[File]) -> Self {
        let mut found = Self::default();
        for file in files.iter().filter(|file| file.is_rust() && file.member() == folder) {
            let code = views(&file.text).code;
            let part = match () {
                () if file.path == format!("crates/{folder}/build.rs") => &mut found.build,
                () if file.is_test() => &mut found.tests,
                () => &mut found.product,
            };
            part.push_str(&code);
        }
        found
    }

    fn use_of(&self, dependency: &Dependency) -> Use {
        let name = dependency.rename.as_deref().unwrap_or(&dependency.name).replace('-', "_");
        let uses = |code: &str| imports(code, &name);
        match dependency.kind.as_deref() {
            Some("build") if uses(&self.build) => Use::Right,
            Some("dev") if uses(&self.tests) || uses(&self.product) => Use::Right,
            None if uses(&self.product) => Use::Right,
            None if uses(&self.tests) => Use::InTests,
            _ => Use::None,
        }
    }
}

/// Whether code names a crate: as the beginning of a path, or by itself in a `use`.
fn imports(code: &str, name: &str) -> bool {
    words_at(code, name).any(|at| {
        let before = code[..at].trim_end();
        let after = code[at + name.len()..].trim_start();
        let begins_path = after.starts_with("::") && (!before.ends_with("::") || before.ends_with(" ::"));
        begins_path || before.ends_with("use") || before.ends_with("extern crate")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{file, found};

    fn problems(dependencies: serde_json::Value, product: &str, tests: &str) -> Vec<String> {
        let package = serde_json::json!({"name": "cabana-a", "version": "1.0.0", "dependencies": dependencies});
        let metadata = serde_json::from_value(serde_json::json!({"packages": [package]})).unwrap();
        // A module may be named like a build script.
        let files = [file("crates/a/src/build.rs", product), file("crates/a/tests/it/main.rs", tests)];
        let workspace = "[workspace.dependencies]\nserde-json = \"1\"\n";
        let ignored = BTreeMap::from([("a/linked".to_owned(), "by its C library".to_owned())]);
        found(|problems| check(&metadata, &files, &ignored, workspace, problems))
    }

    #[test]
    fn used_dependencies_pass() {
        let dependencies =
            serde_json::json!([{"name": "serde-json"}, {"name": "linked"}, {"name": "rand", "kind": "dev"}]);
        assert_eq!(problems(dependencies, "let x = serde_json::Value::Null;", "use rand;"), [""; 0]);
    }

    #[test]
    fn unused_dependencies_are_found() {
        let dependencies = serde_json::json!([{"name": "serde-json"}, {"name": "linked"}, {"name": "rand"}]);
        let found = problems(dependencies, "// serde_json::x\nself.serde_json; a::rand::b", "use rand::Rng;");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("nothing uses serde-json") && found[1].contains("only tests use rand"), "{found:?}");
        let found = problems(serde_json::json!([]), "", "");
        assert!(
            found[0].contains("no crate uses serde-json") && found[1].contains("no dependency a/linked"),
            "{found:?}"
        );
    }
}
