//! A server with services: what is known about them is made up here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use cabana_edge::listener::{Limits, serve_with};
use cabana_edge::preview::{Entered, Preview, PreviewAsset, Previews, ServiceStatus, SharedRequest, Touched, Visitor};
use cabana_edge::{Directory, Edge, ResumeError, Route};
use cabana_types::service::{Access, HostMode, ServiceState};
use cabana_types::{GrantId, SandboxId, Secret, ServiceId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Response;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::world::*;

pub(crate) const CONSOLE: &str = "https://console.test";
pub(crate) const NAVIGATE: &str = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: none\r\n";
pub(crate) const FRAME: &str = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\nSec-Fetch-Site: cross-site\r\n";
pub(crate) const FETCH: &str = "Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nSec-Fetch-Site: same-origin\r\n";
/// A view cookie that is valid, for a listener that is named with port 3000.
pub(crate) const VIEW: &str = "Cookie: a=b; cabana_view_3000=good; c=d\r\n";
pub(crate) const GRANT: &str = "paaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Made-up services.
#[derive(Default)]
pub(crate) struct Fake {
    directory: OnceLock<Arc<Directory>>,
    services: Mutex<HashMap<(SandboxId, u16), Arc<Preview>>>,
    names: Mutex<HashMap<String, Visitor>>,
    tickets: Mutex<HashMap<String, Entered>>,
    paused: Mutex<Option<Route>>,
    pub(crate) status: Mutex<ServiceStatus>,
    /// Ends with the session of everybody who has a view cookie.
    pub(crate) session: CancellationToken,
    pub(crate) opened: AtomicUsize,
    pub(crate) resumed: AtomicUsize,
    pub(crate) lookups: AtomicUsize,
}

impl Previews for Fake {
    fn shared<'a>(&'a self, _: &'a str, _: SharedRequest) -> BoxFuture<'a, Option<Response<Body>>> {
        async { None }.boxed()
    }

    fn at(&self, sandbox: &SandboxId, port: u16) -> Option<Arc<Preview>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.services.lock().expect("lock").get(&(sandbox.clone(), port)).cloned()
    }

    fn named(&self, label: &str) -> Option<Visitor> {
        self.names.lock().expect("lock").get(label).cloned()
    }

    fn by_view(&self, preview: &Arc<Preview>, cookie: &str) -> Option<Visitor> {
        (cookie == "good" && !self.session.is_cancelled()).then(|| self.member(preview))
    }

    fn by_key(&self, preview: &Arc<Preview>, key: &str) -> Option<Visitor> {
        (key == "team-key").then(|| Visitor { console: None, until: vec![], ..self.member(preview) })
    }

    fn enter(&self, _: &Preview, ticket: &str) -> Option<Entered> {
        self.tickets.lock().expect("lock").remove(ticket)
    }

    fn fall_back<'a>(&'a self, _: &'a Preview, ticket: &'a str) -> BoxFuture<'a, Option<String>> {
        async move { (ticket == "second").then(|| format!("http://{GRANT}.localhost:3000")) }.boxed()
    }

    fn opened(&self, _: &GrantId) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    fn console_origin(&self) -> &str {
        CONSOLE
    }

    fn resume<'a>(&'a self, _: &'a Preview) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>> {
        async move {
            self.resumed.fetch_add(1, Ordering::SeqCst);
            let route = self.paused.lock().expect("lock").take();
            let route = route.ok_or_else(|| ResumeError::NotFound(Some("it <expired>".to_owned())))?;
            let (directory, id) = (self.directory.get().expect("a directory"), route.id.clone());
            directory.insert(route);
            directory.get(&id).ok_or(ResumeError::NotFound(None))
        }
        .boxed()
    }

    fn status<'a>(&'a self, _: &'a Preview) -> BoxFuture<'a, ServiceStatus> {
        async move { self.status.lock().expect("lock").clone() }.boxed()
    }

    fn asset(&self, name: &str) -> Option<PreviewAsset> {
        let etag = format!("\"{name}-1\"");
        let body = Bytes::from(format!("// {name}"));
        Some(PreviewAsset { content_type: "text/javascript; charset=utf-8", body, etag })
    }
}

impl Fake {
    fn member(&self, preview: &Arc<Preview>) -> Visitor {
        Visitor {
            preview: preview.clone(),
            member: true,
            console: Some(CONSOLE.to_owned()),
            until: vec![self.session.clone(), CancellationToken::new()],
            grant: None,
        }
    }

    pub(crate) fn set_state(&self, state: ServiceState) {
        self.status.lock().expect("lock").state = state;
    }

    pub(crate) fn resumes(&self) -> usize {
        self.resumed.load(Ordering::SeqCst)
    }

    /// A ticket; with one for a frame.
    pub(crate) fn ticket(&self, ticket: &str, fallback: Option<&str>) {
        let fallback = fallback.map(Secret::new);
        let entered = Entered { cookie: Secret::new("good"), max_age: 600, fallback };
        self.tickets.lock().expect("lock").insert(ticket.to_owned(), entered);
    }

    /// Gives a service a name. Of a console's frame, if `framed`.
    pub(crate) fn name(&self, label: &str, preview: &Arc<Preview>, framed: bool, until: &CancellationToken) {
        let visitor = Visitor {
            preview: preview.clone(),
            member: framed,
            console: framed.then(|| CONSOLE.to_owned()),
            until: vec![until.clone()],
            grant: Some(GrantId::from_random([7; 20])),
        };
        self.names.lock().expect("lock").insert(label.to_owned(), visitor);
    }

    pub(crate) fn forget_name(&self, label: &str) {
        self.names.lock().expect("lock").remove(label);
    }

    /// Pauses a sandbox as the server does.
    pub(crate) fn pause(&self, id: &SandboxId) {
        let directory = self.directory.get().expect("a directory");
        let route = directory.get(id).expect("a route");
        *self.paused.lock().expect("lock") = Some(route_like(&route, false));
        directory.remove(id);
        self.set_state(ServiceState::Suspended);
    }
}

/// Another route to the same sandbox.
pub(crate) fn route_like(route: &Route, booted: bool) -> Route {
    Route {
        id: route.id.clone(),
        link: route.link.clone(),
        access_token: None,
        traffic: route.traffic.clone(),
        in_flight: Arc::default(),
        gone: CancellationToken::new(),
        since: Instant::now(),
        booted,
    }
}

/// A server with made-up services.
pub(crate) struct Shown {
    pub(crate) world: World,
    pub(crate) fake: Arc<Fake>,
}

impl Shown {
    pub(crate) async fn new() -> Self {
        let fake = Arc::new(Fake { status: Mutex::new(running()), ..Fake::default() });
        let previews = fake.clone();
        let world = World::customized(None, Limits::default(), None, |edge| edge.with_previews(previews)).await;
        fake.directory.set(world.directory.clone()).expect("once");
        Self { world, fake }
    }

    /// A server below a domain whose connections count as encrypted.
    pub(crate) async fn secure() -> Self {
        let fake = Arc::new(Fake { status: Mutex::new(running()), ..Fake::default() });
        let directory = Arc::new(Directory::default());
        fake.directory.set(directory.clone()).expect("once");
        let edge = Edge::new(directory.clone(), Some("e2b.test".to_owned()), Arc::new(NeverResume));
        let edge = Arc::new(edge.with_previews(fake.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let shutdown = CancellationToken::new();
        let ending = shutdown.clone();
        let api = axum::Router::new().fallback(|| async { "the API" });
        let server = AbortOnDropHandle::new(tokio::spawn(async move {
            serve_with(listener, edge, api, Limits::default(), ending, true, |s| async move { Ok(s) }).await
        }));
        Self { world: World { directory, address, shutdown, server }, fake }
    }

    /// A service at a port.
    pub(crate) fn service(&self, sandbox: &SandboxId, port: u16, access: Access) -> Arc<Preview> {
        self.service_with(sandbox, port, access, HostMode::Local)
    }

    pub(crate) fn service_with(&self, sandbox: &SandboxId, port: u16, access: Access, host: HostMode) -> Arc<Preview> {
        let preview = Arc::new(Preview {
            service: ServiceId::from_random([1; 20]),
            name: "web".to_owned(),
            sandbox: sandbox.clone(),
            team: "team".parse().expect("id"),
            project: "team".parse().expect("id"),
            port,
            access,
            host_mode: host,
            bridge: true,
            touched: Arc::new(Touched::default()),
        });
        self.fake.services.lock().expect("lock").insert((sandbox.clone(), port), preview.clone());
        preview
    }

    /// A GET at a host with more headers.
    pub(crate) async fn get(&self, host: &str, target: &str, headers: &str) -> String {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
        self.world.ask(&head).await
    }
}

fn running() -> ServiceStatus {
    ServiceStatus { state: ServiceState::Running, ..ServiceStatus::default() }
}

/// The host of a port on this machine.
pub(crate) fn local(sandbox: &Box, port: u16) -> String {
    format!("{port}-{}.localhost:3000", sandbox.id)
}

/// A header of a response.
pub(crate) fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, v)| v)
}
