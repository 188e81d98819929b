//! A small image, made by hand.

use std::collections::BTreeMap;

use cabana_image::Digest;
use cabana_image::manifest::Platform;
use serde_json::{Value, json};

use crate::archive::{Item, directory, file, gzip, tar};

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

pub(crate) struct Sample {
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
    pub(crate) config: Digest,
    pub(crate) layers: Vec<Digest>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) media_type: &'static str,
}

impl Sample {
    pub(crate) fn new() -> Self {
        Self::of(&[
            vec![directory("etc"), file("etc/motd", "hello"), file("gone", "1")],
            vec![file(".wh.gone", ""), file("bin/tool", vec![b'x'; 50_000]).mode(0o755)],
        ])
    }

    /// The first layer is packed with gzip, the second with zstd, the others not at all.
    pub(crate) fn of(layers: &[Vec<Item>]) -> Self {
        let plain: Vec<Vec<u8>> = layers.iter().map(|items| tar(items)).collect();
        let diff_ids: Vec<Digest> = plain.iter().map(|bytes| Digest::of(bytes)).collect();
        let here = Platform::here();
        let config = json!({
            "architecture": here.architecture, "os": "linux", "created": "2026-01-01T00:00:00Z",
            "config": {"Env": ["PATH=/bin", "A=b=c"], "User": "user", "WorkingDir": "/work", "Cmd": ["sh"], "Labels": null},
            "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": [],
        });
        Self::with(&plain, &config, OCI_MANIFEST)
    }

    pub(crate) fn with(plain: &[Vec<u8>], config: &Value, media_type: &'static str) -> Self {
        let mut blobs = BTreeMap::new();
        let mut put = |bytes: Vec<u8>| {
            let digest = Digest::of(&bytes);
            blobs.insert(digest, bytes);
            digest
        };
        let pack = |(number, bytes): (usize, &Vec<u8>)| match number {
            0 => (gzip(bytes), "+gzip"),
            1 => (zstd::encode_all(&bytes[..], 3).unwrap(), "+zstd"),
            _ => (bytes.clone(), ""),
        };
        let packed: Vec<(Vec<u8>, &str)> = plain.iter().enumerate().map(pack).collect();
        let bytes = serde_json::to_vec(config).unwrap();
        let config_size = bytes.len();
        let config = put(bytes);
        let mut layers = Vec::new();
        let mut described = Vec::new();
        for (bytes, suffix) in packed {
            let size = bytes.len();
            let digest = put(bytes);
            layers.push(digest);
            let media_type = format!("application/vnd.oci.image.layer.v1.tar{suffix}");
            described.push(json!({"mediaType": media_type, "digest": digest, "size": size}));
        }
        let manifest = json!({
            "schemaVersion": 2, "mediaType": media_type,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": config_size},
            "layers": described,
        });
        let manifest = serde_json::to_vec(&manifest).unwrap();
        Self { blobs, config, layers, manifest, media_type }
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// An index of this image among others.
    pub(crate) fn index(&self, media_type: &str) -> Vec<u8> {
        let here = Platform::here();
        let entry = |digest: Digest, size: usize, os: &str, architecture: &str| {
            json!({"mediaType": self.media_type, "digest": digest, "size": size,
                   "platform": {"os": os, "architecture": architecture}})
        };
        let other = Digest::of(b"another image");
        let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": [
            entry(other, 13, "linux", "s390x"),
            entry(other, 13, "windows", &here.architecture),
            entry(self.digest(), self.manifest.len(), "linux", &here.architecture),
            entry(other, 13, "unknown", "unknown"),
        ]});
        serde_json::to_vec(&index).unwrap()
    }
}
