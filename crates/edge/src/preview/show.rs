//! Shows a service: the way of a request from the host it names to the program in the sandbox, and back.

use std::sync::Arc;

use axum::body::Body;
use cabana_body_drain::TrackedBody;
use cabana_types::ErrorCode;
use cabana_types::routing::{API_KEY_HEADER, GUEST_PORT};
use cabana_types::service::{HostMode, ServiceState};
use http::header::REFERRER_POLICY;
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::own_paths::{OwnRequest, is_own};
use super::site::Site;
use super::waking::{Asked, Kind};
use super::{Preview, Previews, ServiceStatus, Visitor, admission, bridge, frames, local_host, page};
use crate::address::{host, is_below};
use crate::connection::Peer;
use crate::cuts;
use crate::directory::Route;
use crate::edge::{Edge, RESUME_ATTEMPTS, ResumeError, Terms};
use crate::hold::Hold;
use crate::patience::Patience;
use crate::response::{self, CLEAR_SITE_DATA, ProxyError};
use crate::traffic;

/// How a request names a service.
pub(crate) enum Call {
    /// By the name of a grant or a slug.
    Name(Visitor),
    /// By the host of its port.
    Host(Arc<Preview>),
    /// By headers; the host is another's, so that its cookies and paths are, too.
    Headers(Arc<Preview>),
}

/// A visitor's request.
struct Visit<'v> {
    previews: &'v Arc<dyn Previews>,
    visitor: Visitor,
    site: Option<Site>,
    asked: Asked,
}

impl Edge {
    /// Answers a request for a service.
    pub(crate) async fn show(
        &self,
        previews: &Arc<dyn Previews>,
        call: Call,
        request: Request<TrackedBody>,
    ) -> Response<Body> {
        let (preview, named, by_host) = match call {
            Call::Name(visitor) => (Arc::clone(&visitor.preview), Some(visitor), true),
            Call::Host(preview) => (preview, None, true),
            Call::Headers(preview) => (preview, None, false),
        };
        let asked = Asked::new(request.method(), request.headers());
        let site = self.site(previews.as_ref(), &request);
        if preview.port == GUEST_PORT || (by_host && site.is_none()) {
            return response::error(StatusCode::NOT_FOUND, ErrorCode::RouteNotFound, "not found");
        }
        let seen_at = site.as_ref().filter(|_| by_host);
        if is_own(request.uri().path()) {
            let Some(site) = seen_at else {
                return response::error(StatusCode::NOT_FOUND, ErrorCode::RouteNotFound, "not found");
            };
            let (method, uri, headers) = (request.method(), request.uri(), request.headers());
            let (route, previews, preview) = (self.directory.get(&preview.sandbox), previews.as_ref(), &preview);
            let named = named.as_ref();
            return OwnRequest { previews, preview, named, site, route, asked, method, uri, headers }.answer().await;
        }
        let visitor = match named {
            Some(visitor) => Some(visitor),
            None => self.admit(previews.as_ref(), &preview, seen_at, &request).await,
        };
        let Some(visitor) = visitor else {
            let to = request.uri().path_and_query().map_or("/", |path| path.as_str());
            return admission::refuse(previews.as_ref(), &preview, seen_at, asked, to);
        };
        self.visit(Visit { previews, visitor, site, asked }, request).await
    }

    /// Where a request sees a service. A proxy with TLS in front of this server shows in the console's origin only.
    fn site(&self, previews: &dyn Previews, request: &Request<TrackedBody>) -> Option<Site> {
        let host = host(request.uri(), request.headers())?;
        let secure = request.extensions().get::<Peer>().is_some_and(|peer| peer.secure);
        let behind = || self.domain.as_deref().is_some_and(|domain| is_below(host, domain));
        Site::new(secure || (previews.console_origin().starts_with("https://") && behind()), host)
    }

    async fn admit(
        &self,
        previews: &dyn Previews,
        preview: &Arc<Preview>,
        site: Option<&Site>,
        request: &Request<TrackedBody>,
    ) -> Option<Visitor> {
        let route = self.directory.get(&preview.sandbox);
        let (headers, is_running) = (request.headers(), route.is_some());
        let admitted = admission::admit(previews, preview, site, headers, route.as_deref());
        if admitted.is_some() || is_running || !admission::has_token(headers) {
            return admitted;
        }
        // A token is known only while its sandbox runs; whether requests may resume it is the sandbox's own policy, as for its other ports.
        let route = self.auto_resume.resume(&preview.sandbox).await.ok()?;
        admission::admit(previews, preview, site, headers, Some(&route))
    }

    async fn visit(&self, visit: Visit<'_>, request: Request<TrackedBody>) -> Response<Body> {
        let preview = &visit.visitor.preview;
        // Browsers without TLS do not say what a request is for; then what they accept does.
        if visit.asked.kind == Kind::Navigation || (visit.asked.kind == Kind::Program && visit.asked.page) {
            preview.touched.touch();
        }
        if let Some(grant) = &visit.visitor.grant
            && visit.asked.page
            && visit.asked.kind != Kind::Background
            && (visit.asked.top || visit.visitor.console.is_some())
        {
            visit.previews.opened(grant);
        }
        let entered = match visit.asked.kind {
            Kind::Navigation | Kind::Program => self.wake(visit.previews.as_ref(), preview).await,
            Kind::Background => {
                let running = self.directory.get(&preview.sandbox);
                let held = running.and_then(|route| {
                    let hold = Hold::while_touched(&route.in_flight, &preview.touched)?;
                    Some((route, hold))
                });
                let Some(entered) = held else { return suspended(preview) };
                Ok(entered)
            }
        };
        match entered {
            Ok((route, hold)) => self.pass_on(visit, route, hold, request).await,
            Err(error) => visit.not_running(error).await,
        }
    }

    /// The route of a service's sandbox, which is resumed if it is paused, and not paused again while the hold lives.
    async fn wake(&self, previews: &dyn Previews, preview: &Preview) -> Result<(Arc<Route>, Hold), ResumeError> {
        if let Some(route) = self.directory.get(&preview.sandbox)
            && let Some(in_flight) = route.in_flight.begin()
        {
            return Ok((route, in_flight.into()));
        }
        for _ in 0..RESUME_ATTEMPTS {
            let route = previews.resume(preview).await?;
            if let Some(in_flight) = route.in_flight.begin() {
                return Ok((route, in_flight.into()));
            }
        }
        Err(ResumeError::Failed("it was paused again".into()))
    }

    /// Forwards a visitor's request to the program.
    async fn pass_on(
        &self,
        visit: Visit<'_>,
        route: Arc<Route>,
        hold: Hold,
        mut request: Request<TrackedBody>,
    ) -> Response<Body> {
        let Visit { previews, visitor, site, asked } = &visit;
        let preview = &visitor.preview;
        let port = preview.port;
        let headers = request.headers_mut();
        // Whoever came by a key has shown it to us, not to the program.
        let is_key = |key: &HeaderValue| key.to_str().is_ok_and(|key| previews.by_key(preview, key).is_some());
        if headers.get_all(API_KEY_HEADER).iter().any(is_key) {
            headers.remove(API_KEY_HEADER);
        }
        let is_local = preview.host_mode == HostMode::Local;
        if let Some(site) = site {
            local_host::hide_own_referer(headers, site);
            if is_local {
                local_host::rewrite_request(headers, site, port, route.traffic.https_ports.contains(&port));
            }
        }
        let masked = if is_local { local_host::host(port) } else { traffic::masked_host(&route.traffic, port) };
        let reads = request.method() == Method::GET;
        let bridged = visitor.console.clone().filter(|_| preview.bridge && asked.framed && asked.page && reads);
        if bridged.is_some() {
            bridge::prepare_request(request.headers_mut());
        }

        let patience = Patience::with_service(Arc::clone(previews), Arc::clone(preview));
        let terms = Terms { masked, hold, patience, until: visitor.until.clone() };
        let passed = tokio::select! {
            biased;
            () = cuts::any(&visitor.until) => return visit.revoked(),
            passed = self.pass(&route, port, request, terms) => passed,
        };
        let mut response = match passed {
            Ok(response) => response,
            Err(error) => return visit.failed(&route, error).await,
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        let headers = response.headers_mut();
        forbid_forgetting(headers);
        if let Some(site) = site.as_ref().filter(|_| is_local) {
            local_host::rewrite_response(headers, site, port);
        }
        if visitor.grant.is_some() {
            // The name of the host is the secret, and browsers would tell it to other sites.
            headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        }
        frames::rewrite(headers, visitor, previews.console_origin(), asked.framed);
        if visitor.grant.is_some() && visitor.console.is_some() && site.as_ref().is_some_and(Site::is_local) {
            frames::keep_cookies(headers);
        }
        match bridged {
            Some(console) => bridge::insert(response, &console),
            None => response,
        }
    }
}

impl Visit<'_> {
    fn page(&self, status: &ServiceStatus) -> Response<Body> {
        page::of_service(&self.visitor, status, self.previews.console_origin())
    }

    /// The answer to somebody whose right to see the service has ended before there was an answer.
    fn revoked(&self) -> Response<Body> {
        let asked = Asked { page: false, ..self.asked };
        admission::refuse(self.previews.as_ref(), &self.visitor.preview, None, asked, "/")
    }

    /// The answer if the sandbox could not be resumed.
    async fn not_running(&self, error: ResumeError) -> Response<Body> {
        let preview = &self.visitor.preview;
        let error = ProxyError::NotRunning(error);
        if !self.asked.page {
            return response::proxy_error(&preview.sandbox, preview.port, &error, false);
        }
        let mut status = self.previews.status(preview).await;
        if matches!(status.state, ServiceState::Starting | ServiceState::Running) {
            status.state = ServiceState::Suspended;
        }
        if let Some(reason) = error.reason() {
            status.reason.get_or_insert_with(|| reason.into_owned());
        }
        self.page(&status)
    }

    /// The answer if the program could not be reached, or did not answer.
    async fn failed(&self, route: &Route, error: ProxyError) -> Response<Body> {
        let preview = &self.visitor.preview;
        let is_gone = route.gone.is_cancelled();
        if is_gone && !self.asked.page {
            return suspended(preview);
        }
        if self.asked.page && (is_gone || matches!(error, ProxyError::PortClosed)) {
            let mut status = self.previews.status(preview).await;
            if is_gone && status.state == ServiceState::Running {
                status.state = ServiceState::Suspended;
            }
            return self.page(&status);
        }
        response::proxy_error(&preview.sandbox, preview.port, &error, self.asked.page)
    }
}

/// The answer to what a page does by itself while the sandbox is paused.
fn suspended(preview: &Preview) -> Response<Body> {
    let message = "This service is suspended: its sandbox is paused, and opening a page of it resumes it";
    let (id, port) = (&preview.sandbox, preview.port);
    response::service_error(StatusCode::SERVICE_UNAVAILABLE, id, port, message, "service_suspended")
}

/// The answer at the host of a grant that is not valid, or no longer.
pub(crate) fn ended_link(request: &Request<TrackedBody>) -> Response<Body> {
    if Asked::new(request.method(), request.headers()).page {
        return page::ended_link();
    }
    response::error(
        StatusCode::NOT_FOUND,
        ErrorCode::RouteNotFound,
        "This link has expired, was revoked, or never existed",
    )
}

/// Browsers forget cookies for a whole domain, with the console's, if one host of it asks for that.
fn forbid_forgetting(headers: &mut http::HeaderMap) {
    let all = |value: &HeaderValue| {
        let text = value.as_bytes().to_ascii_lowercase();
        text.windows(7).any(|word| word == b"cookies") || text.contains(&b'*')
    };
    if headers.get_all(CLEAR_SITE_DATA).iter().any(all) {
        headers.remove(CLEAR_SITE_DATA);
    }
}
