//! The essential part of `cargo deny check`, from cargo's own knowledge and by the same `deny.toml`: licences, banned crates, crates in
//! several versions, and sources. What needs a database of advisories is left to cargo-deny.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Problems;
use super::licences::is_allowed;
use super::metadata::{Metadata, Package};

/// The parts of `deny.toml` that are read here.
#[derive(Deserialize)]
pub(super) struct Deny {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
    skip: Vec<Skipped>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct Skipped {
    /// `name@version`, with as much of the version as matters.
    #[serde(rename = "crate")]
    name: String,
}

pub(super) fn check(metadata: &Metadata, deny: &Deny, problems: &mut Problems) {
    sources(metadata, problems);
    for package in &metadata.packages {
        let (name, version) = (&package.name, &package.version);
        let licence = package.license.as_deref().unwrap_or("none");
        if !is_allowed(licence, &deny.licenses.allow) {
            problems.add(format!("{name} {version}: licence {licence} is not allowed by deny.toml. Use another crate"));
        }
        if let Some(banned) = deny.bans.deny.iter().find(|banned| banned.name == *name) {
            problems.add(format!(
                "{name} {version}: banned by deny.toml: {}. Find who brings it: cargo tree -i {name}",
                banned.reason
            ));
        }
    }
    versions(&metadata.packages, &deny.bans.skip, problems);
}

/// Everything comes from the default registry, or from this repository.
fn sources(metadata: &Metadata, problems: &mut Problems) {
    for package in metadata.members() {
        for dependency in &package.dependencies {
            let elsewhere = dependency.source.as_ref().is_some_and(|source| !source.starts_with("registry+"));
            if elsewhere || dependency.registry.is_some() {
                problems.add(format!("{}: {} does not come from the default registry", package.name, dependency.name));
            }
        }
    }
    let sources: BTreeSet<&str> = metadata.packages.iter().filter_map(|package| package.source.as_deref()).collect();
    if sources.len() > 1 {
        problems.add(format!("packages come from several sources: {sources:?}. Only the default registry is allowed"));
    }
}

/// Crates in several incompatible versions, but for those that deny.toml skips.
fn versions(packages: &[Package], skip: &[Skipped], problems: &mut Problems) {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        by_name.entry(&package.name).or_default().insert(&package.version);
    }
    let skips = |name: &str, version: &str| {
        skip.iter().any(|skipped| {
            let (other, begin) = skipped.name.split_once('@').unwrap_or((&skipped.name, ""));
            let rest = version.strip_prefix(begin);
            other == name && rest.is_some_and(|rest| rest.is_empty() || begin.is_empty() || rest.starts_with('.'))
        })
    };
    for (name, versions) in &by_name {
        let left: BTreeSet<String> =
            versions.iter().filter(|version| !skips(name, version)).map(|version| compatible(version)).collect();
        if left.len() > 1 {
            let list = left.into_iter().collect::<Vec<_>>().join(", ");
            problems.add(format!(
                "{name}: in several versions ({list}). Use one of them (cargo tree -i {name}@…), or skip the older in deny.toml"
            ));
        }
    }
    for skipped in skip {
        let (name, _) = skipped.name.split_once('@').unwrap_or((&skipped.name, ""));
        if by_name.get(name).is_none_or(|versions| versions.len() < 2) {
            problems.add(format!("deny.toml: {name} comes in one version only. Remove it from bans.skip"));
        }
    }
}

/// The part of a version that compatible ones share: `1` of 1.2.3, `0.2` of 0.2.3.
fn compatible(version: &str) -> String {
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some("0"), Some(minor)) => format!("0.{minor}"),
        (Some(major), _) => major.to_owned(),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::found;

    fn problems(packages: serde_json::Value) -> Vec<String> {
        let metadata = serde_json::from_value(serde_json::json!({ "packages": packages })).unwrap();
        let deny = "[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [{ crate = \"openssl\", reason = \"a second TLS\" }]\n\
                    skip = [{ crate = \"rand@0.9\", reason = \"old\" }]\n";
        let old = [package("rand", "0.9.1", "MIT"), package("rand", "0.10.2", "MIT")];
        let mut metadata: Metadata = metadata;
        metadata.packages.extend(old.map(|value| serde_json::from_value(value).unwrap()));
        found(|problems| check(&metadata, &toml::from_str(deny).unwrap(), problems))
    }

    fn package(name: &str, version: &str, license: &str) -> serde_json::Value {
        serde_json::json!({"name": name, "version": version, "license": license, "source": "registry+a", "dependencies": []})
    }

    #[test]
    fn what_is_allowed_passes() {
        assert_eq!(problems(serde_json::json!([package("a", "1.0.0", "MIT"), package("a", "1.2.0", "MIT")])), [""; 0]);
    }

    #[test]
    fn licences_bans_and_versions() {
        assert!(problems(serde_json::json!([package("a", "1.0.0", "GPL-3.0")]))[0].contains("licence GPL-3.0"));
        assert!(problems(serde_json::json!([package("openssl", "1.0.0", "MIT")]))[0].contains("a second TLS"));
        let found = problems(serde_json::json!([package("a", "1.0.0", "MIT"), package("a", "0.2.0", "MIT")]));
        assert!(found.len() == 1 && found[0].contains("a: in several versions (0.2, 1)"), "{found:?}");
        let found = problems(serde_json::json!([package("rand", "0.8.0", "MIT")]));
        assert!(found.len() == 1 && found[0].contains("(0.10, 0.8)"), "{found:?}");
    }

    #[test]
    fn other_sources_are_found() {
        let git = serde_json::json!({"name": "a", "source": "git+https://example.com"});
        let member =
            serde_json::json!({"name": "cabana-a", "version": "1.0.0", "license": "MIT", "dependencies": [git]});
        assert!(problems(serde_json::json!([member]))[0].contains("default registry"));
        let mut other = package("a", "1.0.0", "MIT");
        other["source"] = "git+https://example.com".into();
        assert!(problems(serde_json::json!([other]))[0].contains("several sources"));
    }
}
