//! Registries that send wrong data, break off, stall or redirect: each pull ends in time with a reason, and the store
//! has only valid blobs afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cabana_http::Timeouts;
use cabana_image::blobs::Blobs;
use cabana_image::registry::{Credentials, Progress, PullLimits, Registry};
use cabana_image::{Digest, Error, Image, Result};

use crate::plain_http::{Asked, Reply, Server};
use crate::pulls::{internal, limits};
use crate::sample::{OCI_MANIFEST, Sample};

/// A blob store and its invariants.
struct Store {
    directory: tempfile::TempDir,
    blobs: Blobs,
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(directory.path()).unwrap();
        Self { directory, blobs }
    }

    /// Every blob matches its name, and no partial file is left.
    fn check(&self) {
        for entry in std::fs::read_dir(self.directory.path().join("sha256")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(Digest::of(&std::fs::read(&path).unwrap()).hex(), name, "a poisoned blob");
        }
        assert_eq!(std::fs::read_dir(self.directory.path().join("partial")).unwrap().count(), 0, "a part is left");
    }

    async fn pull(&self, server: &Server, limits: &PullLimits) -> Result<Image> {
        self.pull_with(server, limits, Timeouts::default(), None).await
    }

    async fn pull_with(
        &self,
        server: &Server,
        limits: &PullLimits,
        patience: Timeouts,
        credentials: Option<Credentials>,
    ) -> Result<Image> {
        let host = server.address.to_string();
        let registry =
            Registry::new(internal(&[&host]), patience).with_ecr(format!("http://{host}/ecr").parse().unwrap());
        let reference = format!("{host}/app:v1").parse().unwrap();
        let result = registry.pull(&reference, credentials.as_ref(), &self.blobs, limits, &Progress::none()).await;
        self.check();
        result
    }
}

/// Response of a correct registry.
fn honest(sample: &Sample, asked: &Asked) -> Reply {
    let name = asked.path.rsplit('/').next().unwrap();
    if asked.path.starts_with("/v2/app/manifests/") {
        return Reply::new(200, sample.manifest.clone()).header("Content-Type", sample.media_type);
    }
    let blob = name.parse::<Digest>().ok().and_then(|digest| sample.blobs.get(&digest));
    match blob {
        Some(bytes) if asked.path.starts_with("/v2/app/blobs/") => {
            let range = asked.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
            match range.and_then(|from| from.parse::<usize>().ok()) {
                Some(from) => Reply::new(206, bytes[from..].to_vec())
                    .header("Content-Range", format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len())),
                None => Reply::new(200, bytes.clone()),
            }
        }
        _ => Reply::new(404, r#"{"errors":[{"code":"UNKNOWN","message":"no"}]}"#),
    }
}

/// A correct registry, but blobs of layers pass through `change` with the number of the request.
fn lying(sample: &Arc<Sample>, change: impl Fn(usize, Reply) -> Reply + Send + Sync + 'static) -> Server {
    let (sample, asked_before) = (sample.clone(), AtomicUsize::new(0));
    Server::start(move |asked| {
        let reply = honest(&sample, asked);
        let is_layer = sample.layers.iter().any(|layer| asked.path.ends_with(&layer.hex()));
        if is_layer { change(asked_before.fetch_add(1, Ordering::SeqCst), reply) } else { reply }
    })
}

fn one_layer() -> Arc<Sample> {
    // It must not be compressible.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(200_000)
    .collect();
    Arc::new(Sample::of(&[vec![crate::archive::file("x", noise)]]))
}

#[tokio::test]
async fn a_correct_registry_works() {
    let sample = Arc::new(Sample::new());
    let store = Store::new();
    store.pull(&lying(&sample, |_, reply| reply), &limits()).await.unwrap();
    assert_eq!(store.blobs.read(sample.digest(), 1 << 20).unwrap(), sample.manifest);
}

#[tokio::test]
async fn wrong_bytes_are_refused() {
    let sample = one_layer();
    let store = Store::new();
    let flip = |mut reply: Reply| {
        let last = reply.body.len() - 1;
        reply.body[last] ^= 1;
        reply
    };
    let error = store.pull(&lying(&sample, move |_, reply| flip(reply)), &limits()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(store.blobs.size(sample.layers[0]).is_none());
    // Once may be an accident.
    let server = lying(&sample, move |n, reply| if n == 0 { flip(reply) } else { reply });
    store.pull(&server, &limits()).await.unwrap();

    let longer = lying(&one_layer(), |_, mut reply| {
        reply.body.extend([7; 1000]);
        reply
    });
    let store = Store::new();
    let error = store.pull(&longer, &limits()).await.unwrap_err();
    assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains("more than")), "{error}");
}

#[tokio::test]
async fn wrong_manifests_are_refused() {
    let sample = Arc::new(Sample::new());
    let manifest = sample.manifest.clone();
    let serve = |reply: Reply| Server::start(move |_| reply.clone());
    let lie = Reply::new(200, manifest)
        .header("Content-Type", OCI_MANIFEST)
        .header("Docker-Content-Digest", Digest::of(b"x").to_string());
    let old = Reply::new(200, r#"{"schemaVersion":1,"fsLayers":[]}"#);
    let huge = Reply::new(200, vec![b' '; 5 << 20]);
    let page = Reply::new(200, "<html>captive portal</html>");
    let many = format!(
        r#"{{"schemaVersion":2,"config":{{"digest":"{0}","size":1}},"layers":[{{"digest":"{0}","size":99999999999999}}]}}"#,
        Digest::of(b"")
    );
    let loop_index = format!(r#"{{"schemaVersion":2,"manifests":[{{"digest":"{}","size":1}}]}}"#, Digest::of(b"x"));
    let store = Store::new();
    for (reply, expected) in [
        (lie, "corrupt"),
        (old, "schema 1"),
        (huge, "too large"),
        (page, "malformed"),
        (Reply::new(200, many), "too large"),
        (Reply::new(200, loop_index), "corrupt"),
        (Reply::new(418, r#"{"errors":[{"message":"a\u001b[31m teapot"}]}"#), "418: a[31m teapot"),
    ] {
        let error = store.pull(&serve(reply), &limits()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    // A layer that is not what the configuration promises is noticed when it is unpacked.
    let plain = crate::archive::tar(&[crate::archive::file("x", "1")]);
    let config = serde_json::json!({"os": "linux", "architecture": cabana_image::manifest::Platform::here().architecture,
        "rootfs": {"diff_ids": [Digest::of(b"something else")]}});
    let sample = Arc::new(Sample::with(&[plain], &config, OCI_MANIFEST));
    let image = store.pull(&lying(&sample, |_, reply| reply), &limits()).await.unwrap();
    let root = tempfile::tempdir().unwrap();
    let fd = std::fs::File::open(root.path()).unwrap();
    let stop = cabana_image::Stop::after(Duration::from_secs(9));
    let result = image.assemble(std::os::fd::AsFd::as_fd(&fd), &cabana_image::unpack::Limits::default(), &stop, |_| {});
    assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
}

#[tokio::test]
async fn temporary_failures_are_retried() {
    let sample = one_layer();
    for status in [500, 502, 503, 429] {
        let server = lying(&sample, move |n, reply| if n < 2 { Reply::new(status, "busy") } else { reply });
        Store::new().pull(&server, &limits()).await.unwrap();
    }
    let server = lying(&sample, |_, _| Reply::new(503, r#"{"errors":[{"message":"down for today"}]}"#));
    let error = Store::new().pull(&server, &limits()).await.unwrap_err();
    assert!(matches!(&error, Error::Status { status: 503, message, .. } if message == "down for today"), "{error}");
    assert!(server.paths().len() < 10, "{:?}", server.paths());
}

#[tokio::test]
async fn interrupted_downloads_are_resumed() {
    let sample = one_layer();
    let server = lying(&sample, |n, mut reply| {
        // A reset in the middle, twice; what came before is kept.
        reply.cut = (n < 2).then_some(60_000);
        reply
    });
    Store::new().pull(&server, &limits()).await.unwrap();
    let ranges: Vec<Option<String>> = server
        .asked
        .lock()
        .unwrap()
        .iter()
        .filter(|asked| asked.path.ends_with(&sample.layers[0].hex()))
        .map(|asked| asked.headers.get("range").cloned())
        .collect();
    assert_eq!(ranges, [None, Some("bytes=60000-".to_owned()), Some("bytes=120000-".to_owned())]);

    // A server that cannot resume, one that says so wrongly, and one that never gets further.
    let whole = sample.blobs[&sample.layers[0]].clone();
    let server = lying(&sample, move |n, mut reply| {
        if n == 0 {
            reply.cut = Some(60_000);
            return reply;
        }
        Reply::new(200, whole.clone())
    });
    Store::new().pull(&server, &limits()).await.unwrap();
    let server = lying(&sample, |n, mut reply| {
        if n == 0 {
            reply.cut = Some(60_000);
            return reply;
        }
        reply.headers = vec![("Content-Range".to_owned(), "bytes 0-9/10".to_owned())];
        reply
    });
    let error = Store::new().pull(&server, &limits()).await.unwrap_err();
    assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains("another part")), "{error}");
    let server = lying(&sample, |_, mut reply| {
        reply.cut = Some(0);
        reply
    });
    let error = Store::new().pull(&server, &limits()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn stalled_downloads_time_out() {
    let sample = one_layer();
    let patience = Timeouts {
        stall: Some(Duration::from_millis(100)),
        head: Some(Duration::from_millis(300)),
        ..Timeouts::default()
    };
    let few = PullLimits { attempts: 2, ..limits() };
    let started = Instant::now();
    let server = lying(&sample, |_, mut reply| {
        reply.stall = Some(reply.body.len() / 2);
        reply
    });
    let error = Store::new().pull_with(&server, &few, patience.clone(), None).await.unwrap_err();
    // The second try resumes behind the half and stalls again.
    assert!(matches!(&error, Error::Unreachable { reason, .. } if reason.contains("stopped sending")), "{error}");
    // One byte now and then is never idle: the whole time ends it.
    let server = lying(&sample, |_, mut reply| {
        reply.drip = Some(Duration::from_millis(20));
        reply
    });
    let short = PullLimits { time: Duration::from_millis(700), ..limits() };
    let store = Store::new();
    let error = store.pull_with(&server, &short, patience.clone(), None).await;
    assert!(matches!(error, Err(Error::TimedOut(_))), "{error:?}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silent.local_addr().unwrap().to_string();
    let registry = Registry::new(internal(&[&host]), patience);
    let reference = format!("{host}/app").parse().unwrap();
    let error = registry.pull(&reference, None, &store.blobs, &few, &Progress::none()).await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { reason, .. } if reason.contains("in time")), "{error}");
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn tokens_are_fetched_and_renewed() {
    let sample = Arc::new(Sample::new());
    let inner = sample.clone();
    let uses = AtomicUsize::new(0);
    let server = Server::start(move |asked| {
        let host = &asked.headers["host"];
        let access = asked.headers.get("authorization").map(String::as_str);
        if asked.path.starts_with("/token?") {
            assert!(
                asked.path.contains("service=me") && asked.path.contains("scope=repository%3Aapp%3Apull"),
                "{}",
                asked.path
            );
            // Basic cabana:p
            return match access {
                Some("Basic Y2FiYW5hOnA=") => Reply::new(200, r#"{"access_token":"good","expires_in":60}"#),
                _ => Reply::new(401, "{}"),
            };
        }
        // Every fourth use, the token has run out.
        if access != Some("Bearer good") || uses.fetch_add(1, Ordering::SeqCst) % 4 == 3 {
            let challenge = format!(r#"Bearer realm="http://{host}/token",service="me",scope="repository:app:pull""#);
            return Reply::new(401, "{}").header("WWW-Authenticate", challenge);
        }
        honest(&inner, asked)
    });
    let login = |password: &str| -> Option<Credentials> {
        Some(
            serde_json::from_str(&format!(r#"{{"type":"registry","username":"cabana","password":"{password}"}}"#))
                .unwrap(),
        )
    };
    let store = Store::new();
    store.pull_with(&server, &limits(), Timeouts::default(), login("p")).await.unwrap();
    let store = Store::new();
    for credentials in [None, login("wrong")] {
        let error = store.pull_with(&server, &limits(), Timeouts::default(), credentials).await.unwrap_err();
        assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    }
    for challenge in [
        "",
        "Negotiate",
        "Bearer",
        r#"Bearer realm="ftp://x/""#,
        r#"Bearer realm="http://169.254.169.254/""#,
        r#"Bearer realm="nonsense""#,
    ] {
        let server = Server::start(move |_| Reply::new(401, "{}").header("WWW-Authenticate", challenge));
        let error = store.pull(&server, &limits()).await.unwrap_err();
        assert!(matches!(error, Error::Unauthorized { .. } | Error::Distrusted { .. }), "{challenge}: {error}");
        assert!(server.paths().len() <= 2);
    }
}

#[tokio::test]
async fn knowing_a_digest_gives_no_access() {
    let sample = Arc::new(Sample::new());
    let password = r#"{"type":"registry","username":"cabana","password":"p"}"#;
    let login = || Some(serde_json::from_str::<Credentials>(password).unwrap());
    let inner = sample.clone();
    let private = Server::start(move |asked| match asked.headers.get("authorization") {
        Some(_) => honest(&inner, asked),
        None => Reply::new(401, "{}").header("WWW-Authenticate", "Basic"),
    });
    let store = Store::new();
    store.pull_with(&private, &limits(), Timeouts::default(), login()).await.unwrap();
    // The same manifest at a registry of somebody else's, who has none of what it names.
    let inner = sample.clone();
    let boasting = Server::start(move |asked| match asked.path.contains("/manifests/") {
        true => honest(&inner, asked),
        false => Reply::new(404, "{}"),
    });
    for credentials in [None, login()] {
        let error = store.pull_with(&boasting, &limits(), Timeouts::default(), credentials).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }
    // Who can get in need not fetch it again; who can fetch it elsewhere opens it to everybody.
    let fetched = |server: &Server| server.paths().iter().filter(|path| path.contains("/blobs/")).count();
    let before = fetched(&private);
    store.pull_with(&private, &limits(), Timeouts::default(), login()).await.unwrap();
    assert_eq!(fetched(&private), before);
    let public = lying(&sample, |_, reply| reply);
    store.pull(&public, &limits()).await.unwrap();
    assert_eq!(fetched(&public), sample.blobs.len());
    store.pull(&boasting, &limits()).await.unwrap();
}

#[tokio::test]
async fn aws_keys_are_exchanged_for_passwords() {
    let sample = Arc::new(Sample::new());
    let inner = sample.clone();
    let server = Server::start(move |asked| {
        let access = asked.headers.get("authorization").cloned().unwrap_or_default();
        if asked.path == "/ecr" {
            let right = access.starts_with("AWS4-HMAC-SHA256 Credential=AKID/")
                && access.contains("/eu-west-1/ecr/aws4_request");
            let right = right && asked.headers["x-amz-target"].ends_with(".GetAuthorizationToken");
            // AWS:pw
            return match right {
                true => {
                    Reply::new(200, r#"{"authorizationData":[{"authorizationToken":"QVdTOnB3","expiresAt":1.7E9}]}"#)
                }
                false => Reply::new(
                    400,
                    r#"{"__type":"UnrecognizedClientException","message":"The security token is invalid"}"#,
                ),
            };
        }
        if access != "Basic QVdTOnB3" {
            return Reply::new(401, "{}").header("WWW-Authenticate", r#"Basic realm="ecr""#);
        }
        honest(&inner, asked)
    });
    let key = |id: &str, region: &str| -> Option<Credentials> {
        let text =
            format!(r#"{{"type":"aws","awsAccessKeyId":"{id}","awsSecretAccessKey":"s","awsRegion":"{region}"}}"#);
        Some(serde_json::from_str(&text).unwrap())
    };
    let store = Store::new();
    let patience = Timeouts::default();
    store.pull_with(&server, &limits(), patience.clone(), key("AKID", "eu-west-1")).await.unwrap();
    let error = store.pull_with(&server, &limits(), patience.clone(), key("OTHER", "eu-west-1")).await.unwrap_err();
    assert!(
        matches!(&error, Error::InvalidCredentials(reason) if reason.contains("security token is invalid")),
        "{error}"
    );
    let error = store.pull_with(&server, &limits(), patience, key("AKID", "evil.example/#")).await.unwrap_err();
    assert!(matches!(error, Error::InvalidCredentials(_)), "{error}");
}

#[tokio::test]
async fn redirects_get_no_credentials_and_only_allowed_hosts() {
    let sample = Arc::new(Sample::new());
    // Like a registry that keeps blobs elsewhere.
    let elsewhere = sample.clone();
    let storage = Server::start(move |asked| {
        assert!(!asked.headers.contains_key("authorization"), "credentials went to another host");
        honest(&elsewhere, &Asked { path: asked.path.replace("/storage/", "/v2/app/blobs/"), ..asked.clone() })
    });
    let (inner, place) = (sample.clone(), storage.address);
    let server = Server::start(move |asked| {
        if !asked.headers.contains_key("authorization") {
            return Reply::new(401, "{}").header("WWW-Authenticate", "Basic realm=x");
        }
        match asked.path.strip_prefix("/v2/app/blobs/") {
            Some(name) => Reply::new(307, "").header("Location", format!("http://{place}/storage/{name}")),
            None => honest(&inner, asked),
        }
    });
    let host = server.address.to_string();
    let reference = format!("{host}/app:v1").parse().unwrap();
    let login: Credentials = serde_json::from_str(r#"{"type":"registry","username":"u","password":"p"}"#).unwrap();
    let store = Store::new();
    let registry = Registry::new(internal(&[&host, &storage.address.to_string()]), Timeouts::default());
    registry.pull(&reference, Some(&login), &store.blobs, &limits(), &Progress::none()).await.unwrap();
    // The storage is not one that the operator knows: it is as private as any other address of this machine.
    let store = Store::new();
    let error = store.pull_with(&server, &limits(), Timeouts::default(), Some(login)).await.unwrap_err();
    assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains("not public")), "{error}");

    let targets: HashMap<&str, &str> = HashMap::from([
        ("http://169.254.169.254/latest/meta-data/", "not public"),
        ("http://[::ffff:169.254.169.254]/", "not public"),
        ("http://localhost:1/", "not public"),
        ("file:///etc/passwd", ""),
        ("/v2/app/manifests/again", "without end"),
    ]);
    for (target, expected) in targets {
        let server = Server::start(move |_| Reply::new(302, "").header("Location", target));
        let error = store.pull(&server, &limits()).await.unwrap_err();
        assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains(expected)), "{target}: {error}");
        assert!(server.paths().len() <= 6);
    }
    let unknown = Registry::new(cabana_image::sources::Sources::default(), Timeouts::default());
    for name in [format!("{host}/app"), "localhost:1/app".to_owned(), "169.254.169.254/app".to_owned()] {
        let error =
            unknown.pull(&name.parse().unwrap(), None, &store.blobs, &limits(), &Progress::none()).await.unwrap_err();
        assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains("not public")), "{name}: {error}");
    }
}
