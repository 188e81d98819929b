//! Previews: what people see of the services in sandboxes. The port of a service follows the service's access, whatever
//! the sandbox says about its other ports. Everything that is known about services, sessions and grants is behind
//! [`Previews`], which the server implements.
//!
//! A request for a service (`show`) passes `own_paths` (what is ours below `/.cabana/`), `admission` (who may see it),
//! `waking` (whether it may resume the sandbox, and whether it keeps it awake), and is then forwarded as any other.
//! `local_host`, `frames` and `bridge` change the headers and pages that pass by; `page` is what people see while there
//! is nothing to pass on.

mod admission;
mod bridge;
mod csp;
mod frames;
mod html;
mod local_host;
mod own_paths;
mod page;
pub(crate) mod show;
mod site;
mod waking;

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use cabana_types::service::{Access, HostMode, ServiceState};
use cabana_types::{GrantId, ProjectId, SandboxId, Secret, ServiceId, TeamId};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Response};
use tokio_util::sync::CancellationToken;

use crate::directory::Route;
use crate::edge::ResumeError;

/// How long after somebody looked at a service what its pages do by themselves counts as activity.
const RECENT: Duration = Duration::from_secs(5 * 60);

/// A service as the edge sees it.
#[derive(Debug)]
pub struct Preview {
    pub service: ServiceId,
    pub name: String,
    pub sandbox: SandboxId,
    pub team: TeamId,
    pub project: ProjectId,
    pub port: u16,
    pub access: Access,
    pub host_mode: HostMode,
    pub bridge: bool,
    pub touched: Arc<Touched>,
}

/// When somebody last looked at a service.
#[derive(Debug, Default)]
pub struct Touched(
    /// Milliseconds of the monotonic clock; 0 if nobody ever did.
    AtomicU64,
);

impl Touched {
    /// Somebody looks at it now.
    pub fn touch(&self) {
        self.0.fetch_max(now(), Ordering::Relaxed);
    }

    /// Whether somebody looked at it within the last five minutes.
    pub fn is_recent(&self) -> bool {
        self.recent_for().is_some()
    }

    /// For how long that will be so, if nobody looks again.
    pub(crate) fn recent_for(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            at => RECENT.checked_sub(Duration::from_millis(now().saturating_sub(at))).filter(|left| !left.is_zero()),
        }
    }
}

#[cfg(test)]
impl Touched {
    /// Makes it as if nobody had looked for long.
    pub(crate) fn expire(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Milliseconds of the monotonic clock, never 0.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// Somebody who may see a service.
#[derive(Debug, Clone)]
pub struct Visitor {
    pub preview: Arc<Preview>,
    /// Whether they are of the service's team.
    pub member: bool,
    /// The console whose frames may show the page, for views and frame grants.
    pub console: Option<String>,
    /// What they see is cut when one of these is cancelled.
    pub until: Vec<CancellationToken>,
    /// The grant by which they came, so that opening a page can be counted.
    pub grant: Option<GrantId>,
}

/// What somebody gets for a ticket.
#[derive(Debug)]
pub struct Entered {
    /// Value of the view cookie.
    pub cookie: Secret,
    /// Its life in seconds.
    pub max_age: u64,
    /// Ticket for `/.cabana/check`, if the visitor is in a frame.
    pub fallback: Option<Secret>,
}

/// What a service does, for the pages of the edge.
#[derive(Debug, Clone, Default)]
pub struct ServiceStatus {
    pub state: ServiceState,
    pub reason: Option<String>,
    /// Untrusted text.
    pub last_lines: Vec<String>,
}

/// A script that the edge serves on the hosts of services.
#[derive(Debug, Clone)]
pub struct PreviewAsset {
    pub content_type: &'static str,
    pub body: Bytes,
    /// With its quotation marks.
    pub etag: String,
}

/// A request to see what is shared.
#[derive(Debug)]
pub struct SharedRequest {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
}

/// What the edge asks about services. Everything that is not a future is answered from memory: some of it is asked for every request.
pub trait Previews: Send + Sync {
    /// The service at a port of a sandbox.
    fn at(&self, sandbox: &SandboxId, port: u16) -> Option<Arc<Preview>>;

    /// Who comes by the first label of a host: a grant that is valid, or the slug of a public service.
    fn named(&self, label: &str) -> Option<Visitor>;

    /// Who comes with a view cookie.
    fn by_view(&self, preview: &Arc<Preview>, cookie: &str) -> Option<Visitor>;

    /// Who comes with an API key.
    fn by_key(&self, preview: &Arc<Preview>, key: &str) -> Option<Visitor>;

    /// Uses a ticket up.
    fn enter(&self, preview: &Preview, ticket: &str) -> Option<Entered>;

    /// The origin of a grant host, for a browser that does not keep the cookie. Uses the ticket up.
    fn fall_back<'a>(&'a self, preview: &'a Preview, ticket: &'a str) -> BoxFuture<'a, Option<String>>;

    /// A page was opened by a grant.
    fn opened(&self, grant: &GrantId);

    /// The origin of the console.
    fn console_origin(&self) -> &str;

    /// Resumes the sandbox of a service, whether or not other requests may.
    fn resume<'a>(&'a self, preview: &'a Preview) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>>;

    /// What a service does.
    fn status<'a>(&'a self, preview: &'a Preview) -> BoxFuture<'a, ServiceStatus>;

    /// What is shared by the name of a grant that is for no service; `None` if there is nothing, or no longer.
    fn shared<'a>(&'a self, label: &'a str, request: SharedRequest) -> BoxFuture<'a, Option<Response<Body>>>;

    /// `bridge.js` or `capture.js`.
    fn asset(&self, name: &str) -> Option<PreviewAsset>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_for_a_while() {
        let touched = Touched::default();
        assert!(!touched.is_recent());
        touched.touch();
        assert!(touched.is_recent());
        assert!(touched.recent_for().is_some_and(|left| left <= RECENT && left > RECENT / 2));
    }
}
