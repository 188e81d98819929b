//! The manifest beside an archive, which describes it, and the names of both objects.

use std::fmt;
use std::str::FromStr;

use cabana_types::SandboxId;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The version of archive and manifest that we write and read.
pub(super) const FORMAT: u32 = 1;
/// Longer objects are not manifests.
pub(super) const LONGEST: u64 = 64 << 10;
/// Suffix of the archive's name.
pub(super) const DATA: &str = ".tar.zst";
/// Suffix of the manifest's name.
pub(super) const MANIFEST: &str = ".json";

/// A SHA-256 digest, written in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// The text is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest: expected 64 hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(InvalidDigest),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| Ok(digit(*high)? << 4 | digit(*low)?));
        let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
        if !rest.is_empty() {
            return Err(InvalidDigest);
        }
        Ok(Self(bytes.try_into().map_err(|_| InvalidDigest)?))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// What an archive is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format: 1.
    pub format: u32,
    /// Whose disk it is.
    pub sandbox_id: SandboxId,
    /// The attempt to archive it.
    pub generation: u64,
    /// Bytes of the archive as it is stored.
    pub length: u64,
    /// Digest of the archive as it is stored.
    pub sha256: Digest,
    /// When it was written.
    pub created_at: jiff::Timestamp,
    /// Bytes of data and attributes in it.
    pub bytes: u64,
    /// Files, directories and so on in it.
    pub entries: u64,
}

impl Manifest {
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec_pretty(self).map_err(|e| Error::Io { action: "encode a manifest", source: e.into() })
    }

    /// Parses the manifest of exactly this archive.
    pub(super) fn decode(bytes: &[u8], name: &Name) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if format != FORMAT {
            return Err(format!("it is of format {format}; this version reads format {FORMAT}"));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if (&manifest.sandbox_id, manifest.generation) != (&name.id, name.generation) {
            return Err(format!("it is that of {}, generation {}", manifest.sandbox_id, manifest.generation));
        }
        Ok(manifest)
    }
}

/// One generation of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) id: SandboxId,
    pub(super) generation: u64,
}

impl Name {
    /// The name of an object.
    pub(super) fn file(&self, suffix: &str) -> String {
        format!("{}-{}{suffix}", self.id, self.generation)
    }

    /// Parses an object's name; `None` if it is not one of ours.
    pub(super) fn parse(file: &str) -> Option<(Self, &'static str)> {
        let (rest, suffix) = [DATA, MANIFEST].into_iter().find_map(|s| Some((file.strip_suffix(s)?, s)))?;
        let (id, generation) = rest.split_once('-')?;
        let name = Self { id: id.parse().ok()?, generation: generation.parse().ok()? };
        (name.file(suffix) == file).then_some((name, suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name { id: "iabc".parse().expect("an id"), generation: 7 }
    }

    #[test]
    fn names_come_back() {
        for suffix in [DATA, MANIFEST] {
            assert_eq!(Name::parse(&name().file(suffix)), Some((name(), suffix)));
        }
        for other in
            ["iabc.json", "iabc-07.json", "iabc-+7.json", "iabc--7.json", "IABC-7.json", "iabc-7.tar", "-7.json", ""]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn digests_come_back() {
        let digest = Digest::new(std::array::from_fn(|i| u8::try_from(i * 8).expect("small")));
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for other in ["", "ab", &"g".repeat(64), &"A".repeat(64), &"a".repeat(63), &"a".repeat(65), &"a".repeat(66)] {
            assert_eq!(other.parse::<Digest>(), Err(InvalidDigest), "{other}");
        }
    }

    #[test]
    fn a_manifest_is_that_of_its_archive() {
        let manifest = Manifest {
            format: FORMAT,
            sandbox_id: name().id,
            generation: 7,
            length: 3,
            sha256: Digest::new([1; 32]),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            bytes: 4,
            entries: 5,
        };
        let bytes = manifest.encode().expect("spelled");
        assert_eq!(Manifest::decode(&bytes, &name()), Ok(manifest.clone()));
        let other = Name { generation: 8, ..name() };
        assert!(Manifest::decode(&bytes, &other).expect_err("another").contains("generation 7"));
        let newer = Manifest { format: 2, ..manifest }.encode().expect("spelled");
        assert!(Manifest::decode(&newer, &name()).expect_err("newer").contains("format 2"));
        assert!(Manifest::decode(b"{}", &name()).is_err());
        assert!(Manifest::decode(b"[", &name()).is_err());
    }
}
