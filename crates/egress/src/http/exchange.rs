//! One request to the server that it is for, and its response.

use std::sync::Arc;
use std::time::Duration;

use cabana_body_drain::{ReplyStream, TrackedBody};
use cabana_http1::{Head, Sender, Unanswered, handshake_with};
use cabana_types::egress::EgressProxy;
use http::header::{CONNECTION, EXPECT, HOST, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::answer::{Body, Fault};
use super::target::{self, Host};
use super::{Closed, MAX_HEAD, MAX_HEADERS, Scheme};
use crate::dial::{DialError, dial};
use crate::http::fill::fill;
use crate::http::replace::replace;
use crate::session::{Decision, Session, Way};
use crate::stream::{AnyStream, join};

/// How long the connection of the last request may take to become ready for the next.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// The requests of one connection. They come one after the other.
pub(crate) struct Exchange {
    session: Arc<Session>,
    scheme: Scheme,
    /// The connection to the server of the last request.
    upstream: Mutex<Option<Upstream>>,
}

struct Upstream {
    way: Way,
    proxy: Option<EgressProxy>,
    sender: Sender<TrackedBody>,
}

/// Why a request has no response.
enum Failure {
    /// The sandbox gets an answer.
    Fault(Fault),
    /// Its connection is closed.
    Denied,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Exchange {
    pub(crate) fn new(session: Arc<Session>, scheme: Scheme) -> Self {
        Self { session, scheme, upstream: Mutex::default() }
    }

    pub(crate) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Closed> {
        let (request, drain) = cabana_body_drain::track(request);
        match self.exchange(request).await {
            Ok((response, closes)) => Ok(drain.finish(response, closes).await),
            Err(Failure::Fault(fault)) => {
                tracing::debug!(sandbox = %self.session.owner, ?fault, "a request of a sandbox has no response");
                Ok(drain.finish(fault.answer(), true).await)
            }
            Err(Failure::Denied) => Err(Closed),
        }
    }

    /// The response, and whether the server reads no more of the request.
    async fn exchange(&self, request: Request<TrackedBody>) -> Result<(Response<Body>, bool), Failure> {
        let (mut parts, body) = request.into_parts();
        let host = target::host(&parts).map_err(|refused| Fault::BadRequest(refused.0))?;
        self.check(&host)?;
        let decision = self.session.decide(host.name.as_ref()).map_err(|rule| {
            self.session.deny(host.name.as_ref(), rule);
            Failure::Denied
        })?;

        let protocol = target::upgrade(&parts.headers);
        target::strip_hop_by_hop(&mut parts.headers);
        // The proxy answers it itself.
        parts.headers.remove(EXPECT);
        if let Some(protocol) = &protocol {
            set_upgrade(&mut parts.headers, protocol.clone());
        }
        if let Some(name) = host.name.as_ref().filter(|name| decision.policy.intercepts(name)) {
            // The server would answer with the headers, and the sandbox read the secrets.
            if matches!(parts.method.as_str(), "TRACE" | "TRACK") {
                return Err(Fault::BadRequest("TRACE is not allowed to a host that gets secrets").into());
            }
            // Before the rules, so that nothing is replaced in what they fill in.
            if matches!(self.scheme, Scheme::Tls(_)) && protocol.is_none() {
                replace(&self.session, decision.policy.placeholders_for(name), &mut parts.headers).await?;
            }
            if let Some(rules) = decision.policy.rules.get(name) {
                fill(&self.session, rules, &mut parts.headers).await?;
            }
        }
        // `Connection` may have named it.
        parts.headers.insert(HOST, host.header);
        parts.uri = target::origin_form(&parts.uri);
        parts.version = Version::HTTP_11;

        let mut request = Request::from_parts(parts, body);
        let client = protocol.map(|_| hyper::upgrade::on(&mut request));
        let mut response = self.send(request, &decision).await?;
        let closes = response.version() < Version::HTTP_11 || target::names(response.headers(), "close");
        *response.version_mut() = Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let client = client.ok_or_else(|| Fault::Upstream("the server switched protocols unasked".to_owned()))?;
            return Ok((self.tunnel(response, client)?, false));
        }
        target::strip_hop_by_hop(response.headers_mut());
        Ok((response.map(Either::Left), closes))
    }

    /// Checks that a request is for the host of its connection.
    fn check(&self, host: &Host) -> Result<(), Fault> {
        let other_name = match &self.scheme {
            Scheme::Plain => false,
            Scheme::Tls(name) => host.name.as_ref() != Some(name),
        };
        let other_port = host.port.is_some_and(|port| port != self.session.original.port());
        if other_name || other_port { Err(Fault::OtherHost) } else { Ok(()) }
    }

    /// Sends a request on the connection of the last one, if it is for the same server, or on a new one. It is sent twice
    /// only if nothing of it was sent before.
    async fn send(
        &self,
        mut request: Request<TrackedBody>,
        decision: &Decision,
    ) -> Result<Response<Incoming>, Failure> {
        let idle = self.session.proxy.config.limits.idle;
        let mut kept = self.upstream.lock().await;
        let mut last =
            kept.take().filter(|last| last.way == decision.way && last.proxy == decision.policy.egress_proxy);
        loop {
            let (mut upstream, used) = match last.take() {
                // It is not ready if the server does not read the rest of the last request.
                Some(mut upstream) => match timeout(READY_TIMEOUT, upstream.sender.ready()).await {
                    Ok(Ok(())) => (upstream, true),
                    _ => continue,
                },
                None => (self.connect(decision).await?, false),
            };
            let sent = timeout(idle, upstream.sender.send(request)).await;
            let failure = match sent {
                Ok(Ok(response)) => {
                    *kept = Some(upstream);
                    return Ok(response);
                }
                Ok(Err(failure)) => failure,
                Err(_) => return Err(Fault::Upstream("the server did not answer in time".to_owned()).into()),
            };
            match failure.unsent {
                Some(unsent) if used => request = unsent,
                unsent => {
                    let reason = std::io::Error::from(Unanswered { unsent, ..failure });
                    return Err(Fault::Upstream(format!("no response of the server: {reason}")).into());
                }
            }
        }
    }

    async fn connect(&self, decision: &Decision) -> Result<Upstream, Failure> {
        let session = &self.session;
        let stream = dial(session, decision).await.map_err(|error| match error {
            DialError::Denied => Failure::Denied,
            error => Fault::Upstream(error.to_string()).into(),
        })?;
        let head = Head::default();
        let stream = match &self.scheme {
            Scheme::Plain => head.plain(ReplyStream::new(stream)),
            Scheme::Tls(name) => {
                let failed = |error: &dyn std::fmt::Display| Fault::Upstream(format!("TLS to {name}: {error}"));
                let server = ServerName::try_from(name.as_str().to_owned()).map_err(|error| failed(&error))?;
                let below = head.encrypted(stream);
                let handshake = TlsConnector::from(Arc::clone(&session.proxy.tls)).connect(server, below);
                let connected = timeout(session.proxy.config.limits.connect, handshake).await;
                let stream = connected.map_err(|_| failed(&"no answer in time"))?.map_err(|error| failed(&error))?;
                head.decrypted(ReplyStream::new(Box::new(stream) as AnyStream))
            }
        };
        let mut builder = http1::Builder::new();
        builder.max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD).preserve_header_case(true);
        let started = handshake_with(&builder, stream, head).await;
        let (sender, connection) = started.map_err(|error| Fault::Upstream(error.to_string()))?;
        let ended = session.ended.clone();
        session.tasks.spawn(async move {
            tokio::select! {
                ended = connection.with_upgrades() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection for a sandbox broke");
                    }
                }
                () = ended.cancelled_owned() => {}
            }
        });
        Ok(Upstream { way: decision.way.clone(), proxy: decision.policy.egress_proxy.clone(), sender })
    }

    /// Passes a switch of protocols on, and then everything that both sides send.
    fn tunnel(&self, mut response: Response<Incoming>, client: OnUpgrade) -> Result<Response<Body>, Failure> {
        let protocol = response.headers().get(UPGRADE).cloned();
        let protocol = protocol.ok_or_else(|| Fault::Upstream("the server switched to no protocol".to_owned()))?;
        let server = hyper::upgrade::on(&mut response);
        let (ended, idle) = (self.session.ended.clone(), self.session.proxy.config.limits.idle);
        self.session.tasks.spawn(async move {
            let tunnel = async {
                if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                    join(TokioIo::new(client), TokioIo::new(server), idle).await;
                }
            };
            ended.run_until_cancelled(tunnel).await;
        });
        target::strip_hop_by_hop(response.headers_mut());
        set_upgrade(response.headers_mut(), protocol);
        Ok(response.map(|_| Either::Right(Full::default())))
    }
}

fn set_upgrade(headers: &mut http::HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}
