//! Which crate may use which: the code map of ARCHITECTURE.md as a table.

use std::collections::{BTreeMap, BTreeSet};

use super::Problems;
use super::metadata::Metadata;

pub(super) fn check(metadata: &Metadata, uses: &BTreeMap<String, Vec<String>>, problems: &mut Problems) {
    let members: BTreeSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    for package in metadata.members() {
        let folder = package.folder();
        let Some(allowed) = uses.get(folder) else {
            problems.add(format!(
                "crates/{folder}: this crate is new here. Add it to [uses] in xtask/architecture.toml with the crates that it may \
                 use, and to the code map in ARCHITECTURE.md"
            ));
            continue;
        };
        // Tests may use more: they build worlds around what they test.
        for dependency in package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev")) {
            let used = dependency.name.strip_prefix("cabana-").unwrap_or(&dependency.name);
            if members.contains(dependency.name.as_str()) && !allowed.iter().any(|name| name == used) {
                problems.add(format!(
                    "crates/{folder}/Cargo.toml: {folder} may not use {used}. Move the code to where it may be used, or, if the \
                     picture in ARCHITECTURE.md changes, allow it in [uses] in xtask/architecture.toml"
                ));
            }
        }
    }
    let folders: BTreeSet<&str> = metadata.members().map(|package| package.folder()).collect();
    for gone in uses.keys().filter(|name| !folders.contains(name.as_str())) {
        problems.add(format!("xtask/architecture.toml: there is no crate {gone}. Remove its line from [uses]"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::found;

    fn metadata() -> Metadata {
        let package = |name: &str, uses: &[(&str, Option<&str>)]| {
            let dependencies: Vec<_> =
                uses.iter().map(|(name, kind)| serde_json::json!({"name": name, "kind": kind})).collect();
            serde_json::json!({"name": name, "version": "1.0.0", "dependencies": dependencies})
        };
        let packages = [
            package("cabana-types", &[]),
            package("cabana-store", &[("cabana-types", None), ("cabana-server", Some("dev"))]),
            package("cabana-server", &[("cabana-store", None), ("cabana-types", None), ("serde", None)]),
        ];
        serde_json::from_value(serde_json::json!({"packages": packages})).unwrap()
    }

    fn problems(uses: &[(&str, &[&str])]) -> Vec<String> {
        let uses =
            uses.iter().map(|(name, list)| ((*name).to_owned(), list.iter().map(|name| (*name).to_owned()).collect()));
        found(|problems| check(&metadata(), &uses.collect(), problems))
    }

    #[test]
    fn what_the_table_allows_passes() {
        let uses: [(&str, &[&str]); 3] = [("types", &[]), ("store", &["types"]), ("server", &["store", "types"])];
        assert_eq!(problems(&uses), [""; 0]);
    }

    #[test]
    fn a_dependency_in_the_wrong_direction_is_found() {
        let found = problems(&[("types", &[]), ("store", &[]), ("server", &["store", "types"])]);
        assert!(found.len() == 1 && found[0].contains("store may not use types"), "{found:?}");
    }

    #[test]
    fn unknown_and_vanished_crates_are_found() {
        let found = problems(&[("types", &[]), ("store", &["types"]), ("gone", &[])]);
        assert!(found.iter().any(|problem| problem.contains("crates/server: this crate is new")), "{found:?}");
        assert!(found.iter().any(|problem| problem.contains("no crate gone")), "{found:?}");
    }
}
