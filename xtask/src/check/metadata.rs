//! What cargo knows about the packages of this workspace and their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// What cargo says, for those packages that are compiled.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    /// Which package is compiled with which.
    #[serde(default)]
    resolve: Graph,
}

#[derive(Deserialize, Default)]
struct Graph {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Package {
    #[serde(default)]
    id: String,
    pub(super) name: String,
    pub(super) version: String,
    /// Nothing for packages of this repository.
    pub(super) source: Option<String>,
    pub(super) license: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) rename: Option<String>,
    /// `dev`, `build`, or nothing.
    pub(super) kind: Option<String>,
    /// Where it comes from, if not by a path.
    pub(super) source: Option<String>,
    /// Another registry than the default one.
    pub(super) registry: Option<String>,
}

impl Metadata {
    /// The packages of this workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.source.is_none())
    }
}

impl Metadata {
    /// Forgets packages that only a feature which is off would bring.
    fn drop_optional(&mut self) {
        let graph: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let mut next: Vec<&str> = self.members().map(|package| package.id.as_str()).collect();
        let mut reached = BTreeSet::new();
        while let Some(id) = next.pop() {
            if reached.insert(id.to_owned()) {
                next.extend(graph.get(id).into_iter().flat_map(|node| node.dependencies.iter().map(String::as_str)));
            }
        }
        self.packages.retain(|package| reached.contains(&package.id));
    }
}

impl Package {
    /// The folder that the package is in, which is its name without the prefix.
    pub(super) fn folder(&self) -> &str {
        self.name.strip_prefix("cabana-").unwrap_or(&self.name)
    }
}

/// Asks cargo. Only for this platform, so that nothing is downloaded that a build does not need too.
pub(super) fn read(root: &Path) -> Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &platform])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut metadata: Metadata = serde_json::from_slice(&output.stdout).context("understand cargo metadata")?;
    metadata.drop_optional();
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_compiled_counts() {
        let package = |id: &str, source: Option<&str>| {
            let dependencies: [&str; 0] = [];
            serde_json::json!({"id": id, "name": id, "version": "1.0.0", "source": source, "dependencies": dependencies})
        };
        let node = |id: &str, dependencies: &[&str]| serde_json::json!({"id": id, "dependencies": dependencies});
        let mut metadata: Metadata = serde_json::from_value(serde_json::json!({
            "packages": [package("ours", None), package("used", Some("r")), package("optional", Some("r"))],
            "resolve": {"nodes": [node("ours", &["used"]), node("used", &[]), node("optional", &[])]},
        }))
        .unwrap();
        metadata.drop_optional();
        assert_eq!(metadata.packages.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["ours", "used"]);
    }
}
