//! Images in local files: OCI layouts (a directory or a tar of one) and `docker save` archives. Their blobs are
//! copied into the store and verified.

mod archive;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use self::archive::ArchiveFiles;
use crate::blobs::{Blobs, Pin};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::manifest::{
    self, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, Manifest, OCI_CONFIG, OCI_LAYER, OCI_MANIFEST,
};
use crate::reference::Reference;
use crate::stop::Stop;

/// Bytes of one blob.
const MAX_BLOB: u64 = 32 << 30;

/// Number of images listed if the name is ambiguous.
const NAMED: usize = 10;

/// Where the files of a layout are.
enum Files {
    Directory(std::os::fd::OwnedFd),
    Archive(Box<ArchiveFiles>),
}

impl Files {
    /// A file of this name, if there is one.
    fn open(&self, name: &str) -> Result<Option<Box<dyn Read>>> {
        match self {
            Self::Archive(files) => Ok(files.open(name)?.map(|reader| Box::new(reader) as Box<dyn Read>)),
            Self::Directory(directory) => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                match beneath::open(directory, name, flags, Mode::empty(), Resolve::Beneath) {
                    Ok(fd) => {
                        let file = File::from(fd);
                        // A pipe or device would never end.
                        if !file.metadata().map_err(Error::io("look at a file of the layout"))?.is_file() {
                            return Err(Error::NotAnImage(format!("{name} is not a file")));
                        }
                        Ok(Some(Box::new(file)))
                    }
                    Err(rustix::io::Errno::NOENT) => Ok(None),
                    Err(error) => Err(Error::path("open", name)(error)),
                }
            }
        }
    }

    fn need(&self, name: &str) -> Result<Box<dyn Read>> {
        self.open(name)?.ok_or_else(|| Error::NotAnImage(format!("{name} is missing")))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(reader) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        reader.take(limit + 1).read_to_end(&mut bytes).map_err(crate::compression::read_error)?;
        if bytes.len() as u64 > limit {
            return Err(Error::TooLarge { what: name.to_owned(), limit });
        }
        Ok(Some(bytes))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Copies an image into the store. `name` selects it if there are several: an image's name, or the layout's
/// name for it. A single image is used whatever its name. A compressed archive may have up to `most` bytes. Blocks.
pub fn import(path: &Path, name: Option<&str>, blobs: &Blobs, most: u64, stop: &Stop) -> Result<Image> {
    let failed = |source| Error::Path { action: "open", path: path.display().to_string(), source };
    let file = File::open(path).map_err(failed)?;
    let files = if file.metadata().map_err(failed)?.is_dir() {
        Files::Directory(file.into())
    } else {
        Files::Archive(Box::new(ArchiveFiles::read(file, blobs, most, stop)?))
    };
    if let Some(index) = files.read("index.json", MAX_MANIFEST)? {
        return import_layout(&files, &index, name, blobs, stop);
    }
    if let Some(list) = files.read("manifest.json", MAX_MANIFEST)? {
        return import_saved(&files, &list, name, blobs, stop);
    }
    Err(Error::NotAnImage("it has neither an index.json (OCI layout) nor a manifest.json (docker save)".to_owned()))
}

fn import_layout(files: &Files, index: &[u8], name: Option<&str>, blobs: &Blobs, stop: &Stop) -> Result<Image> {
    let Document::Index(list) = manifest::parse(index, None)? else {
        return Err(Error::NotAnImage("its index.json is not an index".to_owned()));
    };
    let candidates: Vec<&Descriptor> = match name {
        Some(name) if list.len() > 1 => list.iter().filter(|entry| is_called(entry, name)).collect(),
        _ => list.iter().collect(),
    };
    let mut chosen = match &candidates[..] {
        [] => return Err(unclear(list.iter().filter_map(called))),
        [only] => (*only).clone(),
        several => {
            let owned: Vec<Descriptor> = several.iter().map(|entry| (*entry).clone()).collect();
            let named = several.iter().any(|entry| !entry.annotations.is_empty());
            if name.is_none() && named {
                return Err(unclear(list.iter().filter_map(called)));
            }
            manifest::choose(&owned)?.clone()
        }
    };
    let mut pins: Vec<Pin> = Vec::new();
    for _ in 0..3 {
        let bytes = files
            .read(&blob_name(chosen.digest), MAX_MANIFEST)?
            .ok_or_else(|| Error::NotAnImage(format!("its manifest {} is missing", chosen.digest)))?;
        let found = Digest::of(&bytes);
        if found != chosen.digest {
            return Err(Error::Corrupt { what: "the manifest".to_owned(), expected: chosen.digest, found });
        }
        match manifest::parse(&bytes, None)? {
            Document::Index(list) => chosen = manifest::choose(&list)?.clone(),
            Document::Image(manifest) => {
                pins.push(blobs.put(&bytes)?);
                let parts = std::iter::once((&manifest.config, MAX_CONFIG));
                for (part, limit) in parts.chain(manifest.layers.iter().map(|layer| (layer, MAX_BLOB))) {
                    // Even if it is in the store: knowing its digest is no permission.
                    let (name, what) = (blob_name(part.digest), format!("blob {}", part.digest));
                    pins.push(blobs.import(files.need(&name)?, &what, Some(part.digest), limit, stop)?);
                }
                return Image::from_manifest(blobs, chosen.digest, &manifest, pins);
            }
        }
    }
    Err(Error::NotAnImage("its indexes lead to further indexes".to_owned()))
}

fn blob_name(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// The layout's name of an image.
fn called(entry: &Descriptor) -> Option<&str> {
    let names = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
    names.iter().find_map(|key| entry.annotations.get(*key)).map(String::as_str)
}

/// The name is missing, ambiguous or unknown.
fn unclear<'a>(names: impl Iterator<Item = &'a str>) -> Error {
    let names: Vec<String> = names.take(NAMED).map(|name| name.chars().take(100).collect()).collect();
    match names.is_empty() {
        true => Error::NotAnImage("it holds no image that has a name".to_owned()),
        false => Error::NotAnImage(format!("it holds several images: say which of {}", names.join(", "))),
    }
}

/// By its full name, by what the layout calls it, or by its digest.
fn is_called(entry: &Descriptor, name: &str) -> bool {
    let annotation = |key: &str| entry.annotations.get(key).map(String::as_str);
    let same = |a: &str, b: &str| matches!((a.parse::<Reference>(), b.parse::<Reference>()), (Ok(a), Ok(b)) if a == b);
    annotation("org.opencontainers.image.ref.name") == Some(name)
        || called(entry).is_some_and(|full| same(full, name))
        || entry.digest.to_string() == name
}

fn import_saved(files: &Files, list: &[u8], name: Option<&str>, blobs: &Blobs, stop: &Stop) -> Result<Image> {
    let mut list: Vec<Saved> = serde_json::from_slice(list)
        .map_err(|error| Error::NotAnImage(format!("its manifest.json is malformed: {error}")))?;
    let names: Vec<String> = list.iter().flat_map(|saved| saved.repo_tags.iter().flatten().cloned()).collect();
    if let Some(name) = name
        && list.len() > 1
    {
        let wanted: Reference = name.parse()?;
        list.retain(|saved| {
            saved.repo_tags.iter().flatten().any(|tag| tag.parse().is_ok_and(|tag: Reference| tag == wanted))
        });
    }
    let [saved] = &list[..] else { return Err(unclear(names.iter().map(String::as_str))) };
    let mut pins = Vec::new();
    let mut copy = |file: &str, media_type: &str, limit: u64| -> Result<Descriptor> {
        let pin = blobs.import(files.need(file)?, file, None, limit, stop)?;
        let digest = pin.digest();
        pins.push(pin);
        let size = blobs.size(digest).unwrap_or_default();
        let annotations = std::collections::BTreeMap::new();
        Ok(Descriptor { media_type: media_type.to_owned(), digest, size, platform: None, annotations })
    };
    let config = copy(&saved.config, OCI_CONFIG, MAX_CONFIG)?;
    if saved.layers.len() > 512 {
        return Err(Error::NotAnImage("it has more than 512 layers".to_owned()));
    }
    let layers = saved.layers.iter().map(|layer| copy(layer, OCI_LAYER, MAX_BLOB)).collect::<Result<Vec<_>>>()?;
    let manifest = Manifest { schema_version: 2, media_type: OCI_MANIFEST.to_owned(), config, layers };
    let bytes = serde_json::to_vec(&manifest).map_err(|error| Error::NotAnImage(error.to_string()))?;
    let pin = blobs.put(&bytes)?;
    let digest = pin.digest();
    pins.push(pin);
    Image::from_manifest(blobs, digest, &manifest, pins)
}
