//! Pulling from a real registry (Debian's docker-registry), with and without passwords.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cabana_http::Timeouts;
use cabana_image::blobs::Blobs;
use cabana_image::registry::{Credentials, Event, Progress, PullLimits, Registry};
use cabana_image::sources::{Host, Sources};
use cabana_image::unpack::Limits;
use cabana_image::{Digest, Error, Reference, Stop};

use crate::plain_http::request;
use crate::sample::{DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, Sample};

/// User `cabana`, password `secret-of-the-test`.
const HTPASSWD: &str = "cabana:$2y$05$ZhlG.nNzBFx.nd45ma7oT.2/lLmwHxCQDEENM6I.yVx7Y.pWWf5lO\n";
const BASIC: &str = "Basic Y2FiYW5hOnNlY3JldC1vZi10aGUtdGVzdA==";

struct RealRegistry {
    child: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl RealRegistry {
    fn start(with_password: bool) -> Self {
        Self::start_with(with_password, None)
    }

    /// With a certificate and its key, it speaks TLS.
    fn start_with(with_password: bool, tls: Option<(&str, &str)>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().display();
        let mut config =
            format!("version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {at}/data}}}}\n");
        if let Some((certificate, key)) = tls {
            std::fs::write(directory.path().join("certificate"), certificate).unwrap();
            std::fs::write(directory.path().join("key"), key).unwrap();
            config.push_str(&format!(
                "http: {{addr: '127.0.0.1:0', tls: {{certificate: {at}/certificate, key: {at}/key}}}}\n"
            ));
        } else {
            config.push_str("http: {addr: '127.0.0.1:0'}\n");
        }
        if with_password {
            std::fs::write(directory.path().join("htpasswd"), HTPASSWD).unwrap();
            config.push_str(&format!("auth: {{htpasswd: {{realm: test, path: {at}/htpasswd}}}}\n"));
        }
        let path = directory.path().join("config.yml");
        std::fs::write(&path, config).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .env("OTEL_TRACES_EXPORTER", "none")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("docker-registry is needed: ./test fetches it, or apt-get install docker-registry");
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut lines = stderr.lines();
        let mut seen = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else { panic!("docker-registry ended: {seen:?}") };
            if let Some((_, rest)) = line.split_once("listening on ") {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').unwrap_or(rest.len());
                break rest[..end].parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            }
            seen.push(line);
        };
        // It blocks when nobody reads its log.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, _directory: directory }
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    fn push(&self, repository: &str, sample: &Sample, documents: &[(&str, &str, &[u8])]) {
        for (digest, bytes) in &sample.blobs {
            let begin = request(
                self.address,
                "POST",
                &format!("/v2/{repository}/blobs/uploads/"),
                &[("Authorization", BASIC)],
                b"",
            );
            assert_eq!(begin.status, 202);
            let place = begin.headers["location"].clone();
            let place = place.trim_start_matches(&format!("http://{}", self.address)).to_owned();
            let joint = if place.contains('?') { '&' } else { '?' };
            let kind = ("Content-Type", "application/octet-stream");
            let path = format!("{place}{joint}digest={digest}");
            let end = request(self.address, "PUT", &path, &[("Authorization", BASIC), kind], bytes);
            assert_eq!(end.status, 201);
        }
        for (tag, media_type, bytes) in documents {
            let path = format!("/v2/{repository}/manifests/{tag}");
            let heard =
                request(self.address, "PUT", &path, &[("Authorization", BASIC), ("Content-Type", media_type)], bytes);
            assert_eq!(heard.status, 201, "{tag}");
        }
    }

    fn reference(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.address).parse().unwrap()
    }
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn internal(hosts: &[&str]) -> Sources {
    let mut sources = Sources::default();
    for host in hosts {
        sources.hosts.insert((*host).to_owned(), Host { plain_http: true, internal: true, ..Host::default() });
    }
    sources
}

pub(crate) fn limits() -> PullLimits {
    PullLimits { time: Duration::from_secs(30), backoff: Duration::from_millis(5), ..PullLimits::default() }
}

fn password(password: &str) -> Credentials {
    serde_json::from_str(&format!(r#"{{"type":"registry","username":"cabana","password":"{password}"}}"#)).unwrap()
}

#[tokio::test]
async fn an_image_becomes_a_root_filesystem() {
    let real = RealRegistry::start(false);
    let sample = Sample::new();
    real.push("team/app", &sample, &[("v1", sample.media_type, &sample.manifest)]);
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&directory.path().join("blobs")).unwrap();
    let registry = Registry::new(internal(&[&real.host()]), Timeouts::default());
    let events = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = events.clone();
    let progress = Progress::new(move |event| told.lock().unwrap().push(event.clone()));
    let image = registry.pull(&real.reference("team/app:v1"), None, &blobs, &limits(), &progress).await.unwrap();
    assert_eq!(image.digest, sample.digest());
    assert_eq!(image.layers.iter().map(|layer| layer.digest).collect::<Vec<_>>(), sample.layers);
    assert_eq!(image.config.config.environment()["A"], "b=c");
    assert_eq!((&image.config.config.user[..], &image.config.config.working_dir[..]), ("user", "/work"));
    let events = std::mem::take(&mut *events.lock().unwrap());
    assert!(events.iter().any(|event| matches!(event, Event::Resolved { layers: 2, .. })), "{events:?}");
    for layer in &image.layers {
        let whole = |event: &Event| matches!(event, Event::Blob { digest, done, total } if *digest == layer.digest && done == total);
        assert!(events.iter().any(whole), "{events:?}");
    }

    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let fd = std::fs::File::open(&root).unwrap();
    let mut order = Vec::new();
    let stop = Stop::after(Duration::from_secs(30));
    let assembled = image.assemble(fd.as_fd(), &Limits::default(), &stop, |n| order.push(n)).unwrap();
    assert_eq!((order, assembled.bytes), (vec![0, 1], 50_006));
    assert_eq!(std::fs::read_to_string(root.join("etc/motd")).unwrap(), "hello");
    assert!(root.join("bin/tool").exists() && !root.join("gone").exists());

    // What is in the store is not fetched again, but the registry decides every time who gets it.
    let exact = real.reference(&format!("team/app@{}", sample.digest()));
    let again = registry.pull(&exact, None, &blobs, &limits(), &Progress::none()).await.unwrap();
    assert_eq!(again.digest, image.digest);
    drop(real);
    assert!(registry.pull(&exact, None, &blobs, &limits(), &Progress::none()).await.is_err());
    // The image keeps its blobs.
    drop(again);
    assert_eq!(blobs.collect(&std::collections::HashSet::new()).unwrap().blobs, 0);
    drop(image);
    assert_eq!(blobs.collect(&std::collections::HashSet::new()).unwrap().blobs, 4);
}

#[tokio::test]
async fn indexes_lead_to_the_image_of_this_machine() {
    let real = RealRegistry::start(false);
    let sample = Sample::new();
    let docker = Sample::with(
        &[crate::archive::tar(&[crate::archive::file("x", "docker")])],
        &serde_json::from_slice(&sample.blobs[&sample.config])
            .map(|mut config: serde_json::Value| {
                let plain = crate::archive::tar(&[crate::archive::file("x", "docker")]);
                config["rootfs"]["diff_ids"] = serde_json::json!([Digest::of(&plain)]);
                config
            })
            .unwrap(),
        DOCKER_MANIFEST,
    );
    let digests = [sample.digest().to_string(), docker.digest().to_string()];
    real.push("app", &sample, &[(&digests[0], sample.media_type, &sample.manifest)]);
    real.push(
        "app",
        &docker,
        &[(&digests[1], DOCKER_MANIFEST, &docker.manifest), ("single", DOCKER_MANIFEST, &docker.manifest)],
    );
    // A registry checks that what an index names is there, so the others are made of the same image.
    let only = |sample: &Sample, kind: &str| {
        let mut index: serde_json::Value = serde_json::from_slice(&sample.index(kind)).unwrap();
        for entry in index["manifests"].as_array_mut().unwrap() {
            entry["digest"] = serde_json::json!(sample.digest());
            entry["size"] = serde_json::json!(sample.manifest.len());
        }
        serde_json::to_vec(&index).unwrap()
    };
    real.push("app", &sample, &[("oci", OCI_INDEX, &only(&sample, OCI_INDEX))]);
    real.push("app", &docker, &[("docker", DOCKER_LIST, &only(&docker, DOCKER_LIST))]);
    let mut foreign: serde_json::Value = serde_json::from_slice(&only(&sample, OCI_INDEX)).unwrap();
    for entry in foreign["manifests"].as_array_mut().unwrap() {
        entry["platform"]["architecture"] = serde_json::json!("s390x");
    }
    real.push("app", &sample, &[("foreign", OCI_INDEX, &serde_json::to_vec(&foreign).unwrap())]);

    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(directory.path()).unwrap();
    let registry = Registry::new(internal(&[&real.host()]), Timeouts::default());
    let pull = async |tag: &str| {
        registry.pull(&real.reference(&format!("app:{tag}")), None, &blobs, &limits(), &Progress::none()).await
    };
    assert_eq!(pull("oci").await.unwrap().digest, sample.digest());
    assert_eq!(pull("docker").await.unwrap().digest, docker.digest());
    assert_eq!(pull("single").await.unwrap().digest, docker.digest());
    let error = pull("foreign").await.unwrap_err();
    assert!(matches!(&error, Error::Platform { offered, .. } if offered.contains("linux/s390x")), "{error}");
    let error = pull("nope").await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { what, .. } if what.ends_with("app:nope")), "{error}");
}

#[tokio::test]
async fn private_repositories_require_the_password() {
    let real = RealRegistry::start(true);
    let sample = Sample::new();
    real.push("secret", &sample, &[("latest", sample.media_type, &sample.manifest)]);
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(directory.path()).unwrap();
    let registry = Registry::new(internal(&[&real.host()]), Timeouts::default());
    let pull = async |credentials: Option<Credentials>| {
        registry.pull(&real.reference("secret"), credentials.as_ref(), &blobs, &limits(), &Progress::none()).await
    };
    let error = pull(None).await.unwrap_err();
    assert!(matches!(&error, Error::Unauthorized { hint, .. } if hint.contains("give credentials")), "{error}");
    let error = pull(Some(password("wrong"))).await.unwrap_err();
    assert!(matches!(&error, Error::Unauthorized { hint, .. } if hint.contains("refuses the given")), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    assert_eq!(pull(Some(password("secret-of-the-test"))).await.unwrap().digest, sample.digest());
}

#[tokio::test]
async fn tls_registries_must_be_trusted() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let real = RealRegistry::start_with(false, Some((&cert.pem(), &signing_key.serialize_pem())));
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&directory.path().join("blobs")).unwrap();
    let mut sources = internal(&[&real.host()]);
    sources.hosts.get_mut(&real.host()).unwrap().plain_http = false;
    let pull = async |sources: &Sources| {
        let registry = Registry::new(sources.clone(), Timeouts::default());
        registry.pull(&real.reference("app"), None, &blobs, &limits(), &Progress::none()).await.unwrap_err()
    };
    let error = pull(&sources).await;
    assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains("certificate")), "{error}");
    let authority = directory.path().join("authority.pem");
    sources.authorities.push(authority.clone());
    let error = pull(&sources).await;
    assert!(matches!(&error, Error::Distrusted { reason, .. } if reason.contains("authority.pem")), "{error}");
    // Vouched for, it is asked, and does not have the image.
    std::fs::write(&authority, cert.pem()).unwrap();
    let error = pull(&sources).await;
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn mirrors_are_tried_first_and_may_fail() {
    let (origin, mirror) = (RealRegistry::start(true), RealRegistry::start(false));
    let sample = Sample::new();
    mirror.push("app", &sample, &[("both", sample.media_type, &sample.manifest)]);
    origin.push(
        "app",
        &sample,
        &[("both", sample.media_type, &sample.manifest), ("only", sample.media_type, &sample.manifest)],
    );
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(directory.path()).unwrap();
    let mut sources = internal(&[&origin.host()]);
    // The first mirror is not there at all.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mirrors = [format!("http://{dead}"), format!("http://{}", mirror.address)];
    sources.hosts.get_mut(&origin.host()).unwrap().mirrors = mirrors.iter().map(|url| url.parse().unwrap()).collect();
    let registry = Registry::new(sources, Timeouts::default());
    let pull = async |tag: &str, credentials: Option<Credentials>| {
        let reference = origin.reference(&format!("app:{tag}"));
        registry.pull(&reference, credentials.as_ref(), &blobs, &limits(), &Progress::none()).await
    };
    pull("both", None).await.unwrap();
    assert!(matches!(pull("only", None).await, Err(Error::Unauthorized { .. })));
    pull("only", Some(password("secret-of-the-test"))).await.unwrap();
}

#[tokio::test]
async fn mirrors_may_have_a_path() {
    let mirror = RealRegistry::start(false);
    let sample = Sample::new();
    mirror.push("hub/library/app", &sample, &[("latest", sample.media_type, &sample.manifest)]);
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(directory.path()).unwrap();
    let mut sources = Sources::default();
    let mirrors = vec![format!("http://{}/hub/", mirror.address).parse().unwrap()];
    sources.hosts.insert("docker.io".to_owned(), Host { mirrors, ..Host::default() });
    let registry = Registry::new(sources, Timeouts::default());
    let image = registry.pull(&"app".parse().unwrap(), None, &blobs, &limits(), &Progress::none()).await.unwrap();
    assert_eq!(image.digest, sample.digest());
}
