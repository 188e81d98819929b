//! Decides for each request whether it is for a port of a sandbox, and proxies it there.

use std::sync::Arc;

use axum::body::Body;
use cabana_body_drain::TrackedBody;
use cabana_types::guest::DISK_USED_HEADER;
use cabana_types::routing::{ACCESS_TOKEN_HEADER, API_KEY_HEADER, GUEST_PORT, HostLabel, Target};
use cabana_types::service::{Access, is_grant_label};
use cabana_types::{ErrorCode, SandboxId};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::upgrade::OnUpgrade;
use tokio_util::sync::CancellationToken;

use crate::address::{Destination, HostScope, bare_host, destination, host, host_scope, port_by_host, service_label};
use crate::connection::{Connection, Peer};
use crate::directory::{Directory, InFlightGuard, Route};
use crate::forward::{Passage, Upgrade, forward};
use crate::hold::Hold;
use crate::hosts::Names;
use crate::patience::Patience;
use crate::preview::show::{Call, ended_link};
use crate::preview::{Preview, Previews, SharedRequest, Visitor};
use crate::response::{ProxyError, is_navigation, is_preflight};
use crate::signature::{LinkSearch, SignedLink, is_signed_link};
use crate::upstream::Upstreams;
use crate::{headers, response, traffic};

/// How often one request tries to resume its sandbox.
pub(crate) const RESUME_ATTEMPTS: usize = 3;
const UNKNOWN_HOST: &str = "There is nothing by this name: the API is at api.DOMAIN, a sandbox at PORT-ID.DOMAIN";
const OTHER_NAME: &str = "This server listens on loopback and does not answer to this host name; use localhost or \
                          127.0.0.1, or add the name to the setting connections.hosts (CABANA_HOSTS)";
const UNKNOWN_NAME: &str = "This path does not answer to this host name; use the server's domain or address, or add the name to \
                            the setting connections.hosts (CABANA_HOSTS)";
const FOREIGN_HOST: &str = "This server does not speak for the host that was asked for";

/// Why a sandbox that is not running was not resumed.
#[derive(Debug)]
pub enum ResumeError {
    /// It has ended, never existed, or is paused and not to be resumed by requests. With the reason, if it ever existed.
    NotFound(Option<String>),
    /// The server runs as many sandboxes as it may; with details.
    AtCapacity(String),
    /// Resuming failed; with details.
    Failed(String),
}

/// Resumes sandboxes that are not running when a request arrives for them.
pub trait AutoResume: Send + Sync {
    /// Resumes a sandbox, if its policy allows requests to do so.
    fn resume<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>>;

    /// Why a sandbox is not running, if it ever existed.
    fn reason<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<String>>;
}

/// Returns how many bytes of a sandbox's disk are used.
pub type DiskUsed = Arc<dyn Fn(&SandboxId) -> BoxFuture<'static, Option<u64>> + Send + Sync>;

/// Returns whether a text is an API key.
pub type IsKey = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// How a request is forwarded.
pub(crate) struct Terms {
    /// The host that the sandbox sees instead of the client's.
    pub(crate) masked: Option<HeaderValue>,
    pub(crate) hold: Hold,
    pub(crate) patience: Patience,
    /// The response is cut when one of these is cancelled.
    pub(crate) until: Vec<CancellationToken>,
}

/// Routes requests to sandboxes.
pub struct Edge {
    pub(crate) directory: Arc<Directory>,
    pub(crate) domain: Option<String>,
    pub(crate) auto_resume: Arc<dyn AutoResume>,
    disk_used: Option<DiskUsed>,
    is_key: Option<IsKey>,
    names: Option<Names>,
    previews: Option<Arc<dyn Previews>>,
    /// Those paths of the API, with what is below them, that any other name is refused at.
    guarded: &'static [&'static str],
    upstreams: Upstreams,
    links: LinkSearch,
}

impl Edge {
    /// An edge for the sandboxes of `directory`. With a domain (a port in it is ignored), only hosts directly under it name sandboxes.
    pub fn new(directory: Arc<Directory>, domain: Option<String>, auto_resume: Arc<dyn AutoResume>) -> Self {
        let domain = domain.map(|domain| bare_host(&domain).to_ascii_lowercase()).filter(|domain| !domain.is_empty());
        Self {
            directory,
            domain,
            auto_resume,
            disk_used: None,
            is_key: None,
            names: None,
            previews: None,
            guarded: &[],
            upstreams: Upstreams::new(),
            links: LinkSearch::new(),
        }
    }

    /// Adds the disk usage to metrics requests: the guest cannot see its own quota.
    #[must_use]
    pub fn with_disk_used(mut self, disk_used: DiskUsed) -> Self {
        self.disk_used = Some(disk_used);
        self
    }

    /// Keeps API keys from sandboxes, whatever header they are in.
    #[must_use]
    pub fn with_keys(mut self, is_key: IsKey) -> Self {
        self.is_key = Some(is_key);
        self
    }

    /// Refuses requests by names other than these, the domain's, sandboxes' and this machine's. A web page can make its
    /// own name resolve to a loopback address, and browsers then take the API for a part of that page.
    #[must_use]
    pub fn with_names(mut self, names: &[String]) -> Self {
        self.names = Some(Names::new(self.domain.as_deref(), names));
        self
    }

    /// The same for these paths of the API only: for a listener that everything else may reach by any name.
    #[must_use]
    pub fn with_names_at(mut self, paths: &'static [&'static str], names: &[String]) -> Self {
        self.guarded = paths;
        self.with_names(names)
    }

    /// Shows services to those who may see them.
    #[must_use]
    pub fn with_previews(mut self, previews: Arc<dyn Previews>) -> Self {
        self.previews = Some(previews);
        self
    }

    /// Handles a request for a sandbox, and returns any other.
    pub async fn route(&self, request: Request<TrackedBody>) -> Result<Response<Body>, Request<TrackedBody>> {
        if request.method() == Method::CONNECT {
            let message = "CONNECT is not served here";
            return Ok(response::error(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, message));
        }
        let host = host(request.uri(), request.headers());
        if let Some(previews) = &self.previews
            && let Some(label) = service_label(host.unwrap_or_default(), self.domain.as_deref())
        {
            // A slug is open to everyone, or to nobody.
            let may_pass = |visitor: &Visitor| is_grant_label(&label) || visitor.preview.access == Access::Public;
            match previews.named(&label).filter(may_pass) {
                Some(visitor) => return Ok(self.show(previews, Call::Name(visitor), request).await),
                // Nothing else has such a name, and pages of the service may still have the browser's trust there.
                None if is_grant_label(&label) => {
                    let (method, headers) = (request.method().clone(), request.headers().clone());
                    let asked = SharedRequest { method, path: request.uri().path().to_owned(), headers };
                    let ended = ended_link(&request);
                    return Ok(previews.shared(&label, asked).await.unwrap_or(ended));
                }
                None => {}
            }
        }
        if let (Some(domain), true) = (&self.domain, request.extensions().get::<Peer>().is_some_and(|peer| peer.secure))
        {
            let error = |status, message| response::error(status, ErrorCode::RouteNotFound, message);
            match host_scope(host.unwrap_or_default(), domain) {
                HostScope::Ours => {}
                HostScope::Unknown => return Ok(error(StatusCode::NOT_FOUND, UNKNOWN_HOST)),
                HostScope::Foreign => return Ok(error(StatusCode::MISDIRECTED_REQUEST, FOREIGN_HOST)),
            }
        }
        let is_foreign = self.names.as_ref().is_some_and(|names| !names.contain(host.unwrap_or_default()));
        if is_foreign && self.guarded.is_empty() {
            return Ok(response::error(StatusCode::MISDIRECTED_REQUEST, ErrorCode::RouteNotFound, OTHER_NAME));
        }
        match destination(host, request.uri().path(), request.headers(), self.domain.as_deref()) {
            Destination::Port(target) => Ok(match self.service_at(&target) {
                Some((previews, preview)) => {
                    let by_host = port_by_host(host.unwrap_or_default(), self.domain.as_deref()) != HostLabel::Other;
                    let call = if by_host { Call::Host(preview) } else { Call::Headers(preview) };
                    self.show(previews, call, request).await
                }
                None => self.handle(target, request).await,
            }),
            Destination::Invalid(message) => Ok(response::text(message)),
            Destination::None if is_signed_link(request.uri()) => Ok(self.handle_signed_link(request).await),
            Destination::None => match self.owner_of_token(request.headers()) {
                Some(route) => Ok(self.handle(guest_of(&route), request).await),
                None if is_foreign && self.is_guarded(request.uri().path()) => {
                    Ok(response::error(StatusCode::MISDIRECTED_REQUEST, ErrorCode::RouteNotFound, UNKNOWN_NAME))
                }
                None => Err(request),
            },
        }
    }

    /// The service at a port. The guest's has none.
    fn service_at(&self, target: &Target) -> Option<(&Arc<dyn Previews>, Arc<Preview>)> {
        let previews = self.previews.as_ref().filter(|_| target.port != GUEST_PORT)?;
        Some((previews, previews.at(&target.id, target.port)?))
    }

    /// Whether a path of the API answers only to known names.
    fn is_guarded(&self, path: &str) -> bool {
        self.guarded
            .iter()
            .any(|guarded| path.strip_prefix(guarded).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// The running sandbox that a request's access token belongs to: Novita's client names no sandbox after connecting.
    fn owner_of_token(&self, headers: &HeaderMap) -> Option<Arc<Route>> {
        let token = headers.get(ACCESS_TOKEN_HEADER).filter(|_| !headers.contains_key(API_KEY_HEADER))?;
        self.directory.by_token(token.as_bytes())
    }

    async fn handle_signed_link(&self, request: Request<TrackedBody>) -> Response<Body> {
        if is_preflight(request.method(), request.headers()) {
            return response::preflight(request.headers());
        }
        let route = match SignedLink::read(request.method(), request.uri()) {
            Some(link) => self.links.find(&self.directory, &link).await,
            None => None,
        };
        match route {
            Some(route) => {
                let mut response = self.handle(guest_of(&route), request).await;
                // The link leads to the origin of the API.
                response::distrust(response.headers_mut());
                response
            }
            None => response::error(StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized, "invalid signature"),
        }
    }

    async fn handle(&self, target: Target, request: Request<TrackedBody>) -> Response<Body> {
        if target.port == GUEST_PORT && is_preflight(request.method(), request.headers()) {
            return response::preflight(request.headers());
        }
        match self.enter(&target.id).await {
            Ok((route, in_flight)) => self.proxy(route, target.port, request, in_flight).await,
            Err(error) => {
                let navigation = is_navigation(request.method(), request.headers());
                response::proxy_error(&target.id, target.port, &ProxyError::NotRunning(error), navigation)
            }
        }
    }

    /// The route of a sandbox, which is not paused while the guard lives. A paused one is resumed, if its policy allows that.
    async fn enter(&self, id: &SandboxId) -> Result<(Arc<Route>, InFlightGuard), ResumeError> {
        if let Some(route) = self.directory.get(id)
            && let Some(in_flight) = route.in_flight.begin()
        {
            return Ok((route, in_flight));
        }
        // A sandbox that was just resumed may be about to be paused again, so try more than once.
        for _ in 0..RESUME_ATTEMPTS {
            let route = self.auto_resume.resume(id).await?;
            if let Some(in_flight) = route.in_flight.begin() {
                return Ok((route, in_flight));
            }
        }
        Err(ResumeError::Failed("it was paused again".into()))
    }

    /// Proxies a request to a running sandbox.
    async fn proxy(
        &self,
        route: Arc<Route>,
        port: u16,
        request: Request<TrackedBody>,
        in_flight: InFlightGuard,
    ) -> Response<Body> {
        if port == GUEST_PORT && route.link.is_closed_to_traffic(request.uri().path()) {
            return response::error(StatusCode::NOT_FOUND, ErrorCode::RouteNotFound, "not found");
        }
        let navigation = is_navigation(request.method(), request.headers());
        let mut masked = None;
        if port != GUEST_PORT {
            if let Err(error) = traffic::check_token(&route.traffic, request.headers()) {
                return response::proxy_error(&route.id, port, &error, navigation);
            }
            masked = traffic::masked_host(&route.traffic, port);
        }
        let terms = Terms { masked, hold: in_flight.into(), patience: Patience::with_port(), until: vec![] };
        match self.pass(&route, port, request, terms).await {
            Ok(mut response) => {
                if port == GUEST_PORT {
                    response::allow_origin(response.headers_mut());
                }
                response
            }
            Err(error) => {
                // If the sandbox stopped in the meantime, that is the cause of every error.
                let error = if route.gone.is_cancelled() {
                    ProxyError::NotRunning(ResumeError::NotFound(self.auto_resume.reason(&route.id).await))
                } else {
                    error
                };
                response::proxy_error(&route.id, port, &error, navigation)
            }
        }
    }

    /// Forwards a request to a port without what is not the sandbox's business, and takes the same from the response.
    pub(crate) async fn pass(
        &self,
        route: &Arc<Route>,
        port: u16,
        mut request: Request<TrackedBody>,
        terms: Terms,
    ) -> Result<Response<Body>, ProxyError> {
        let Terms { masked, hold, patience, until } = terms;
        let peer = request.extensions().get::<Peer>().copied().filter(|_| port != GUEST_PORT);
        let connection = request.extensions_mut().remove::<Arc<Connection>>();
        let upgrade = headers::requested_upgrade(request.version(), request.method(), request.headers())
            .map(|protocol| Upgrade { protocol, client: hyper::upgrade::on(&mut request) });

        let name = host(request.uri(), request.headers()).and_then(|host| HeaderValue::from_str(host).ok());
        let name = name.unwrap_or(HeaderValue::from_static("sandbox"));
        let is_key = |text: &str| self.is_key.as_ref().is_some_and(|is_key| is_key(text));
        let is_token = |text: &str| port != GUEST_PORT && self.directory.by_token(text.as_bytes()).is_some();
        headers::strip_credentials(request.headers_mut(), |text| is_key(text) || is_token(text));
        if port == GUEST_PORT {
            request.headers_mut().remove(API_KEY_HEADER);
        }
        headers::clean_request(request.headers_mut(), name, peer.as_ref(), masked);
        if port == GUEST_PORT && request.method() == Method::GET && request.uri().path() == "/metrics" {
            self.add_disk_used(&route.id, &mut request).await;
        }
        *request.uri_mut() = origin_form(request.uri());
        *request.version_mut() = Version::HTTP_11;
        // What stays is how the client spelled the names of headers: hyper does not let that be moved alone.
        request.extensions_mut().remove::<Peer>();
        request.extensions_mut().remove::<OnUpgrade>();

        let passage = Passage { upgrade, connection, hold, patience, until };
        let mut response = forward(self.upstreams.of(route), port, request, passage).await?;
        headers::strip_set_cookies(response.headers_mut());
        Ok(response)
    }

    async fn add_disk_used(&self, id: &SandboxId, request: &mut Request<TrackedBody>) {
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

/// The origin form of a request target, as an origin server expects it.
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}
