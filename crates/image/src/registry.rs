//! Pulling images from registries: mirrors first, tokens and passwords, retries, everything checked against its digest,
//! everything bounded in size and time. What arrives goes into the store of blobs.

mod addresses;
mod challenge;
mod credentials;
mod download;
mod ecr;
mod http;
mod session;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, header};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use url::Url;

pub use self::credentials::Credentials;
use self::download::{Download, blocking, pause};
use self::http::Http;
pub use self::http::Patience;
use self::session::Session;
use crate::blobs::{Blobs, Pin};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::manifest::{self, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, Manifest};
use crate::reference::{DEFAULT_HOST, Reference};
use crate::sources::Sources;

/// Docker's registry has another name than its images.
const DOCKER_HUB: &str = "https://registry-1.docker.io";

/// What a pull may cost.
#[derive(Debug, Clone)]
pub struct PullLimits {
    /// Bytes of one layer as it is packed.
    pub blob: u64,
    /// Bytes of all layers as they are packed.
    pub total: u64,
    /// The whole pull.
    pub time: Duration,
    /// Layers at the same time.
    pub parallel: usize,
    /// Tries for each manifest and blob at each registry or mirror.
    pub attempts: u32,
    /// Before the second try; doubled for each further one.
    pub backoff: Duration,
}

impl Default for PullLimits {
    fn default() -> Self {
        Self {
            blob: 16 << 30,
            total: 32 << 30,
            time: Duration::from_secs(30 * 60),
            parallel: 4,
            attempts: 5,
            backoff: Duration::from_millis(400),
        }
    }
}

/// What happens during a pull.
#[derive(Debug, Clone)]
pub enum Event {
    /// The image is known; what follows is its layers.
    Resolved {
        /// The digest of its manifest.
        digest: Digest,
        /// Layers.
        layers: usize,
        /// Their bytes as they are packed.
        bytes: u64,
    },
    /// A blob has come this far.
    Blob {
        /// Which.
        digest: Digest,
        /// Bytes that are there.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Something is tried again.
    Retry {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

/// Who is told.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&Event) + Send + Sync>);

impl Progress {
    /// Calls a function, which should not block.
    pub fn new(tell: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Tells nobody.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    fn tell(&self, event: &Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// A client of registries.
pub struct Registry {
    http: Http,
    /// In place of Amazon's, for tests.
    ecr: Option<Url>,
}

impl Registry {
    /// With the operator's settings.
    pub fn new(sources: Sources, patience: Patience) -> Self {
        Self { http: Http::new(Arc::new(sources), patience), ecr: None }
    }

    /// Asks `endpoint` in place of Amazon for passwords of its registry.
    pub fn with_ecr(mut self, endpoint: Url) -> Self {
        self.ecr = Some(endpoint);
        self
    }

    /// Pulls an image into the store. Blobs that are there already are not fetched again; but its registry is asked every time,
    /// so that what somebody's password opened stays closed to others. Dropping the future ends it
    /// and leaves no part of a blob behind.
    pub async fn pull(
        &self,
        reference: &Reference,
        credentials: Option<&Credentials>,
        blobs: &Blobs,
        limits: &PullLimits,
        progress: &Progress,
    ) -> Result<Image> {
        let work = Box::pin(self.pull_all(reference, credentials, blobs, limits, progress));
        match tokio::time::timeout(limits.time, work).await {
            Ok(result) => result,
            Err(_) => Err(Error::TimedOut("pulling the image")),
        }
    }

    async fn pull_all(
        &self,
        reference: &Reference,
        credentials: Option<&Credentials>,
        blobs: &Blobs,
        limits: &PullLimits,
        progress: &Progress,
    ) -> Result<Image> {
        let mut pins = Vec::new();
        let sessions = self.sessions(reference, credentials).await?;
        let mut found = None;
        for (number, session) in sessions.iter().enumerate() {
            match self.manifest(session, reference, blobs, limits, progress, &mut pins).await {
                Ok((digest, manifest)) => {
                    found = Some((number, digest, manifest));
                    break;
                }
                // The registry itself comes last: what it says is the answer.
                Err(error) if number + 1 == sessions.len() => return Err(error),
                Err(error) => {
                    tracing::warn!(mirror = %session.host, image = %reference, error = %cabana_types::error::chain(&error), "a mirror does not help");
                    progress.tell(&Event::Retry { what: reference.to_string(), reason: error.to_string() });
                }
            }
        }
        let Some((number, digest, manifest)) = found else {
            return Err(Error::NotAnImage("it has no registry".to_owned()));
        };
        check_sizes(&manifest, limits)?;
        let layers = unique(&manifest);
        pins.push(blobs.pin(manifest.config.digest));
        pins.extend(layers.iter().map(|layer| blobs.pin(layer.digest)));
        let bytes = layers.iter().map(|layer| layer.size).sum();
        progress.tell(&Event::Resolved { digest, layers: manifest.layers.len(), bytes });

        let sessions = &sessions;
        // The configuration first: an image for other machines ends here.
        self.blob(sessions, number, &manifest.config, blobs, limits, progress).await?;
        let config = blobs.read(manifest.config.digest, MAX_CONFIG)?;
        manifest::ImageConfig::parse(&config, manifest.layers.len())?;
        let mut fetching: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for layer in &layers {
            // Boxed one by one: through a closure the compiler cannot see that the whole may move between threads.
            fetching.push(Box::pin(self.blob(sessions, number, layer, blobs, limits, progress)));
        }
        stream::iter(fetching).buffer_unordered(limits.parallel.max(1)).try_collect::<Vec<()>>().await?;
        let store = blobs.clone();
        blocking(move || Image::from_manifest(&store, digest, &manifest, pins)).await
    }

    /// The mirrors without, and the registry with credentials.
    async fn sessions(&self, reference: &Reference, credentials: Option<&Credentials>) -> Result<Vec<Session<'_>>> {
        let login = match credentials {
            None => None,
            Some(Credentials::Aws { aws_access_key_id, aws_secret_access_key, aws_region }) => {
                let key = ecr::Key { id: aws_access_key_id, secret: aws_secret_access_key, region: aws_region };
                Some(ecr::login(&self.http, &key, self.ecr.as_ref()).await?)
            }
            Some(other) => other.login()?,
        };
        let host = reference.host();
        let settings = self.http.sources.host(host);
        let mut sessions = Vec::new();
        for mirror in settings.iter().flat_map(|settings| &settings.mirrors) {
            let name = http::authority(mirror)?;
            // A path of a mirror is where it keeps what it mirrors, as caching registries have it.
            let prefix = mirror.path().trim_matches('/');
            let repository =
                if prefix.is_empty() { reference.path().to_owned() } else { format!("{prefix}/{}", reference.path()) };
            sessions.push(Session::new(&self.http, mirror, &name, &repository, None));
        }
        let scheme = if settings.is_some_and(|settings| settings.plain_http) { "http" } else { "https" };
        let endpoint = if host == DEFAULT_HOST && scheme == "https" {
            DOCKER_HUB.to_owned()
        } else {
            format!("{scheme}://{host}")
        };
        let endpoint = endpoint.parse().map_err(|error: url::ParseError| Error::InvalidReference {
            text: reference.to_string(),
            reason: error.to_string(),
        })?;
        sessions.push(Session::new(&self.http, &endpoint, host, reference.path(), login));
        Ok(sessions)
    }

    /// The manifest for this machine, through an index where there is one. Stored.
    async fn manifest(
        &self,
        session: &Session<'_>,
        reference: &Reference,
        blobs: &Blobs,
        limits: &PullLimits,
        progress: &Progress,
        pins: &mut Vec<Pin>,
    ) -> Result<(Digest, Manifest)> {
        let mut version = reference.version();
        let mut expected = reference.digest();
        // An index may lead to another one, not further.
        for _ in 0..3 {
            let (bytes, kind) = self.fetch_manifest(session, reference, &version, expected, limits, progress).await?;
            match manifest::parse(&bytes, kind.as_deref())? {
                Document::Index(list) => {
                    let chosen = manifest::choose(&list)?;
                    version = chosen.digest.to_string();
                    expected = Some(chosen.digest);
                }
                Document::Image(manifest) => {
                    let store = blobs.clone();
                    let pin = blocking(move || store.put(&bytes)).await?;
                    let digest = pin.digest();
                    pins.push(pin);
                    return Ok((digest, manifest));
                }
            }
        }
        Err(Error::NotAnImage("its indexes lead to further indexes".to_owned()))
    }

    async fn fetch_manifest(
        &self,
        session: &Session<'_>,
        reference: &Reference,
        version: &str,
        expected: Option<Digest>,
        limits: &PullLimits,
        progress: &Progress,
    ) -> Result<(Vec<u8>, Option<String>)> {
        let mut attempt = 0;
        loop {
            let error = match self.fetch_once(session, reference, version, expected).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            attempt += 1;
            if !error.is_transient() || attempt >= limits.attempts {
                return Err(error);
            }
            progress.tell(&Event::Retry { what: reference.to_string(), reason: error.to_string() });
            pause(limits.backoff, attempt).await;
        }
    }

    async fn fetch_once(
        &self,
        session: &Session<'_>,
        reference: &Reference,
        version: &str,
        expected: Option<Digest>,
    ) -> Result<(Vec<u8>, Option<String>)> {
        let mut headers = HeaderMap::new();
        let kinds = [manifest::OCI_INDEX, manifest::OCI_MANIFEST, manifest::DOCKER_LIST, manifest::DOCKER_MANIFEST];
        for kind in kinds {
            headers.append(header::ACCEPT, HeaderValue::from_static(kind));
        }
        let answer = session.get(&format!("manifests/{version}"), headers, &reference.to_string()).await?;
        let text = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let kind = text("content-type").map(|kind| kind.split(';').next().unwrap_or_default().trim().to_owned());
        // Without a digest in the name, the registry's own word is held against it.
        let expected = expected.or_else(|| text("docker-content-digest").and_then(|digest| digest.parse().ok()));
        let bytes = answer.whole("the manifest", MAX_MANIFEST).await?;
        let found = Digest::of(&bytes);
        match expected {
            Some(expected) if expected != found => {
                Err(Error::Corrupt { what: format!("the manifest of {reference}"), expected, found })
            }
            _ => Ok((bytes, kind)),
        }
    }

    /// One blob, from where the manifest was found or else from the others.
    async fn blob(
        &self,
        sessions: &[Session<'_>],
        first: usize,
        descriptor: &Descriptor,
        blobs: &Blobs,
        limits: &PullLimits,
        progress: &Progress,
    ) -> Result<()> {
        let (digest, total) = (descriptor.digest, descriptor.size);
        // What is there for others must be fetched all the same by whoever has only heard of it.
        if blobs.is_there_for(&sessions[first].origin(), digest, total) {
            progress.tell(&Event::Blob { digest, done: total, total });
            return Ok(());
        }
        let download = Download { blobs, descriptor, limits, progress };
        let mut last = None;
        for session in sessions[first..].iter().chain(&sessions[..first]) {
            match Box::pin(download.from(session)).await {
                Ok(()) => return blobs.came_from(digest, &session.origin()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(Error::Cancelled))
    }
}

fn unique(manifest: &Manifest) -> Vec<Descriptor> {
    let mut seen = HashSet::new();
    manifest.layers.iter().filter(|layer| seen.insert(layer.digest)).cloned().collect()
}

fn check_sizes(manifest: &Manifest, limits: &PullLimits) -> Result<()> {
    if manifest.config.size > MAX_CONFIG {
        return Err(Error::TooLarge { what: "the image's configuration".to_owned(), limit: MAX_CONFIG });
    }
    let mut total = 0_u64;
    for layer in &manifest.layers {
        if layer.size > limits.blob {
            return Err(Error::TooLarge { what: format!("layer {}", layer.digest), limit: limits.blob });
        }
        total = total.saturating_add(layer.size);
    }
    if total > limits.total {
        return Err(Error::TooLarge { what: "the image".to_owned(), limit: limits.total });
    }
    Ok(())
}
