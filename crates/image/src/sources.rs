//! Sources of images, as configured by the operator: names that mean local templates, registry mirrors,
//! and registries that are reached without TLS or inside the private network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use url::{Position, Url};

use crate::error::{Error, Result};
use crate::reference::Reference;

/// The operator's settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// Images that are local templates: `e2bdev/base` → `base`. A name with a tag matches that tag only, one without
    /// matches all tags.
    pub aliases: BTreeMap<String, String>,
    /// Settings of registries, by host as in image names (`docker.io`, `registry.lan:5000`).
    pub hosts: BTreeMap<String, Host>,
    /// PEM files with additional certificate authorities.
    pub authorities: Vec<PathBuf>,
}

/// Settings of one host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Tried first, in this order; the host itself comes last. They get no credentials. A path is prepended to
    /// the image's own: `https://cache.lan/hub` has `debian` as `hub/library/debian`.
    pub mirrors: Vec<Url>,
    /// Use plain HTTP.
    pub plain_http: bool,
    /// It may have an address of this machine or of the private network. Other hosts must be public, so that a name in
    /// a build request cannot make the server contact its own network.
    pub internal: bool,
}

/// Base of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// A template of this server.
    Template(String),
    /// An image.
    Image(Reference),
}

impl Sources {
    /// Checks what deserialization cannot.
    pub fn check(&self) -> Result<()> {
        for alias in self.aliases.keys() {
            alias.parse::<Reference>()?;
        }
        for (name, host) in &self.hosts {
            // `x` stands for any repository: only the host is looked at.
            format!("{name}/x").parse::<Reference>()?;
            for mirror in &host.mirrors {
                if !matches!(mirror.scheme(), "http" | "https") || mirror.host_str().is_none() {
                    return Err(Error::InvalidReference {
                        text: mirror.to_string(),
                        reason: "a mirror is an http:// or https:// URL".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Resolves the name of an image.
    pub fn resolve(&self, name: &str) -> Result<Base> {
        let reference: Reference = name.parse()?;
        // A digest requests exact content, which a local template does not have.
        if reference.digest().is_some() {
            return Ok(Base::Image(reference));
        }
        for (alias, template) in &self.aliases {
            let any_tag = !alias.rsplit('/').next().is_some_and(|last| last.contains(':'));
            let known: Reference = alias.parse()?;
            if known.repository() == reference.repository() && (any_tag || known.tag() == reference.tag()) {
                return Ok(Base::Template(template.clone()));
            }
        }
        Ok(Base::Image(reference))
    }

    /// Settings of a host, by its name as in image names.
    pub(crate) fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.get(name)
    }

    /// Hosts (of registries, mirrors, token servers and redirects) that may have private addresses.
    pub(crate) fn internal_hosts(&self) -> BTreeSet<String> {
        let named = self.hosts.iter().filter(|(_, host)| host.internal).map(|(name, _)| name.clone());
        named.chain(self.hosts.values().flat_map(|host| &host.mirrors).map(authority)).collect()
    }
}

/// Host and port as in image names: without the scheme's own port.
pub(crate) fn authority(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.aliases.insert("e2bdev/base".to_owned(), "base".to_owned());
        sources.aliases.insert("python:3.12".to_owned(), "python".to_owned());
        sources
    }

    #[test]
    fn aliases_mean_templates() {
        let sources = sources();
        sources.check().unwrap();
        let template = |name: &str| Base::Template(name.to_owned());
        assert_eq!(sources.resolve("e2bdev/base").unwrap(), template("base"));
        assert_eq!(sources.resolve("docker.io/e2bdev/base:v2").unwrap(), template("base"));
        assert_eq!(sources.resolve("python:3.12").unwrap(), template("python"));
        for image in ["python:3.11", "python", "ghcr.io/e2bdev/base", "e2bdev/base2"] {
            assert!(matches!(sources.resolve(image).unwrap(), Base::Image(_)), "{image}");
        }
        let exact = format!("e2bdev/base@{}", crate::Digest::of(b""));
        assert!(matches!(sources.resolve(&exact).unwrap(), Base::Image(_)));
        assert!(sources.resolve("Nope").is_err());
    }

    #[test]
    fn hosts_are_internal_only_if_configured() {
        let mut sources = sources();
        let mirrors = vec!["http://cache.lan:5000".parse().unwrap()];
        sources.hosts.insert("docker.io".to_owned(), Host { mirrors, ..Host::default() });
        sources.hosts.insert("registry.lan".to_owned(), Host { internal: true, ..Host::default() });
        sources.check().unwrap();
        let internal = sources.internal_hosts();
        assert!(internal.contains("cache.lan:5000") && internal.contains("registry.lan"));
        assert!(!internal.contains("docker.io") && !internal.contains("cache.lan"));
        sources.hosts.insert("bad host".to_owned(), Host::default());
        assert!(sources.check().is_err());
    }
}
