//! Sealing of values at rest: AES-256-GCM with a key in a file beside the database. A sealed value is bound to its row,
//! so that it cannot be moved to another one.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cabana_store::Store;
use cabana_types::Secret;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::data_dir::write_secret;
use crate::error::Error;

/// First byte of a sealed value: the algorithm.
const VERSION: u8 = 1;
const KEY_BYTES: usize = 32;
/// A sealed text by which a key is recognised.
const SETTING: &str = "seal_check";
const CHECK: &[u8] = b"cabana";
/// Content of the file with which an operator gives up all sealed values.
const REPLACE: &str = "new";

/// Why values cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealingError {
    /// The file is gone.
    #[error(
        "{} is missing, and secrets in the database are sealed with it: restore it from a backup. If it is lost for ever, write \
         the word {REPLACE} into this file to start with another key; the values of all secrets then have to be set again",
        path.display()
    )]
    Missing { path: PathBuf },
    /// The file belongs to another database.
    #[error(
        "{} is not the key that secrets in the database are sealed with: restore the right one from a backup. If it is lost for \
         ever, write the word {REPLACE} into this file to start with another key; the values of all secrets then have to be set \
         again",
        path.display()
    )]
    Wrong { path: PathBuf },
    /// The algorithm failed.
    #[error("a value could not be sealed")]
    Failed,
}

/// A value cannot be opened: it was sealed with another key, for another row, or is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed value cannot be opened with this server's key")]
pub(crate) struct Unsealable;

/// Seals and opens values.
pub(crate) struct Sealer {
    key: LessSafeKey,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// Reads the key, or creates it if nothing was ever sealed.
    pub(crate) async fn open(path: &Path, store: &Store) -> Result<Self, Error> {
        let check = store.setting(SETTING).await?.filter(|text| !text.is_empty());
        let text = match std::fs::read_to_string(path) {
            Ok(text) => Some(Secret::new(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::Path { action: "read", path: path.to_owned(), source }),
        };
        match (text, check) {
            (None, None) => Self::create(path, store).await,
            (None, Some(_)) => Err(SealingError::Missing { path: path.to_owned() }.into()),
            (Some(text), _) if text.expose().trim() == REPLACE => {
                tracing::warn!("the key of sealed values is replaced: the values of all secrets have to be set again");
                store.forget_sealed().await?;
                Self::create(path, store).await
            }
            (Some(text), check) => {
                let wrong = || SealingError::Wrong { path: path.to_owned() };
                let key = STANDARD.decode(text.expose().trim()).ok();
                let sealer = key.and_then(|key| Self::new(&key)).ok_or_else(wrong)?;
                match check {
                    Some(check) => {
                        let sealed = STANDARD.decode(check).map_err(|_| wrong())?;
                        sealer.unseal(SETTING, &sealed).map_err(|_| wrong())?;
                    }
                    // A crash between the file and the database.
                    None => sealer.remember(store).await?,
                }
                Ok(sealer)
            }
        }
    }

    async fn create(path: &Path, store: &Store) -> Result<Self, Error> {
        let key: [u8; KEY_BYTES] = rand::random();
        let sealer = Self::new(&key).ok_or_else(|| SealingError::Wrong { path: path.to_owned() })?;
        // The old mark first and the new one last: a crash in between leaves a file without a mark, which is accepted.
        store.set_setting(SETTING, String::new()).await?;
        write_secret(path, &Secret::new(STANDARD.encode(key)))?;
        sealer.remember(store).await?;
        Ok(sealer)
    }

    async fn remember(&self, store: &Store) -> Result<(), Error> {
        let sealed = self.seal(SETTING, CHECK).map_err(|_| SealingError::Failed)?;
        Ok(store.set_setting(SETTING, STANDARD.encode(sealed)).await?)
    }

    fn new(key: &[u8]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, key).ok().map(|key| Self { key: LessSafeKey::new(key) })
    }

    /// Seals a value for the row that `row` identifies.
    pub(crate) fn seal(&self, row: &str, value: &[u8]) -> Result<Vec<u8>, Unsealable> {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = value.to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(row.as_bytes()), &mut sealed)
            .map_err(|_| Unsealable)?;
        Ok([&[VERSION][..], &nonce, &sealed].concat())
    }

    /// Opens a value that was sealed for this row.
    pub(crate) fn unseal(&self, row: &str, sealed: &[u8]) -> Result<Vec<u8>, Unsealable> {
        let (version, rest) = sealed.split_first().ok_or(Unsealable)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(Unsealable)?;
        if *version != VERSION {
            return Err(Unsealable);
        }
        let mut value = rest.to_vec();
        let opened = self
            .key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(row.as_bytes()), &mut value)
            .map_err(|_| Unsealable)?;
        let length = opened.len();
        value.truncate(length);
        Ok(value)
    }

    /// Opens a text.
    pub(crate) fn unseal_text(&self, row: &str, sealed: &[u8]) -> Result<Secret, Unsealable> {
        String::from_utf8(self.unseal(row, sealed)?).map(Secret::new).map_err(|_| Unsealable)
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::new(&[7; KEY_BYTES]).expect("a key")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    async fn store(dir: &tempfile::TempDir) -> Store {
        Store::open(&dir.path().join("cabana.db")).await.expect("store")
    }

    #[test]
    fn a_value_is_bound_to_its_row_and_key() {
        let (sealer, other) = (Sealer::for_tests(), Sealer::new(&[8; KEY_BYTES]).expect("key"));
        for value in [&b""[..], b"v", &[0xff; 70_000]] {
            let sealed = sealer.seal("row/1", value).expect("sealed");
            assert_eq!(sealer.unseal("row/1", &sealed).as_deref(), Ok(value));
            assert_eq!(sealer.unseal("row/2", &sealed), Err(Unsealable));
            assert_eq!(other.unseal("row/1", &sealed), Err(Unsealable));
            for cut in [0, 1, 12, sealed.len() - 1] {
                assert_eq!(sealer.unseal("row/1", &sealed[..cut]), Err(Unsealable));
            }
            let mut flipped = sealed.clone();
            *flipped.last_mut().expect("a byte") ^= 1;
            assert_eq!(sealer.unseal("row/1", &flipped), Err(Unsealable));
            assert_ne!(sealer.seal("row/1", value).expect("again"), sealed, "equal values look different");
        }
    }

    #[tokio::test]
    async fn the_key_is_created_once_and_missed() {
        let dir = tempfile::tempdir().expect("directory");
        let (store, path) = (store(&dir).await, dir.path().join("seal.key"));
        let first = Sealer::open(&path, &store).await.expect("created");
        assert_eq!(std::fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
        let sealed = first.seal("row", b"value").expect("sealed");
        let again = Sealer::open(&path, &store).await.expect("read");
        assert_eq!(again.unseal("row", &sealed).as_deref(), Ok(&b"value"[..]));

        let kept = std::fs::read(&path).expect("key");
        std::fs::remove_file(&path).expect("removed");
        let error = Sealer::open(&path, &store).await.expect_err("missing").to_string();
        assert!(error.contains("seal.key is missing") && error.contains("restore it"), "{error}");
        assert!(!path.exists(), "no other key takes its place");
        for wrong in ["", "nonsense", &STANDARD.encode([1; KEY_BYTES])] {
            std::fs::write(&path, wrong).expect("written");
            let error = Sealer::open(&path, &store).await.expect_err("wrong").to_string();
            assert!(error.contains("is not the key"), "{error}");
        }
        std::fs::write(&path, &kept).expect("restored");
        let restored = Sealer::open(&path, &store).await.expect("restored");
        assert_eq!(restored.unseal("row", &sealed).as_deref(), Ok(&b"value"[..]));

        std::fs::write(&path, "new\n").expect("written");
        let replaced = Sealer::open(&path, &store).await.expect("replaced");
        assert_eq!(replaced.unseal("row", &sealed), Err(Unsealable));
        Sealer::open(&path, &store).await.expect("and kept");
    }

    #[tokio::test]
    async fn a_crash_before_the_mark_is_harmless() {
        let dir = tempfile::tempdir().expect("directory");
        let (store, path) = (store(&dir).await, dir.path().join("seal.key"));
        std::fs::write(&path, STANDARD.encode([3; KEY_BYTES])).expect("written");
        Sealer::open(&path, &store).await.expect("accepted");
        std::fs::write(&path, STANDARD.encode([4; KEY_BYTES])).expect("written");
        Sealer::open(&path, &store).await.expect_err("the first one counts");
    }
}
