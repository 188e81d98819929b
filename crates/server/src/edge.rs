//! The edge: decides on the one listener whether a request is for a port of a sandbox, and carries it there.

mod address;
mod answer;
mod dial;
mod forward;
mod guard;
mod headers;
mod host_only;
mod link;
pub mod listener;
mod patient;
mod reach;
mod signature;
mod traffic;
mod tunnel;

use std::sync::Arc;

use axum::body::Body;
use cabana_intake::Intake;
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
use crate::directory::{Directory, Route};

/// What a request by an unknown name under the domain is told.
const NOTHING_HERE: &str = "There is nothing by this name: the API is at api.DOMAIN, a sandbox at PORT-ID.DOMAIN";
/// What a request for another server is told.
const FOREIGN: &str = "This server does not speak for the host that was asked for";

/// Remembers sandboxes that ended.
pub trait Tombstones: Send + Sync {
    /// Why a sandbox is not there, in words, if it ever was.
    fn why<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<String>>;
}

/// Tells how many bytes of a sandbox's disk are used.
pub type DiskUsed = Arc<dyn Fn(&SandboxId) -> BoxFuture<'static, Option<u64>> + Send + Sync>;

/// The way from the listener to the sandboxes.
pub struct Edge {
    directory: Arc<Directory>,
    domain: Option<String>,
    gone: Arc<dyn Tombstones>,
    disk_used: Option<DiskUsed>,
    reaches: Reaches,
}

impl Edge {
    /// An edge for the sandboxes of `directory`. With a domain (a port in it is ignored), only hosts directly under it name sandboxes.
    pub fn new(directory: Arc<Directory>, domain: Option<String>, gone: Arc<dyn Tombstones>) -> Self {
        let domain = domain.map(|domain| bare_host(&domain).to_ascii_lowercase()).filter(|domain| !domain.is_empty());
        Self { directory, domain, gone, disk_used: None, reaches: Reaches::new() }
    }

    /// Tells the guest the use of its disk when it is asked for metrics: it cannot see its own quota.
    #[must_use]
    pub fn with_disk_used(mut self, disk_used: DiskUsed) -> Self {
        self.disk_used = Some(disk_used);
        self
    }

    /// Answers a request for a sandbox, and hands back any other.
    pub async fn route(&self, request: Request<Intake>) -> Result<Response<Body>, Request<Intake>> {
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
                Some(route) => Ok(self.pass(route, GUEST_PORT, request).await),
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

    async fn answer_signed_link(&self, request: Request<Intake>) -> Response<Body> {
        if is_preflight(request.method(), request.headers()) {
            return answer::preflight(request.headers());
        }
        let link = SignedLink::read(request.method(), request.uri());
        match link.and_then(|link| link.find(&self.directory)) {
            Some(route) => self.pass(route, GUEST_PORT, request).await,
            None => answer::error(StatusCode::UNAUTHORIZED, "invalid signature"),
        }
    }

    async fn answer(&self, target: Target, request: Request<Intake>) -> Response<Body> {
        if target.port == GUEST_PORT && is_preflight(request.method(), request.headers()) {
            return answer::preflight(request.headers());
        }
        match self.directory.get(&target.id) {
            Some(route) => self.pass(route, target.port, request).await,
            None => {
                let navigation = is_navigation(request.method(), request.headers());
                let refusal = Refusal::NotFound(self.gone.why(&target.id).await);
                answer::refusal(&target.id, target.port, &refusal, navigation)
            }
        }
    }

    /// Carries a request to a sandbox that is up.
    async fn pass(&self, route: Arc<Route>, port: u16, mut request: Request<Intake>) -> Response<Body> {
        if port == GUEST_PORT && host_only::is_host_only(request.uri().path()) {
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

        let answered = forward(self.reaches.of(&route), port, request, wish, link).await;
        match answered {
            Ok(mut response) => {
                if port == GUEST_PORT {
                    answer::allow_origin(response.headers_mut());
                }
                response
            }
            Err(refusal) => {
                // Whatever went wrong, a sandbox that ended meanwhile is the cause.
                let refusal =
                    if route.gone.is_cancelled() { Refusal::NotFound(self.gone.why(&route.id).await) } else { refusal };
                answer::refusal(&route.id, port, &refusal, navigation)
            }
        }
    }

    async fn tell_disk_used(&self, id: &SandboxId, request: &mut Request<Intake>) {
        if let Some(disk_used) = &self.disk_used
            && let Some(bytes) = disk_used(id).await
        {
            request.headers_mut().insert(DISK_USED_HEADER, HeaderValue::from(bytes));
        }
    }
}

/// The target as a server that is not a proxy expects it.
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}
