//! A server with an edge, sandboxes made of a fake guest on a Unix socket and of servers on loopback addresses, and raw clients.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use cabana_edge::listener::{Limits, serve_with};
use cabana_edge::tls::Tls;
use cabana_edge::{AutoResume, Directory, Edge, ResumeError, Route};
use cabana_guest_link::GuestLink;
use cabana_types::{SandboxId, Secret, Traffic};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How a fake server answers.
pub(crate) type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

pub(crate) fn handler<F, R>(answer: F) -> Handler
where
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    Arc::new(move |request| answer(request).boxed())
}

/// Echoes the request: method, target and headers, one per line.
pub(crate) fn echo() -> Handler {
    handler(|request| async move {
        let mut lines = vec![format!("{} {}", request.method(), request.uri())];
        lines.extend(request.headers().iter().map(|(n, v)| format!("{n}: {}", v.to_str().expect("text"))));
        Response::new(Body::from(lines.join("\n")))
    })
}

pub(crate) fn says(text: &'static str) -> Handler {
    handler(move |_| async move { Response::new(Body::from(text)) })
}

/// A server that counts its connections.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    pub(crate) opened: Arc<AtomicUsize>,
    pub(crate) open: Arc<AtomicUsize>,
}

impl Counter {
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub(crate) async fn until_open(&self, count: usize) {
        within(async {
            while self.open.load(Ordering::SeqCst) != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S, handler: Handler) {
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
        let service = service_fn(|request| handler(request).map(Ok::<_, Infallible>));
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One sandbox.
pub(crate) struct Box {
    pub(crate) id: SandboxId,
    pub(crate) address: Ipv4Addr,
    /// Connections for traffic.
    pub(crate) guest: Counter,
    /// Connections for control.
    pub(crate) control: Counter,
    _guest: [AbortOnDropHandle<()>; 2],
    _dir: TempDir,
}

/// Resumes nothing, and knows why the sandboxes of these tests are gone.
pub(crate) struct NeverResume;

impl AutoResume for NeverResume {
    fn resume<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>> {
        std::boxed::Box::pin(async move { Err(ResumeError::NotFound(self.reason(id).await)) })
    }

    fn reason<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<String>> {
        let reason = (!id.as_str().starts_with("inever")).then(|| "it <expired>".to_owned());
        async move { reason }.boxed()
    }
}

/// A running server.
pub(crate) struct World {
    pub(crate) directory: Arc<Directory>,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: AbortOnDropHandle<std::io::Result<()>>,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(None, Limits::default()).await
    }

    pub(crate) async fn with(domain: Option<&str>, limits: Limits) -> Self {
        Self::serving(domain, limits, None).await
    }

    pub(crate) async fn serving(domain: Option<&str>, limits: Limits, tls: Option<Arc<Tls>>) -> Self {
        Self::customized(domain, limits, tls, |edge| edge).await
    }

    pub(crate) async fn customized(
        domain: Option<&str>,
        limits: Limits,
        tls: Option<Arc<Tls>>,
        customize: impl FnOnce(Edge) -> Edge,
    ) -> Self {
        let directory = Arc::new(Directory::default());
        let disk = Arc::new(|_: &SandboxId| async { Some(4242) }.boxed());
        let edge = Edge::new(directory.clone(), domain.map(str::to_owned), Arc::new(NeverResume)).with_disk_used(disk);
        let api = axum::Router::new()
            .route("/health", axum::routing::get(|| async { "the API" }))
            .route("/upload", axum::routing::post(|body: axum::body::Bytes| async move { body.len().to_string() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let shutdown = CancellationToken::new();
        let (edge, ending) = (Arc::new(customize(edge)), shutdown.clone());
        let server = AbortOnDropHandle::new(tokio::spawn(async move {
            match tls {
                Some(tls) => {
                    let serving =
                        serve_with(listener, edge, api, limits, ending.clone(), true, |stream| tls.accept(stream));
                    tokio::join!(serving, tls.keep(ending.clone())).0
                }
                None => serve_with(listener, edge, api, limits, ending, false, |s| async move { Ok(s) }).await,
            }
        }));
        Self { directory, address, shutdown, server }
    }

    /// A sandbox with a loopback address of its own.
    pub(crate) fn sandbox(&self, guest: Handler) -> Box {
        let n = NEXT.fetch_add(1, Ordering::SeqCst);
        let [_, _, high, low] = n.to_be_bytes();
        // The process id keeps two runs of these tests apart.
        let octet = (std::process::id() % 200) as u8 + 20;
        self.publish(format!("itest{n}").parse().expect("id"), Ipv4Addr::new(127, octet, high, low), guest)
    }

    pub(crate) fn publish(&self, id: SandboxId, address: Ipv4Addr, guest: Handler) -> Box {
        self.publish_with(id, address, Traffic::default(), guest)
    }

    /// A sandbox with options for the traffic to its ports.
    pub(crate) fn publish_with(&self, id: SandboxId, address: Ipv4Addr, traffic: Traffic, guest: Handler) -> Box {
        let dir = tempfile::tempdir().expect("directory");
        let [traffic_socket, control_socket] = ["traffic", "control"].map(|name| dir.path().join(name));
        let (traffic_counter, traffic_task) = serve_unix(&traffic_socket, guest.clone());
        let (control_counter, control_task) = serve_unix(&control_socket, guest);
        let link = GuestLink::Unix { control: control_socket, traffic: traffic_socket, address };
        self.insert(id.clone(), link, traffic);
        Box {
            id,
            address,
            guest: traffic_counter,
            control: control_counter,
            _guest: [traffic_task, control_task],
            _dir: dir,
        }
    }

    /// A sandbox that an earlier version of the server launched: its guest has one socket.
    pub(crate) fn publish_earlier(&self, id: SandboxId, address: Ipv4Addr, guest: Handler) -> Box {
        let dir = tempfile::tempdir().expect("directory");
        let socket = dir.path().join("guest.sock");
        let (counter, task) = serve_unix(&socket, guest);
        self.insert(id.clone(), GuestLink::UnixShared { socket, address }, Traffic::default());
        let idle = AbortOnDropHandle::new(tokio::spawn(async {}));
        Box { id, address, guest: counter.clone(), control: counter, _guest: [task, idle], _dir: dir }
    }

    pub(crate) fn insert(&self, id: SandboxId, link: GuestLink, traffic: Traffic) {
        self.directory.insert(Route {
            access_token: Some(Secret::new(format!("token-of-{id}"))),
            id,
            link,
            traffic,
            in_flight: Arc::default(),
            gone: CancellationToken::new(),
            since: std::time::Instant::now(),
            booted: false,
        });
    }

    /// Sends one request and reads until the end of the connection.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("write");
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A GET of a sandbox's port with more headers.
    pub(crate) async fn get(&self, id: &str, port: u16, target: &str, headers: &str) -> String {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {port}-{id}.e2b.test\r\nConnection: close\r\n{headers}\r\n");
        self.ask(&head).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect")
    }
}

/// Serves a socket of a guest.
fn serve_unix(socket: &Path, guest: Handler) -> (Counter, AbortOnDropHandle<()>) {
    let listener = UnixListener::bind(socket).expect("bind");
    let counter = Counter::default();
    let counted = counter.clone();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(counted.clone().serve(stream, guest.clone()));
        }
    });
    (counter, AbortOnDropHandle::new(task))
}

/// Serves a port of a sandbox.
pub(crate) async fn open_port(sandbox: &Box, handler: Handler) -> (u16, Counter, AbortOnDropHandle<()>) {
    open_at(sandbox.address, handler).await
}

pub(crate) async fn open_at(address: Ipv4Addr, handler: Handler) -> (u16, Counter, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind((address, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let counter = Counter::default();
    let counted = counter.clone();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(counted.clone().serve(stream, handler.clone()));
        }
    });
    (port, counter, AbortOnDropHandle::new(task))
}

/// What a guest's bridge does: joins the stream with a port of loopback, here `inside`.
pub(crate) fn bridging_guest(inside: Ipv4Addr) -> Handler {
    handler(move |mut request| async move {
        let port = request.uri().query().and_then(|q| q.strip_prefix("port=")).and_then(|p| p.parse::<u16>().ok());
        let mut response = Response::new(Body::empty());
        let (Some(port), "/bridge") = (port, request.uri().path()) else {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        assert_eq!(request.headers()["upgrade"], "cabana-bridge");
        let Ok(mut upstream) = TcpStream::connect((inside, port)).await else {
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            return response;
        };
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.expect("upgrade"));
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
        });
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("connection", "upgrade".parse().expect("value"));
        response.headers_mut().insert("upgrade", "cabana-bridge".parse().expect("value"));
        response
    })
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("took too long")
}

/// Reads until `marker` was seen.
pub(crate) async fn read_until(stream: &mut (impl AsyncRead + Unpin), marker: &str) -> String {
    let mut seen = Vec::new();
    within(async {
        while !seen.windows(marker.len()).any(|window| window == marker.as_bytes()) {
            let byte = stream.read_u8().await.unwrap_or_else(|error| {
                panic!("{error} before {marker:?}: {}", String::from_utf8_lossy(&seen));
            });
            seen.push(byte);
        }
    })
    .await;
    String::from_utf8(seen).expect("text")
}

pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no status: {answer:?}"))
}

pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default()
}
