//! Location, credentials and timeouts of cold storage.

use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cabana_types::Secret;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use rustix::fs::{Mode, OFlags};

use super::http::Connector;
use crate::Error;

/// Where cold storage is.
#[derive(Debug, Clone, Default)]
pub struct ColdConfig {
    /// The absolute path of a directory, or `s3://bucket/prefix`. No other server may use the same location.
    pub location: String,
    /// The URL of an S3-compatible service (`https://host:port`); AWS itself if there is none.
    pub endpoint: Option<String>,
    /// The bucket's region; `us-east-1` if there is none, which most services other than AWS accept.
    pub region: Option<String>,
    /// The access key's id.
    pub key_id: Option<String>,
    /// The key's secret.
    pub secret: Option<Secret>,
    /// Whether the endpoint may be `http://`: disks then cross the network unencrypted.
    pub allow_http: bool,
    /// Timeouts of requests.
    pub timeouts: Timeouts,
}

/// Timeouts of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A request fails (and is retried) when no byte moved for this long.
    pub stall: Duration,
    /// A request is not retried when this much time has passed since the first attempt.
    pub retry: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { stall: Duration::from_secs(30), retry: Duration::from_secs(180) }
    }
}

/// A store, the prefix of all objects, and the location for messages.
type Built = (Arc<dyn ObjectStore>, Path, String);

impl ColdConfig {
    pub(super) async fn build(&self) -> Result<Built, Error> {
        match self.location.strip_prefix("s3://") {
            Some(rest) => self.bucket(rest),
            None => {
                let directory = PathBuf::from(&self.location);
                let work = tokio::task::spawn_blocking(move || open_directory(&directory));
                work.await.map_err(|e| Error::Io { action: "open cold storage", source: e.into() })?
            }
        }
    }

    fn bucket(&self, rest: &str) -> Result<Built, Error> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(letter) {
            return Err(invalid(format!("{:?} is not the name of a bucket", bucket)));
        }
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|e| invalid(e.to_string()))?;
        let (Some(key_id), Some(secret)) = (&self.key_id, &self.secret) else {
            return Err(invalid("a bucket needs a key id and its secret".to_owned()));
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(self.region.as_deref().unwrap_or("us-east-1"))
            .with_access_key_id(key_id)
            .with_secret_access_key(secret.expose())
            .with_allow_http(self.allow_http)
            // Not every service can delete several objects at once.
            .with_disable_bulk_delete(true)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: 10,
                retry_timeout: self.timeouts.retry,
            })
            .with_http_connector(Connector::new(!self.allow_http, self.timeouts.stall)?);
        if let Some(endpoint) = &self.endpoint {
            let url = url::Url::parse(endpoint).map_err(|e| invalid(format!("the endpoint {endpoint:?}: {e}")))?;
            let bare = url.path() == "/" && url.query().is_none() && url.username().is_empty();
            if !bare || url.host_str().is_none() || !matches!(url.scheme(), "http" | "https") {
                return Err(invalid(format!("the endpoint {endpoint:?} is not of the form https://host:port")));
            }
            if url.scheme() == "http" && !self.allow_http {
                return Err(invalid(format!("the endpoint {endpoint} is not encrypted, and this is not allowed")));
            }
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        let store = builder.build().map_err(|e| invalid(e.to_string()))?;
        let place = match &self.endpoint {
            Some(endpoint) => format!("{} at {endpoint}", self.location),
            None => self.location.clone(),
        };
        Ok((Arc::new(store), prefix, place))
    }
}

fn invalid(problem: String) -> Error {
    Error::ColdSettings { problem }
}

fn open_directory(directory: &path::Path) -> Result<Built, Error> {
    if !directory.is_absolute() {
        return Err(invalid(format!("{directory:?} is neither an absolute path nor s3://bucket/prefix")));
    }
    let at = |action| move |source| Error::Path { action, path: directory.to_owned(), source };
    std::fs::create_dir_all(directory).map_err(at("create"))?;
    // Other users of the host must not read the files of sandboxes.
    let open = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let fd = open.map_err(|e| at("open")(e.into()))?;
    rustix::fs::fchmod(&fd, Mode::RWXU).map_err(|e| at("close to others")(e.into()))?;
    remove_unfinished(directory).map_err(at("clean"))?;
    let store = LocalFileSystem::new_with_prefix(directory).map_err(|e| invalid(e.to_string()))?.with_fsync(true);
    Ok((Arc::new(store), Path::default(), directory.display().to_string()))
}

/// The local store writes uploads beside their object, under its name with `#` and a number, and does not list them.
fn remove_unfinished(directory: &path::Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let file = entry.file_name();
        let unfinished = file.to_str().and_then(|f| f.rsplit_once('#')).is_some_and(|(name, number)| {
            super::manifest::Name::parse(name).is_some() && number.bytes().all(|b| b.is_ascii_digit())
        });
        if unfinished && entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> ColdConfig {
        ColdConfig {
            location: "s3://bucket/some/prefix/".to_owned(),
            endpoint: Some("https://storage.example:9000".to_owned()),
            key_id: Some("key".to_owned()),
            secret: Some(Secret::new("hunter2")),
            ..ColdConfig::default()
        }
    }

    #[tokio::test]
    async fn settings_are_checked() {
        let (_, prefix, place) = bucket().build().await.expect("a bucket");
        assert_eq!(prefix.as_ref(), "some/prefix");
        assert_eq!(place, "s3://bucket/some/prefix/ at https://storage.example:9000");
        let wrong = [
            ColdConfig { location: "relative/path".to_owned(), ..bucket() },
            ColdConfig { location: String::new(), ..bucket() },
            ColdConfig { location: "s3://".to_owned(), ..bucket() },
            ColdConfig { location: "s3://Bucket!/x".to_owned(), ..bucket() },
            ColdConfig { location: "s3://bucket/a//b".to_owned(), ..bucket() },
            ColdConfig { endpoint: Some("http://storage.example".to_owned()), ..bucket() },
            ColdConfig { endpoint: Some("https://storage.example/path".to_owned()), ..bucket() },
            ColdConfig { endpoint: Some("ftp://storage.example".to_owned()), ..bucket() },
            ColdConfig { endpoint: Some("storage".to_owned()), ..bucket() },
            ColdConfig { key_id: None, ..bucket() },
            ColdConfig { secret: None, ..bucket() },
        ];
        for config in wrong {
            let error = config.build().await.map(|_| ()).expect_err(&format!("{config:?}"));
            assert!(matches!(error, Error::ColdSettings { .. }), "{error:?}");
        }
    }

    #[tokio::test]
    async fn the_secret_is_never_shown() {
        let store = super::super::ColdStore::open(&bucket()).await.expect("a bucket");
        assert!(!format!("{store:?} {:?}", bucket()).contains("hunter2"));
    }

    #[test]
    fn unfinished_uploads_are_removed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let names = ["iabc-1.tar.zst", "iabc-1.tar.zst#1", "iabc-2.json#12", "other#1", "iabc-1.tar.zst#x"];
        for name in names {
            std::fs::write(scratch.path().join(name), "").expect("written");
        }
        open_directory(scratch.path()).expect("opened");
        let mut left: Vec<_> = std::fs::read_dir(scratch.path())
            .expect("listed")
            .map(|e| e.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        left.sort();
        assert_eq!(left, ["iabc-1.tar.zst", "iabc-1.tar.zst#x", "other#1"]);
    }
}
