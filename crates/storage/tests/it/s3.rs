//! A small in-memory object store with a subset of S3's protocol, which validates requests and injects faults.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use cabana_storage::cold::{ColdConfig, Timeouts};
use cabana_types::Secret;
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Put,
    Get,
    Head,
    Delete,
    List,
    Create,
    Part,
    Complete,
    Abort,
}

/// How a request goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is answered with this status, and nothing is done.
    Status(u16),
    /// It is done, but answered with 500.
    Lost,
    /// There is no answer.
    Hang,
    /// Half of the body comes, then nothing more.
    HangInBody,
    /// Half of the body comes, then the connection ends.
    Cut,
    /// One byte of what is stored or answered is another.
    Corrupt,
    /// The answer never ends.
    Endless,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Bytes>,
    uploads: HashMap<String, (String, BTreeMap<usize, Bytes>)>,
    begun: usize,
    /// The uploads whose id got to the client: it has asked something about them.
    known: HashSet<String>,
    faults: Vec<(Call, Fault, usize)>,
    calls: HashMap<Call, usize>,
    wrong: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Server {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<tokio::sync::Notify>,
    address: SocketAddr,
}

const BUCKET: &str = "bucket";
const KEY: &str = "key";

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let server = Self { inner: Arc::default(), changed: Arc::default(), address };
        let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        server
    }

    pub(crate) fn config(&self) -> ColdConfig {
        ColdConfig {
            location: format!("s3://{BUCKET}/some/prefix"),
            endpoint: Some(format!("http://{}", self.address)),
            key_id: Some(KEY.to_owned()),
            secret: Some(Secret::new("secret")),
            allow_http: true,
            timeouts: Timeouts { stall: Duration::from_secs(1), retry: Duration::from_secs(4) },
            ..ColdConfig::default()
        }
    }

    /// The next `times` requests of this kind go wrong.
    pub(crate) fn fail(&self, call: Call, fault: Fault, times: usize) {
        self.lock().faults.push((call, fault, times));
    }

    /// From now on nothing goes wrong.
    pub(crate) fn recover(&self) {
        self.lock().faults.clear();
    }

    pub(crate) fn calls(&self, call: Call) -> usize {
        self.lock().calls.get(&call).copied().unwrap_or(0)
    }

    pub(crate) fn objects(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// The unfinished uploads that the client can know of. On a busy machine it may learn of one too late to abort it.
    pub(crate) fn uploads(&self) -> usize {
        let inner = self.lock();
        inner.uploads.keys().filter(|id| inner.known.contains(*id)).count()
    }

    pub(crate) fn put(&self, key: &str, bytes: impl Into<Bytes>) {
        self.lock().objects.insert(key.to_owned(), bytes.into());
    }

    pub(crate) fn get(&self, key: &str) -> Option<Bytes> {
        self.lock().objects.get(key).cloned()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if done(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what} did not come"));
    }

    /// What the requests had wrong.
    pub(crate) fn assert_well_spoken(&self) {
        assert_eq!(self.lock().wrong, Vec::<String>::new());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("unharmed")
    }
}

fn query(uri: &Uri) -> HashMap<String, String> {
    url::form_urlencoded::parse(uri.query().unwrap_or("").as_bytes()).into_owned().collect()
}

async fn answer(State(server): State<Server>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let query = query(&uri);
    let path = uri.path().strip_prefix(&format!("/{BUCKET}")).unwrap_or("?").trim_start_matches('/').to_owned();
    let call = match (method.as_str(), query.contains_key("uploadId")) {
        ("PUT", true) => Call::Part,
        ("PUT", false) => Call::Put,
        ("POST", true) => Call::Complete,
        ("POST", false) => Call::Create,
        ("DELETE", true) => Call::Abort,
        ("DELETE", false) => Call::Delete,
        ("HEAD", _) => Call::Head,
        ("GET", _) if query.contains_key("list-type") => Call::List,
        _ => Call::Get,
    };
    check(&server, &method, &uri, &headers, &body);
    let fault = {
        let mut inner = server.lock();
        *inner.calls.entry(call).or_default() += 1;
        inner.known.extend(query.get("uploadId").cloned());
        let next = inner.faults.iter_mut().find(|(of, _, left)| *of == call && *left > 0);
        next.map(|(_, fault, left)| {
            *left -= 1;
            *fault
        })
    };
    server.changed.notify_waiters();
    match fault {
        Some(Fault::Status(status)) => return plain(status, "<Error><Code>Injected</Code></Error>"),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Endless) => {
            let chunk = Bytes::from(vec![b'x'; 1 << 20]);
            let endless = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
            return head(206, &headers, usize::MAX).body(Body::from_stream(endless)).expect("an answer");
        }
        _ => {}
    }
    let body = if fault == Some(Fault::Corrupt) { corrupt(&body) } else { body };
    let response = act(&server, call, &path, &query, &headers, body, fault);
    server.changed.notify_waiters();
    if fault == Some(Fault::Lost) { plain(500, "") } else { response }
}

/// What any store would check: who asks, and that the body is the one that was signed.
fn check(server: &Server, method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("").to_owned();
    let digest: String = Sha256::digest(body).iter().map(|b| format!("{b:02x}")).collect();
    let signed = text("x-amz-content-sha256");
    let signature = text("authorization");
    if !signature.starts_with(&format!("AWS4-HMAC-SHA256 Credential={KEY}/")) || signed != digest {
        server.lock().wrong.push(format!("{method} {uri}: {signature:?}, {signed:?} for {digest}"));
    }
}

fn corrupt(bytes: &Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 0x40;
    }
    bytes.into()
}

fn plain(status: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(status).body(body.into()).expect("an answer")
}

/// The head of an answer with a part of an object, or what pretends to be one.
fn head(status: u16, headers: &HeaderMap, size: usize) -> axum::http::response::Builder {
    let builder = Response::builder()
        .status(status)
        .header("etag", "\"tag\"")
        .header("last-modified", "Sun, 15 Nov 2026 12:00:00 GMT");
    match range(headers, size) {
        Some((from, to)) if status == 206 => builder.header("content-range", format!("bytes {from}-{}/{size}", to - 1)),
        _ => builder,
    }
}

fn range(headers: &HeaderMap, size: usize) -> Option<(usize, usize)> {
    let text = headers.get("range")?.to_str().ok()?.strip_prefix("bytes=")?;
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, size.min(to.parse::<usize>().ok()? + 1)))
}

fn act(
    server: &Server,
    call: Call,
    path: &str,
    query: &HashMap<String, String>,
    headers: &HeaderMap,
    body: Bytes,
    fault: Option<Fault>,
) -> Response {
    let mut inner = server.lock();
    let upload = query.get("uploadId").cloned().unwrap_or_default();
    let ok = || Response::builder().header("etag", "\"tag\"").body(Body::empty()).expect("an answer");
    match call {
        Call::Put => {
            inner.objects.insert(path.to_owned(), body);
            ok()
        }
        Call::Create => {
            inner.begun += 1;
            let id = format!("upload-{}", inner.begun);
            inner.uploads.insert(id.clone(), (path.to_owned(), BTreeMap::new()));
            plain(
                200,
                format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"),
            )
        }
        Call::Part => {
            let number = query["partNumber"].parse().expect("a number");
            match inner.uploads.get_mut(&upload) {
                Some((_, parts)) => {
                    parts.insert(number, body);
                    ok()
                }
                None => plain(404, ""),
            }
        }
        Call::Complete => {
            let Some((path, parts)) = inner.uploads.remove(&upload) else { return plain(404, "") };
            let asked = String::from_utf8_lossy(&body).matches("<PartNumber>").count();
            let sizes: Vec<usize> = parts.values().map(Bytes::len).collect();
            // As S3 itself, and as those that are stricter.
            let even = sizes.windows(2).all(|pair| pair[0] >= 5 << 20 && pair[1] <= pair[0]);
            if asked != parts.len() || !parts.keys().copied().eq(1..=asked) || !even {
                return plain(400, format!("<Error><Code>InvalidPart</Code>{sizes:?}</Error>"));
            }
            let whole = parts.into_values().collect::<Vec<_>>().concat();
            inner.objects.insert(path, whole.into());
            plain(200, "<CompleteMultipartUploadResult><ETag>\"tag\"</ETag></CompleteMultipartUploadResult>")
        }
        Call::Abort => {
            inner.uploads.remove(&upload);
            plain(204, "")
        }
        Call::Delete => {
            inner.objects.remove(path);
            plain(204, "")
        }
        Call::List => list(&inner, query),
        Call::Get | Call::Head => match inner.objects.get(path) {
            None => plain(404, "<Error><Code>NoSuchKey</Code></Error>"),
            Some(object) if call == Call::Head => {
                let builder = head(200, headers, object.len()).header("content-length", object.len());
                builder.body(Body::empty()).expect("an answer")
            }
            Some(object) => read(headers, object, fault),
        },
    }
}

fn read(headers: &HeaderMap, object: &Bytes, fault: Option<Fault>) -> Response {
    let (status, part) = match range(headers, object.len()) {
        Some((from, to)) => (206, object.slice(from..to)),
        None => (200, object.clone()),
    };
    let part = if fault == Some(Fault::Corrupt) { corrupt(&part) } else { part };
    let builder = head(status, headers, object.len()).header("content-length", part.len());
    let half = part.slice(..part.len() / 2);
    let first = stream::iter([Ok::<_, std::io::Error>(half)]);
    let body = match fault {
        Some(Fault::Cut) => Body::from_stream(first.chain(stream::iter([Err(std::io::Error::other("cut"))]))),
        Some(Fault::HangInBody) => Body::from_stream(first.chain(stream::pending())),
        _ => Body::from(part),
    };
    builder.body(body).expect("an answer")
}

/// Two objects to a page.
fn list(inner: &Inner, query: &HashMap<String, String>) -> Response {
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    let after = query.get("continuation-token").cloned().unwrap_or_default();
    let mut left = inner.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let page: Vec<_> = left.by_ref().take(2).collect();
    let more = left.next().is_some();
    let mut xml = format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>");
    for (key, object) in &page {
        let size = object.len();
        xml.push_str(&format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-15T12:00:00.000Z</LastModified><ETag>\"tag\"</ETag>\
             <Size>{size}</Size></Contents>"
        ));
    }
    if let (true, Some((key, _))) = (more, page.last()) {
        xml.push_str(&format!("<NextContinuationToken>{key}</NextContinuationToken>"));
    }
    xml.push_str("</ListBucketResult>");
    Response::builder().status(StatusCode::OK).body(Body::from(xml)).expect("an answer")
}
