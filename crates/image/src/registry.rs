//! Pulls images from registries into the blob store: mirrors first, authentication, retries with backoff, resumed downloads. Every
//! document and blob is checked against its digest; sizes and times are limited.
//!
//! Why not `oci-client`: it is tied to `reqwest`, so requests would not go through the address policy and limits of `cabana-http`. Mirrors,
//! retries, and the record of which repository a blob came from, which keeps private layers private ([`crate::blobs::Origin`]), would
//! remain ours. What it would save is three GET requests.

mod challenge;
mod credentials;
mod download;
mod ecr;
mod response;
mod session;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cabana_http::{AddressPolicy, Client, Config, Limits, Timeouts, Trust};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::Full;
use url::Url;

pub use self::credentials::Credentials;
use self::download::{Download, backoff, blocking};
use self::session::Session;
use crate::blobs::{Blobs, Pin};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::manifest::{self, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, Manifest};
use crate::reference::{DEFAULT_HOST, Reference};
use crate::sources::{Sources, authority};

/// The API endpoint of `docker.io`.
const DOCKER_HUB: &str = "https://registry-1.docker.io";

/// Limits of one pull.
#[derive(Debug, Clone)]
pub struct PullLimits {
    /// Bytes of one compressed layer.
    pub blob: u64,
    /// Bytes of all compressed layers.
    pub total: u64,
    /// Time for the whole pull.
    pub time: Duration,
    /// Layers that are downloaded at the same time.
    pub parallel: usize,
    /// Attempts for each manifest and blob at each registry or mirror.
    pub attempts: u32,
    /// Delay before the second attempt; doubled for each further one.
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

/// Progress of a pull.
#[derive(Debug, Clone)]
pub enum Event {
    /// The manifest is known; its layers follow.
    Resolved {
        /// Digest of the manifest.
        digest: Digest,
        /// Number of layers.
        layers: usize,
        /// Bytes of the compressed layers.
        bytes: u64,
    },
    /// Part of a blob has been downloaded.
    Blob {
        /// The blob.
        digest: Digest,
        /// Bytes downloaded so far.
        done: u64,
        /// Size of the blob.
        total: u64,
    },
    /// A request is retried.
    Retry {
        /// The image or blob.
        what: String,
        /// Why the last attempt failed.
        reason: String,
    },
}

/// A callback for progress events.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&Event) + Send + Sync>);

impl Progress {
    /// Calls `callback`, which must not block.
    pub fn new(callback: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    /// Ignores all events.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    fn report(&self, event: &Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// A client for OCI registries.
pub struct Registry {
    sources: Sources,
    http: Client<Full<Bytes>>,
    /// Replaces Amazon's endpoint in tests.
    ecr: Option<Url>,
}

impl Registry {
    /// A client with the operator's settings.
    pub fn new(sources: Sources, timeouts: Timeouts) -> Self {
        let http = Client::new(Config {
            trust: Trust { authorities: sources.authorities.clone(), ..Trust::default() },
            // Image names come from build requests: they must not make the server talk to its own network.
            addresses: AddressPolicy::Public { internal_hosts: sources.internal_hosts() },
            timeouts,
            limits: Limits::default(),
            pooled: false,
        });
        Self { sources, http, ecr: None }
    }

    /// Asks `endpoint` instead of Amazon for ECR passwords.
    pub fn with_ecr(mut self, endpoint: Url) -> Self {
        self.ecr = Some(endpoint);
        self
    }

    /// Pulls an image into the store. The registry is asked for the manifest every time, so that one user's password does not open an
    /// image to others; blobs that this caller may already have are not downloaded again. Dropping the future cancels the pull and
    /// leaves no partial blob behind.
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
                // The registry itself comes last; its error is the one to report.
                Err(error) if number + 1 == sessions.len() => return Err(error),
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::warn!(mirror = %session.host, image = %reference, error, "a mirror could not serve an image");
                    progress.report(&Event::Retry { what: reference.to_string(), reason: error.to_string() });
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
        let missing = layers.iter().filter(|layer| blobs.size(layer.digest).is_none()).map(|layer| layer.size).sum();
        // Each blob is reserved when its download begins; this fails before the first.
        blobs.check_space(missing)?;
        progress.report(&Event::Resolved { digest, layers: manifest.layers.len(), bytes });

        let sessions = &sessions;
        // The configuration first: an image for another platform fails here.
        self.blob(sessions, number, &manifest.config, blobs, limits, progress).await?;
        let (store, config) = (blobs.clone(), manifest.config.digest);
        let config = blocking(move || store.read(config, MAX_CONFIG)).await?;
        manifest::ImageConfig::parse(&config, manifest.layers.len())?;
        let mut fetching: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for layer in &layers {
            // Boxed one by one: through a closure the compiler cannot prove that the future is `Send`.
            fetching.push(Box::pin(self.blob(sessions, number, layer, blobs, limits, progress)));
        }
        stream::iter(fetching).buffer_unordered(limits.parallel.max(1)).try_collect::<Vec<()>>().await?;
        let store = blobs.clone();
        blocking(move || Image::from_manifest(&store, digest, &manifest, pins)).await
    }

    /// The mirrors, without credentials, then the registry itself.
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
        let settings = self.sources.host(host);
        let mut sessions = Vec::new();
        for mirror in settings.iter().flat_map(|settings| &settings.mirrors) {
            let name = authority(mirror);
            // Caching registries keep what they mirror below a path.
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

    /// Fetches and stores the manifest for this platform, through an index where there is one.
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
        // An index may lead to one more index, not further.
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
    ) -> Result<(Bytes, Option<String>)> {
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
            progress.report(&Event::Retry { what: reference.to_string(), reason: error.to_string() });
            backoff(limits.backoff, attempt).await;
        }
    }

    async fn fetch_once(
        &self,
        session: &Session<'_>,
        reference: &Reference,
        version: &str,
        expected: Option<Digest>,
    ) -> Result<(Bytes, Option<String>)> {
        let mut headers = HeaderMap::new();
        let kinds = [manifest::OCI_INDEX, manifest::OCI_MANIFEST, manifest::DOCKER_LIST, manifest::DOCKER_MANIFEST];
        for kind in kinds {
            headers.append(header::ACCEPT, HeaderValue::from_static(kind));
        }
        let response = session.get(&format!("manifests/{version}"), headers, &reference.to_string()).await?;
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let kind = text("content-type").map(|kind| kind.split(';').next().unwrap_or_default().trim().to_owned());
        // Without a digest in the name, the one that the registry announces is checked.
        let expected = expected.or_else(|| text("docker-content-digest").and_then(|digest| digest.parse().ok()));
        let bytes = response::read(response, "the manifest", MAX_MANIFEST).await?;
        let found = Digest::of(&bytes);
        match expected {
            Some(expected) if expected != found => {
                Err(Error::Corrupt { what: format!("the manifest of {reference}"), expected, found })
            }
            _ => Ok((bytes, kind)),
        }
    }

    /// Downloads one blob from where the manifest was found, or else from the others.
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
        // A blob that was fetched with other credentials must be fetched again: knowing a digest is no permission.
        if blobs.is_there_for(&sessions[first].origin(), digest, total) {
            progress.report(&Event::Blob { digest, done: total, total });
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
