//! An image whose blobs are all in the store: its configuration, and unpacking it to a root filesystem.

use std::os::fd::BorrowedFd;

use crate::blobs::{Blobs, Pin};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::manifest::{self, Document, ImageConfig, MAX_CONFIG, MAX_MANIFEST, Manifest};
use crate::stop::Stop;
use crate::unpack::{self, Limits, Whiteouts};

/// An image in the store. Its blobs are pinned.
#[derive(Debug)]
pub struct Image {
    /// Its identity: the digest of its manifest, and the root to keep when collecting blobs.
    pub digest: Digest,
    /// Its configuration.
    pub config: ImageConfig,
    /// Its layers, lowest first.
    pub layers: Vec<Layer>,
    blobs: Blobs,
    _pins: Vec<Pin>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Digest of the blob.
    pub digest: Digest,
    /// Size of the blob.
    pub size: u64,
    /// Digest of the uncompressed archive.
    pub diff_id: Digest,
}

/// Result of unpacking an image.
#[derive(Debug, Default)]
pub struct Assembled {
    /// Bytes of content.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Skipped or changed entries, for the build's log.
    pub notes: Vec<String>,
}

impl Image {
    /// An image of the store by the digest of its manifest. Its blobs must be there.
    pub fn load(blobs: &Blobs, digest: Digest) -> Result<Self> {
        let pin = blobs.pin(digest);
        let Document::Image(manifest) = manifest::parse(&blobs.read(digest, MAX_MANIFEST)?, None)? else {
            return Err(Error::NotAnImage("it is an index".to_owned()));
        };
        let mut image = Self::from_manifest(blobs, digest, &manifest, Vec::new())?;
        image._pins.push(pin);
        Ok(image)
    }

    pub(crate) fn from_manifest(
        blobs: &Blobs,
        digest: Digest,
        manifest: &Manifest,
        mut pins: Vec<Pin>,
    ) -> Result<Self> {
        pins.push(blobs.pin(manifest.config.digest));
        pins.extend(manifest.layers.iter().map(|layer| blobs.pin(layer.digest)));
        let config = blobs.read(manifest.config.digest, MAX_CONFIG)?;
        let config = ImageConfig::parse(&config, manifest.layers.len())?;
        let mut layers = Vec::new();
        for (layer, diff_id) in manifest.layers.iter().zip(config.diff_ids()) {
            if blobs.size(layer.digest) != Some(layer.size) {
                return Err(Error::NotAnImage(format!("its layer {} is missing", layer.digest)));
            }
            layers.push(Layer { digest: layer.digest, size: layer.size, diff_id: *diff_id });
        }
        Ok(Self { digest, config, layers, blobs: blobs.clone(), _pins: pins })
    }

    /// Unpacks all layers to `root`, an empty directory that only root can enter, and checks each against the digest
    /// in the configuration. Blocks. After an error the tree is incomplete: delete it. `each` is called with
    /// the index of the next layer.
    pub fn assemble(
        &self,
        root: BorrowedFd<'_>,
        limits: &Limits,
        stop: &Stop,
        mut each: impl FnMut(usize),
    ) -> Result<Assembled> {
        let mut all = Assembled::default();
        for (number, layer) in self.layers.iter().enumerate() {
            each(number);
            // The limits apply to the whole image.
            let limits = Limits {
                bytes: limits.bytes.saturating_sub(all.bytes),
                entries: limits.entries.saturating_sub(all.entries),
                ..limits.clone()
            };
            let reader = self.blobs.reader(layer.digest)?;
            let unpacked = unpack::apply(reader, root, Whiteouts::Apply, &limits, stop)?;
            if unpacked.diff_id != layer.diff_id {
                let what = format!("layer {}", layer.digest);
                return Err(Error::Corrupt { what, expected: layer.diff_id, found: unpacked.diff_id });
            }
            all.bytes += unpacked.bytes;
            all.entries += unpacked.entries;
            all.notes.extend(unpacked.notes);
        }
        all.notes.truncate(100);
        Ok(all)
    }
}
