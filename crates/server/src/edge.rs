//! The edge: decides on the one listener whether a request is for a port of a sandbox, and carries it there.

mod address;
mod answer;
mod dial;
mod forward;
mod guard;
mod headers;
mod link;
pub mod listener;
mod patient;
mod reach;
mod signature;
mod traffic;
mod tunnel;

use std::sync::Arc;

use axum::body::Body;
use cabana_body_drain::TrackedBody;
use cabana_types::guest::DISK_USED_HEADER;
use cabana_types::routing::{ACCESS_TOKEN_HEADER, API_KEY_HEADER, GUEST_PORT, Target};
use cabana_types::{SandboxId, Secret};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use subtle::ConstantTimeEq;

use self::address::{Asked, Place, asked, bare_host, host, place};
use self::answer::{Refusal, is_navigation, is_preflight};
use self::forward::{Wish, forward};
use self::link::Link;
pub use self::link::Peer;
use self::reach::Reaches;
use self::signature::{SignedLink, is_signed_link};
use crate::directory::{Busy, Directory, Route};

/// How often a request tries to wake a sandbox.
const WAKES: usize = 3;
/// What a request by an unknown name under the domain is told.
const NOTHING_HERE: &str = "There is nothing by this name: the API is at api.DOMAIN, a sandbox at PORT-ID.DOMAIN";
/// What a request for another server is told.
const FOREIGN: &str = "This server does not speak for the host that was asked for";

/// What a request for a sandbox that is not up led to.
#[derive(Debug)]
pub enum Absent {
    /// It has woken.
    Woken(Arc<Route>),
    /// It is not there, in words why, if it ever was.
    Gone(Option<String>),
    /// It should have woken and could not: there is no room, or something failed.
    Failed {
        /// Whether there was no room.
        full: bool,
        /// What happened.
        message: String,
    },
}

/// Knows about sandboxes that are not up.
pub trait Sleepers: Send + Sync {
    /// A request came for a sandbox that is not up: it wakes, where its owner wants that.
    fn touch<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Absent>;

    /// Why a sandbox is not there, in words, if it ever was.
    fn why<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<String>>;
}

/// Tells how many bytes of a sandbox's disk are used.
pub type DiskUsed = Arc<dyn Fn(&SandboxId) -> BoxFuture<'static, Option<u64>> + Send + Sync>;

/// The way from the listener to the sandboxes.
pub struct Edge {
    directory: Arc<Directory>,
    domain: Option<String>,
    sleepers: Arc<dyn Sleepers>,
    disk_used: Option<DiskUsed>,
    reaches: Reaches,
}

impl Edge {
    /// An edge for the sandboxes of `directory`. With a domain (a port in it is ignored), only hosts directly under it name sandboxes.
    pub fn new(directory: Arc<Directory>, domain: Option<String>, sleepers: Arc<dyn Sleepers>) -> Self {
        let domain = domain.map(|domain| bare_host(&domain).to_ascii_lowercase()).filter(|domain| !domain.is_empty());
        Self { directory, domain, sleepers, disk_used: None, reaches: Reaches::new() }
    }

    /// Tells the guest the use of its disk when it is asked for metrics: it cannot see its own quota.
    #[must_use]
    pub fn with_disk_used(mut self, disk_used: DiskUsed) -> Self {
        self.disk_used = Some(disk_used);
        self
    }

    /// Answers a request for a sandbox, and hands back any other.
    pub async fn route(&self, request: Request<TrackedBody>) -> Result<Response<Body>, Request<TrackedBody>> {
        if request.method() == Method::CONNECT {
            return Ok(answer::error(StatusCode::BAD_REQUEST, "CONNECT is not served here"));
        }
        let host = host(request.uri(), request.headers());
        if let (Some(domain), true) = (&self.domain, request.extensions().get::<Peer>().is_some_and(|peer| peer.secure))
        {
            match place(host.unwrap_or_default(), domain) {
                Place::Ours => {}
                Place::Nothing => return Ok(answer::error(StatusCode::NOT_FOUND, NOTHING_HERE)),
                Place::Foreign => return Ok(answer::error(StatusCode::MISDIRECTED_REQUEST, FOREIGN)),
            }
        }
        match asked(host, request.uri().path(), request.headers(), self.domain.as_deref()) {
            Asked::Port(target) => Ok(self.answer(target, request).await),
            Asked::Invalid(message) => Ok(answer::text(message)),
            Asked::Nothing if is_signed_link(request.uri()) => Ok(self.answer_signed_link(request).await),
            Asked::Nothing => match self.owner_of_token(request.headers()) {
                Some(route) => Ok(self.answer(guest_of(&route), request).await),
                None => Err(request),
            },
        }
    }

    /// The live sandbox whose guest has the token of a request that names none: Novita's client forgets to after connecting.
    fn owner_of_token(&self, headers: &HeaderMap) -> Option<Arc<Route>> {
        let sent = headers.get(ACCESS_TOKEN_HEADER).filter(|_| !headers.contains_key(API_KEY_HEADER))?;
        let is_sent = |token: &Secret| bool::from(token.expose().as_bytes().ct_eq(sent.as_bytes()));
        self.directory.find(|route| route.access_token.as_ref().is_some_and(is_sent))
    }

    async fn answer_signed_link(&self, request: Request<TrackedBody>) -> Response<Body> {
        if is_preflight(request.method(), request.headers()) {
            return answer::preflight(request.headers());
        }
        let link = SignedLink::read(request.method(), request.uri());
        match link.and_then(|link| link.find(&self.directory)) {
            Some(route) => self.answer(guest_of(&route), request).await,
            None => answer::error(StatusCode::UNAUTHORIZED, "invalid signature"),
        }
    }

    async fn answer(&self, target: Target, request: Request<TrackedBody>) -> Response<Body> {
        if target.port == GUEST_PORT && is_preflight(request.method(), request.headers()) {
            return answer::preflight(request.headers());
        }
        match self.enter(&target.id).await {
            Ok((route, busy)) => self.pass(route, target.port, request, busy).await,
            Err(refusal) => {
                let navigation = is_navigation(request.method(), request.headers());
                answer::refusal(&target.id, target.port, &refusal, navigation)
            }
        }
    }

    /// The way to a sandbox, which is kept from sleeping meanwhile; one that sleeps is woken where its owner wants that.
    async fn enter(&self, id: &SandboxId) -> Result<(Arc<Route>, Busy), Refusal> {
        if let Some(route) = self.directory.get(id)
            && let Some(busy) = route.activity.begin()
        {
            return Ok((route, busy));
        }
        // One that has just woken may be falling asleep again, so look more than once.
        for _ in 0..WAKES {
            match self.sleepers.touch(id).await {
                Absent::Woken(route) => {
                    if let Some(busy) = route.activity.begin() {
                        return Ok((route, busy));
                    }
                }
                Absent::Gone(reason) => return Err(Refusal::NotFound(reason)),
                Absent::Failed { full: true, message } => return Err(Refusal::NoRoom(message)),
                Absent::Failed { full: false, message } => return Err(Refusal::NotWoken(message)),
            }
        }
        Err(Refusal::NotWoken("it fell asleep again".into()))
    }

    /// Carries a request to a sandbox that is up.
    async fn pass(
        &self,
        route: Arc<Route>,
        port: u16,
        mut request: Request<TrackedBody>,
        busy: Busy,
    ) -> Response<Body> {
        if port == GUEST_PORT && route.link.is_closed_to_traffic(request.uri().path()) {
            return answer::error(StatusCode::NOT_FOUND, "not found");
        }
        let navigation = is_navigation(request.method(), request.headers());
        let (mut told, mut masked) = (None, None);
        if port != GUEST_PORT {
            if let Err(refusal) = traffic::admit(&route.traffic, request.headers()) {
                return answer::refusal(&route.id, port, &refusal, navigation);
            }
            told = request.extensions().get::<Peer>().copied();
            masked = traffic::masked_host(&route.traffic, port);
        }
        let link = request.extensions_mut().remove::<Arc<Link>>();
        let wish = headers::upgrade_asked(request.version(), request.method(), request.headers())
            .map(|protocol| Wish { protocol, client: hyper::upgrade::on(&mut request) });

        let name = host(request.uri(), request.headers()).and_then(|host| HeaderValue::from_str(host).ok());
        let name = name.unwrap_or(HeaderValue::from_static("sandbox"));
        headers::clean_request(request.headers_mut(), name, told.as_ref(), masked);
        if port == GUEST_PORT && request.method() == Method::GET && request.uri().path() == "/metrics" {
            self.tell_disk_used(&route.id, &mut request).await;
        }
        *request.uri_mut() = origin_form(request.uri());
        *request.version_mut() = Version::HTTP_11;
        request.extensions_mut().clear();

        let answered = forward(self.reaches.of(&route), port, request, wish, link, busy).await;
        match answered {
            Ok(mut response) => {
                if port == GUEST_PORT {
                    answer::allow_origin(response.headers_mut());
                }
                response
            }
            Err(refusal) => {
                // Whatever went wrong, a sandbox that ended meanwhile is the cause.
                let refusal = if route.gone.is_cancelled() {
                    Refusal::NotFound(self.sleepers.why(&route.id).await)
                } else {
                    refusal
                };
                answer::refusal(&route.id, port, &refusal, navigation)
            }
        }
    }

    async fn tell_disk_used(&self, id: &SandboxId, request: &mut Request<TrackedBody>) {
        if let Some(disk_used) = &self.disk_used
            && let Some(bytes) = disk_used(id).await
        {
            request.headers_mut().insert(DISK_USED_HEADER, HeaderValue::from(bytes));
        }
    }
}

fn guest_of(route: &Route) -> Target {
    Target { id: route.id.clone(), port: GUEST_PORT }
}

/// The target as a server that is not a proxy expects it.
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}
