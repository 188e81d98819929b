//! A network of its own for each test: names, public addresses, and the servers behind them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cabana_egress::{Authority, CredentialError, Credentials, Limits, ProxyConfig, Wire, start_with};
use cabana_net::{Egress, ResolveError, Source};
use cabana_supervisor::Supervisor;
use cabana_types::egress::{Bounds, Denial, HostName};
use cabana_types::{EgressPolicy, SandboxId, Secret};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

/// How long anything may take that is expected to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The world around the proxy.
pub(crate) struct World {
    pub(crate) policy: Mutex<Option<watch::Sender<Arc<EgressPolicy>>>>,
    pub(crate) bounds: Mutex<Arc<Bounds>>,
    pub(crate) names: Mutex<HashMap<String, Vec<IpAddr>>>,
    /// Servers behind public addresses.
    pub(crate) servers: Mutex<HashMap<SocketAddr, SocketAddr>>,
    /// What the proxy connected to.
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
    pub(crate) denials: Mutex<Vec<Denial>>,
    pub(crate) secrets: Mutex<HashMap<String, String>>,
    originals: Mutex<HashMap<SocketAddr, SocketAddrV4>>,
    /// Vouches for the servers.
    pub(crate) internet: Authority,
    /// What the sandbox trusts in addition.
    pub(crate) authority: Arc<Authority>,
    /// The proxy's address.
    pub(crate) address: Mutex<SocketAddr>,
    supervisor: Supervisor,
}

#[async_trait]
impl Egress for World {
    fn listen(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    fn connected(&self, source: Ipv4Addr) -> Option<Source> {
        let policy = self.policy.lock().expect("lock").as_ref()?.subscribe();
        (source == Ipv4Addr::LOCALHOST).then(|| Source { index: 7, owner: sandbox(), policy })
    }

    fn bounds(&self) -> Arc<Bounds> {
        Arc::clone(&self.bounds.lock().expect("lock"))
    }

    async fn resolve(&self, index: u32, name: &HostName) -> Result<Vec<IpAddr>, ResolveError> {
        assert_eq!(index, 7);
        self.names.lock().expect("lock").get(name.as_str()).cloned().ok_or(ResolveError::NotFound)
    }

    fn deny(&self, index: u32, denial: Denial) {
        assert_eq!(index, 7);
        self.denials.lock().expect("lock").push(denial);
    }
}

#[async_trait]
impl Wire for World {
    fn original(&self, stream: &TcpStream) -> io::Result<SocketAddrV4> {
        let found = self.originals.lock().expect("lock").get(&stream.peer_addr()?).copied();
        match (found, stream.local_addr()?) {
            (Some(original), _) => Ok(original),
            (None, SocketAddr::V4(own)) => Ok(own),
            (None, SocketAddr::V6(_)) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().expect("lock").push(address);
        let server = self.servers.lock().expect("lock").get(&address).copied();
        TcpStream::connect(server.ok_or(io::ErrorKind::ConnectionRefused)?).await
    }
}

#[async_trait]
impl Credentials for World {
    async fn secret(&self, owner: &SandboxId, name: &str) -> Result<Secret, CredentialError> {
        assert_eq!(*owner, sandbox());
        let found = self.secrets.lock().expect("lock").get(name).cloned();
        found.map(Secret::new).ok_or(CredentialError::NotFound)
    }

    async fn behind(&self, owner: &SandboxId, placeholder: &str) -> Result<Secret, CredentialError> {
        self.secret(owner, placeholder).await
    }

    async fn token(&self, _: &SandboxId, name: &str) -> Result<Secret, CredentialError> {
        match name {
            "gcp" => Ok(Secret::new("token-of-gcp")),
            _ => Err(CredentialError::Unavailable("no signing key".to_owned())),
        }
    }

    async fn authority(&self, _: &SandboxId) -> Result<Arc<Authority>, CredentialError> {
        Ok(Arc::clone(&self.authority))
    }
}

pub(crate) fn sandbox() -> SandboxId {
    "icabana0egress0test0".parse().expect("id")
}

/// A policy from JSON, as it is stored.
pub(crate) fn policy(json: serde_json::Value) -> EgressPolicy {
    serde_json::from_value(json).expect("policy")
}

pub(crate) fn limits() -> Limits {
    Limits { silence: Duration::from_millis(500), connect: Duration::from_secs(10), ..Limits::default() }
}

impl World {
    /// Starts a proxy for one sandbox with this policy.
    pub(crate) async fn start(policy: serde_json::Value) -> Arc<Self> {
        Self::start_with(policy, limits()).await
    }

    pub(crate) async fn start_with(json: serde_json::Value, limits: Limits) -> Arc<Self> {
        let world = Self::new(json);
        world.start_proxy(Arc::clone(&world) as Arc<dyn Wire>, limits).await;
        world
    }

    /// A world without a proxy.
    pub(crate) fn new(json: serde_json::Value) -> Arc<Self> {
        Arc::new(Self {
            policy: Mutex::new(Some(watch::Sender::new(Arc::new(policy(json))))),
            bounds: Mutex::default(),
            names: Mutex::default(),
            servers: Mutex::default(),
            dialled: Mutex::default(),
            denials: Mutex::default(),
            secrets: Mutex::default(),
            originals: Mutex::default(),
            internet: Authority::generate().expect("authority"),
            authority: Arc::new(Authority::generate().expect("authority")),
            address: Mutex::new(([0, 0, 0, 0], 0).into()),
            supervisor: Supervisor::new(),
        })
    }

    /// Starts a proxy on this wire.
    pub(crate) async fn start_proxy(self: &Arc<Self>, wire: Arc<dyn Wire>, limits: Limits) {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.internet)).expect("root");
        let config = ProxyConfig { roots: Arc::new(roots), limits };
        let (egress, credentials) = (Arc::clone(self), Arc::clone(self));
        let address = start_with(&self.supervisor, egress, credentials, config, wire).await.expect("started");
        *self.address.lock().expect("lock") = address;
    }

    /// Replaces the policy.
    pub(crate) fn set_policy(&self, json: serde_json::Value) {
        let policy = Arc::new(policy(json));
        self.policy.lock().expect("lock").as_ref().expect("connected").send_replace(policy);
    }

    /// Makes a name resolve to addresses.
    pub(crate) fn name(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("address")).collect();
        self.names.lock().expect("lock").insert(name.to_owned(), addresses);
    }

    /// Puts a server behind a public address.
    pub(crate) fn serve(&self, public: &str, server: SocketAddr) {
        self.servers.lock().expect("lock").insert(public.parse().expect("address"), server);
    }

    pub(crate) fn dialled(&self) -> Vec<String> {
        self.dialled.lock().expect("lock").iter().map(ToString::to_string).collect()
    }

    pub(crate) fn denied(&self) -> Vec<(String, String)> {
        let denials = self.denials.lock().expect("lock");
        denials.iter().map(|denial| (denial.destination.clone(), denial.rule.clone())).collect()
    }

    /// Connects like a program in the sandbox whose connection is redirected.
    pub(crate) async fn connect(&self, original: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("bind");
        let local = socket.local_addr().expect("address");
        self.originals.lock().expect("lock").insert(local, original.parse().expect("address"));
        let proxy = *self.address.lock().expect("lock");
        socket.connect(proxy).await.expect("connect")
    }

    /// Connects with TLS; trusts what the sandbox trusts: the internet, and its own authority.
    pub(crate) async fn connect_tls(&self, original: &str, sni: &str) -> io::Result<client::TlsStream<TcpStream>> {
        let stream = self.connect(original).await;
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.internet)).expect("root");
        roots.add(certificate(&self.authority)).expect("root");
        let name = ServerName::try_from(sni.to_owned()).expect("name");
        let connecting = connector(roots).connect(name, stream);
        tokio::time::timeout(PATIENCE, connecting).await.expect("in time")
    }

    /// Starts an echo server with TLS for a host.
    pub(crate) async fn tls_echo(&self, host: &str, tag: &'static str) -> SocketAddr {
        let acceptor = TlsAcceptor::from(self.internet.server_config(&host.parse().expect("name")).expect("config"));
        server(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    echo(stream, tag).await;
                }
            }
        })
        .await
    }
}

pub(crate) fn certificate(authority: &Authority) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes()).expect("certificate")
}

pub(crate) fn connector(roots: RootCertStore) -> TlsConnector {
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Whether the certificate that a client was shown comes from this authority.
pub(crate) fn is_signed_by(stream: &client::TlsStream<TcpStream>, authority: &Authority) -> bool {
    let chain = stream.get_ref().1.peer_certificates().expect("certificates");
    chain.last() == Some(&certificate(authority))
}

/// A server on loopback.
pub(crate) async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listen");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("option");
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// An HTTP server that answers with what it got: its tag, request line, headers, an empty line, and the body.
pub(crate) async fn plain_echo(tag: &'static str) -> SocketAddr {
    server(move |stream| echo(stream, tag)).await
}

pub(crate) async fn echo(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, tag: &'static str) {
    let service = service_fn(move |request| answer(request, tag));
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, tag: &str) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut text = format!("server: {tag}\n{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let body = request.into_body().collect().await?.to_bytes();
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&body));
    Ok(Response::new(Full::new(text.into())))
}

/// Sends bytes and reads until the connection ends. A reset ends it, too.
pub(crate) async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    let mut response = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut response).await
    };
    let _ = tokio::time::timeout(PATIENCE, exchange).await.expect("in time");
    String::from_utf8_lossy(&response).into_owned()
}

/// A request without body that ends its connection.
pub(crate) fn get(host: &str) -> String {
    format!("GET /path?q=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// Reads a response with `content-length`, and leaves the connection open.
pub(crate) async fn read_response(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let reading = async {
        loop {
            text.push(stream.read_u8().await.expect("a byte"));
            let head = String::from_utf8_lossy(&text).into_owned();
            let Some(end) = head.find("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if text.len() == end + 4 + length.unwrap_or(0) {
                return head;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("in time")
}

/// Waits until something holds.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}
