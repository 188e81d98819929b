//! Manifests, indexes and configurations of images, in OCI's and Docker's forms. They are untrusted: only the needed fields are read, and
//! ambiguous documents are refused.
//!
//! Why not `oci-spec`: it requires a media type in every descriptor, which older images leave out, and accepts what is refused here:
//! documents that are both an index and a manifest, digests of other algorithms, any number of layers. Its types would have to be checked
//! and converted field by field, which is longer than these definitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;
use crate::error::{Error, Result};

/// The largest manifest or index that is read; registries have the same limit.
pub const MAX_MANIFEST: u64 = 4 << 20;
/// The largest configuration that is read.
pub const MAX_CONFIG: u64 = 8 << 20;
/// Layers in one image. Docker stops at 127.
const MAX_LAYERS: usize = 512;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";

/// A reference to content by its digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type; may be empty.
    #[serde(default)]
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Platform of the image, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Annotations, such as the image's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// Operating system and CPU that an image is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// `amd64`, `arm64`, …
    #[serde(default)]
    pub architecture: String,
    /// `v8`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.iter().filter(|variant| !variant.is_empty()).try_for_each(|variant| write!(f, "/{variant}"))
    }
}

impl Platform {
    /// The platform of this machine.
    pub fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    /// Whether an image for this platform runs on this machine.
    pub fn fits_here(&self) -> bool {
        let here = Self::here();
        let variant = self.variant.as_deref().unwrap_or_default();
        self.os == here.os && self.architecture == here.architecture && matches!(variant, "" | "v8" | "v1")
    }
}

/// A parsed manifest document.
#[derive(Debug)]
pub(crate) enum Document {
    /// Images for several platforms.
    Index(Vec<Descriptor>),
    /// One image.
    Image(Manifest),
}

/// One image: its configuration and layers, lowest first.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub(crate) schema_version: u32,
    pub(crate) media_type: String,
    /// The configuration.
    pub config: Descriptor,
    /// The layers.
    pub layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u32>,
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    fs_layers: Option<serde::de::IgnoredAny>,
}

/// Parses a manifest or index. `content_type` is the registry's header.
pub(crate) fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Document> {
    if content_type.is_some_and(|kind| kind.starts_with(DOCKER_SCHEMA_1)) {
        return Err(Error::Schema1);
    }
    let raw: Raw = serde_json::from_slice(bytes).map_err(|error| bad(format!("its manifest is malformed: {error}")))?;
    if raw.schema_version == Some(1) || raw.fs_layers.is_some() {
        return Err(Error::Schema1);
    }
    let kind = raw.media_type.as_deref().or(content_type).unwrap_or_default();
    match (raw.manifests, raw.config, raw.layers) {
        (Some(list), None, None) if kind != OCI_MANIFEST && kind != DOCKER_MANIFEST => Ok(Document::Index(list)),
        (None, Some(config), Some(layers)) if kind != OCI_INDEX && kind != DOCKER_LIST => {
            if layers.len() > MAX_LAYERS {
                return Err(bad(format!("it has more than {MAX_LAYERS} layers")));
            }
            for layer in &layers {
                check_layer(layer)?;
            }
            let media_type = if kind == DOCKER_MANIFEST { DOCKER_MANIFEST } else { OCI_MANIFEST };
            Ok(Document::Image(Manifest { schema_version: 2, media_type: media_type.to_owned(), config, layers }))
        }
        _ => Err(bad("its manifest is neither an image's nor an index".to_owned())),
    }
}

fn bad(reason: String) -> Error {
    Error::NotAnImage(reason)
}

fn check_layer(layer: &Descriptor) -> Result<()> {
    let kind = &layer.media_type[..];
    if kind.contains("foreign") || kind.contains("nondistributable") {
        return Err(bad("a layer is not in the registry (a Windows image)".to_owned()));
    }
    let known = kind.is_empty()
        || kind.starts_with(OCI_LAYER)
        || kind.starts_with("application/vnd.docker.image.rootfs.diff.tar")
        || kind.starts_with("application/vnd.docker.container.image.rootfs.diff");
    if known { Ok(()) } else { Err(bad(format!("it has content of type {:.100}: not a file system", kind))) }
}

/// The image of an index that runs on this machine.
pub(crate) fn choose(index: &[Descriptor]) -> Result<&Descriptor> {
    if let Some(found) = index.iter().find(|entry| entry.platform.as_ref().is_some_and(Platform::fits_here)) {
        return Ok(found);
    }
    // A single entry without a platform is only a wrapper.
    if let [only] = index
        && only.platform.is_none()
    {
        return Ok(only);
    }
    // `unknown` marks attestations.
    let offered = index.iter().filter_map(|entry| entry.platform.as_ref()).filter(|platform| platform.os != "unknown");
    let offered: Vec<String> = offered.take(20).map(Platform::to_string).collect();
    Err(Error::Platform { wanted: Platform::here().to_string(), offered: offered.join(", ") })
}

/// An image's configuration: how to run it, and the digests of its uncompressed layers.
#[derive(Debug, Clone, Deserialize)]
pub struct ImageConfig {
    /// The machines it is for.
    #[serde(flatten)]
    pub platform: Platform,
    /// How to run it.
    #[serde(default, deserialize_with = "or_default")]
    pub config: Defaults,
    rootfs: RootFs,
}

#[derive(Debug, Clone, Deserialize)]
struct RootFs {
    #[serde(default, deserialize_with = "or_default")]
    diff_ids: Vec<Digest>,
}

/// How to run an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Defaults {
    /// `name`, `name:group`, or numbers; empty for root.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// Empty for `/`.
    #[serde(deserialize_with = "or_default")]
    pub working_dir: String,
    /// `NAME=value`.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
    /// Program.
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    /// Arguments of the entrypoint, or the program if there is none.
    #[serde(deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// The shell of `RUN` and of commands in their shell form.
    #[serde(deserialize_with = "or_default")]
    pub shell: Vec<String>,
    /// Labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// `8080/tcp` and the like.
    #[serde(deserialize_with = "keys")]
    pub exposed_ports: Vec<String>,
    /// A command that succeeds when the program is ready; empty for none.
    #[serde(deserialize_with = "healthcheck", skip_serializing)]
    pub healthcheck: Vec<String>,
    /// Instructions for builds that start from this image.
    #[serde(deserialize_with = "or_default")]
    pub on_build: Vec<String>,
}

/// `["CMD", program, …]`, `["CMD-SHELL", line]` or `["NONE"]`; anything else is ignored.
fn healthcheck<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Healthcheck {
        #[serde(deserialize_with = "or_default")]
        test: Vec<String>,
    }
    let test = Option::<Healthcheck>::deserialize(deserializer)?.unwrap_or_default().test;
    Ok(match test.split_first() {
        Some((kind, program)) if kind == "CMD" => program.to_vec(),
        Some((kind, [line, ..])) if kind == "CMD-SHELL" => {
            vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()]
        }
        _ => Vec::new(),
    })
}

impl Defaults {
    /// The environment as pairs; the last entry of a name wins.
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.env.iter().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }
}

impl ImageConfig {
    /// Digests of the uncompressed layers, lowest first.
    pub fn diff_ids(&self) -> &[Digest] {
        &self.rootfs.diff_ids
    }

    pub(crate) fn parse(bytes: &[u8], layers: usize) -> Result<Self> {
        let config: Self =
            serde_json::from_slice(bytes).map_err(|error| bad(format!("its configuration is malformed: {error}")))?;
        if config.diff_ids().len() != layers {
            return Err(bad(format!("its configuration speaks of {} layers, not {layers}", config.diff_ids().len())));
        }
        if !config.platform.os.is_empty() && !config.platform.fits_here() {
            let (wanted, offered) = (Platform::here().to_string(), config.platform.to_string());
            return Err(Error::Platform { wanted, offered });
        }
        Ok(config)
    }
}

/// `null` is the same as absent: Docker writes both.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let map = Option::<BTreeMap<String, serde::de::IgnoredAny>>::deserialize(deserializer)?;
    Ok(map.unwrap_or_default().into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(media_type: &str) -> String {
        format!(r#"{{"mediaType":"{media_type}","digest":"{}","size":1}}"#, Digest::of(b"x"))
    }

    fn index(platforms: &[(&str, &str, Option<&str>)]) -> Vec<Descriptor> {
        let entry = |(n, (os, architecture, variant)): (usize, &(&str, &str, Option<&str>))| Descriptor {
            media_type: OCI_MANIFEST.to_owned(),
            digest: Digest::of(&[u8::try_from(n).unwrap()]),
            size: 1,
            platform: Some(Platform {
                os: (*os).to_owned(),
                architecture: (*architecture).to_owned(),
                variant: variant.map(str::to_owned),
            }),
            annotations: BTreeMap::new(),
        };
        platforms.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn manifests_are_told_from_indexes_and_from_what_is_neither() {
        let (config, layer) = (descriptor(OCI_CONFIG), descriptor("application/vnd.oci.image.layer.v1.tar+zstd"));
        let image = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layer}]}}"#);
        assert!(matches!(parse(image.as_bytes(), None).unwrap(), Document::Image(m) if m.layers.len() == 1));
        let list = format!(r#"{{"schemaVersion":2,"manifests":[{config}],"annotations":null}}"#);
        assert!(matches!(parse(list.as_bytes(), Some(OCI_INDEX)).unwrap(), Document::Index(_)));
        assert!(parse(list.as_bytes(), Some(OCI_MANIFEST)).is_err());
        assert!(parse(image.as_bytes(), Some(DOCKER_LIST)).is_err());
        let both = format!(r#"{{"schemaVersion":2,"manifests":[],"config":{config},"layers":[{layer}]}}"#);
        assert!(matches!(parse(both.as_bytes(), None), Err(Error::NotAnImage(_))));
        for old in [r#"{"schemaVersion":1}"#, r#"{"fsLayers":[]}"#] {
            assert!(matches!(parse(old.as_bytes(), None), Err(Error::Schema1)));
        }
        assert!(matches!(
            parse(b"{}", Some("application/vnd.docker.distribution.manifest.v1+prettyjws")),
            Err(Error::Schema1)
        ));
        for odd in [
            "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        ] {
            let image = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, descriptor(odd));
            assert!(matches!(parse(image.as_bytes(), None), Err(Error::NotAnImage(_))), "{odd}");
        }
        assert!(parse(b"<html>", None).is_err() && parse(b"", None).is_err());
    }

    #[test]
    fn the_image_for_this_machine_is_chosen() {
        let here = Platform::here().architecture;
        let all = index(&[
            ("windows", &here, None),
            ("linux", "riscv9", None),
            ("linux", &here, None),
            ("unknown", "unknown", None),
        ]);
        assert_eq!(choose(&all).unwrap().digest, all[2].digest);
        let none = index(&[("linux", "s390x", None), ("linux", "arm", Some("v7")), ("unknown", "unknown", None)]);
        let error = choose(&none).unwrap_err().to_string();
        assert!(error.contains("linux/s390x, linux/arm/v7") && !error.contains("unknown"), "{error}");
        let mut wrapper = index(&[("", "", None)]);
        wrapper[0].platform = None;
        assert!(choose(&wrapper).is_ok());
        assert!(choose(&[]).is_err());
    }

    #[test]
    fn configurations_may_say_null() {
        let here = Platform::here().architecture;
        let text = format!(
            r#"{{"architecture":"{here}","os":"linux","config":{{"Env":["A=1","B=x=y"],"Cmd":null,"ExposedPorts":{{"80/tcp":{{}}}}}},
               "rootfs":{{"type":"layers","diff_ids":null}},"history":[]}}"#
        );
        let config = ImageConfig::parse(text.as_bytes(), 0).unwrap();
        assert_eq!(config.config.environment()["B"], "x=y");
        assert_eq!(config.config.exposed_ports, ["80/tcp"]);
        assert!(ImageConfig::parse(text.as_bytes(), 1).is_err());
        let other = text.replace(&here, "s390x");
        assert!(matches!(ImageConfig::parse(other.as_bytes(), 0), Err(Error::Platform { .. })));
    }
}
