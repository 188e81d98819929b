//! What the edge asks about services.

use crate::auth::Reach;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use axum::body::Body;
use bytes::Bytes;
use cabana_accounts::Session;
use cabana_edge::preview::{Entered, Preview, PreviewAsset, Previews, ServiceStatus, SharedRequest, Visitor};
use cabana_edge::{ResumeError, Route};
use cabana_store::GrantKind;
use cabana_types::Permission;
use cabana_types::error::chain;
use cabana_types::service::{Access, ServiceState, is_grant_label};
use cabana_types::{GrantId, SandboxId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Response;
use sha2::{Digest, Sha256};

use super::tickets::{Ticket, VIEW_SECONDS};
use crate::api::App;
use crate::assets::Assets;
use crate::lifecycle::ChangeError;

/// The scripts that pages in frames get, and where the console's files have them.
const SCRIPTS: [(&str, &str); 2] = [("bridge.js", "bridge/bridge.js"), ("capture.js", "bridge/capture.js")];

/// Answers for the services of a server.
pub(crate) struct AppPreviews {
    app: Arc<App>,
    assets: Arc<dyn Assets>,
}

impl AppPreviews {
    pub(crate) fn new(app: Arc<App>, assets: Arc<dyn Assets>) -> Self {
        Self { app, assets }
    }

    /// What ends the visit of a person who may see the service; `None` if they may not.
    fn until(&self, preview: &Preview, session: &Session) -> Option<Vec<CancellationToken>> {
        if let Some(key) = &session.key {
            let known = self.app.keys.by_id(key)?;
            return self.reaches(&Reach::of_key(&known), preview).then(|| vec![session.ended.clone()]);
        }
        let directory = self.app.accounts.directory();
        let access = directory.access(&session.user, &preview.team)?;
        let reach = Reach::of_person(preview.team.clone(), Some(access));
        self.reaches(&reach, preview).then(|| vec![session.ended.clone(), access.changed.clone()])
    }

    fn reaches(&self, reach: &Reach, preview: &Preview) -> bool {
        reach.may(&preview.team, &preview.project, Permission::SandboxesRead)
    }

    /// A person of the service's team.
    fn member(&self, preview: &Arc<Preview>, session: &Session, console: String) -> Option<Visitor> {
        let until = self.until(preview, session)?;
        Some(Visitor { preview: Arc::clone(preview), member: true, console: Some(console), until, grant: None })
    }

    fn by_grant(&self, label: &str) -> Option<Visitor> {
        let grant = self.app.grants.get(label)?;
        let preview = self.app.services.preview(&grant.service)?;
        let mut visitor = match &grant.kind {
            GrantKind::Link if preview.access == Access::Private => return None,
            GrantKind::Link => Visitor { preview, member: false, console: None, until: vec![], grant: None },
            GrantKind::Frame { session, origin } => {
                let session = self.app.accounts.session_by_id(session)?;
                self.member(&preview, &session, origin.clone())?
            }
        };
        visitor.until.push(grant.ended.clone());
        visitor.grant = Some(grant.id.clone());
        Some(visitor)
    }
}

impl Previews for AppPreviews {
    fn at(&self, sandbox: &SandboxId, port: u16) -> Option<Arc<Preview>> {
        self.app.services.at(sandbox, port)
    }

    fn named(&self, label: &str) -> Option<Visitor> {
        if is_grant_label(label) {
            return self.by_grant(label);
        }
        let preview = self.app.services.by_slug(label).filter(|preview| preview.access == Access::Public)?;
        Some(Visitor { preview, member: false, console: None, until: vec![], grant: None })
    }

    fn by_view(&self, preview: &Arc<Preview>, cookie: &str) -> Option<Visitor> {
        let session = self.app.tickets.session_of(cookie, &preview.sandbox, preview.port)?;
        let session = self.app.accounts.session_by_id(&session)?;
        self.member(preview, &session, self.app.console_url.clone())
    }

    fn by_key(&self, preview: &Arc<Preview>, key: &str) -> Option<Visitor> {
        // Where the client is is not known here: a key for some networks only does not count.
        let known = self.app.keys.known(key, None).ok().flatten()?;
        known.scopes.has(Permission::SandboxesRead).then_some(())?;
        let visitor = Visitor { preview: Arc::clone(preview), member: true, console: None, until: vec![], grant: None };
        self.reaches(&Reach::of_key(&known), preview).then_some(visitor)
    }

    fn enter(&self, preview: &Preview, ticket: &str) -> Option<Entered> {
        let ticket = self.app.tickets.take(ticket, &preview.sandbox, preview.port, false)?;
        let session = self.app.accounts.session_by_id(&ticket.session)?;
        self.until(preview, &session)?;
        let cookie = self.app.tickets.view(&session.id, &preview.sandbox, preview.port);
        let fallback =
            ticket.framed_by.is_some().then(|| self.app.tickets.make(Ticket { is_fallback: true, ..ticket }));
        Some(Entered { cookie, max_age: VIEW_SECONDS, fallback })
    }

    fn fall_back<'a>(&'a self, preview: &'a Preview, ticket: &'a str) -> BoxFuture<'a, Option<String>> {
        async move {
            let ticket = self.app.tickets.take(ticket, &preview.sandbox, preview.port, true)?;
            let session = self.app.accounts.session_by_id(&ticket.session)?;
            self.until(preview, &session)?;
            let opened = self.app.frame_of(preview, &session, ticket.framed_by?).await;
            let label =
                opened.inspect_err(|error| tracing::warn!(error = chain(error), "could not make a grant")).ok()?;
            let base = self.app.service_base(None)?;
            Some(base.origin(label.expose()))
        }
        .boxed()
    }

    fn opened(&self, grant: &GrantId) {
        self.app.grants.opened(grant);
    }

    fn console_origin(&self) -> &str {
        &self.app.console_url
    }

    fn resume<'a>(&'a self, preview: &'a Preview) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>> {
        async move {
            let id = &preview.sandbox;
            let failed = |error: ChangeError| match &error {
                ChangeError::Capacity(_) => ResumeError::AtCapacity(chain(&error)),
                _ => ResumeError::Failed(chain(&error)),
            };
            let row = match self.app.store.sandbox(id).await {
                Ok(Some(row)) => row,
                Ok(None) => return Err(ResumeError::NotFound(None)),
                Err(error) => return Err(ResumeError::Failed(chain(&error))),
            };
            if let Some(cause) = row.state.cause() {
                return Err(ResumeError::NotFound(Some(format!("the sandbox {}", cause.describe()))));
            }
            self.app.lifecycle.resume(id, row.policy.auto_resume_seconds(), false).await.map_err(failed)?;
            self.app.directory.get(id).ok_or_else(|| ResumeError::Failed("it was paused again".to_owned()))
        }
        .boxed()
    }

    fn status<'a>(&'a self, preview: &'a Preview) -> BoxFuture<'a, ServiceStatus> {
        async move {
            match self.app.services.described(&preview.service).await {
                Some(service) => {
                    ServiceStatus { state: service.state, reason: service.reason, last_lines: service.last_lines }
                }
                None => ServiceStatus { state: ServiceState::Stopped, ..ServiceStatus::default() },
            }
        }
        .boxed()
    }

    fn shared<'a>(&'a self, label: &'a str, request: SharedRequest) -> BoxFuture<'a, Option<Response<Body>>> {
        async move { self.app.visit_share(label, &request.method, &request.path, &request.headers).await }.boxed()
    }

    fn asset(&self, name: &str) -> Option<PreviewAsset> {
        let (_, path) = SCRIPTS.iter().find(|(script, _)| *script == name)?;
        let body = Bytes::from(self.assets.get(path)?.into_owned());
        let digest = Sha256::digest(&body);
        let etag = format!("\"{}\"", digest.iter().take(12).map(|b| format!("{b:02x}")).collect::<String>());
        Some(PreviewAsset { content_type: "text/javascript; charset=utf-8", body, etag })
    }
}
