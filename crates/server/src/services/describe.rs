//! Services as the API and live updates show them.

use std::sync::Arc;
use std::time::Duration;

use cabana_store::{Sandbox, Service as Row};
use cabana_types::service::{Access, Run, ServiceState, outcome};
use cabana_types::wire::Service;
use cabana_types::{ChatId, SandboxId, ServiceId};
use jiff::Timestamp;
use tokio::time::timeout;

use super::Services;
use super::entry::{Entry, Seen};
use crate::chats::CHAT_LABEL;

/// How long a guest may take to say what its services do.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// Where services are: `PORT-ID.DOMAIN` by this scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) secure: bool,
    /// With a port where it has one.
    pub(crate) domain: String,
}

impl Base {
    /// The base for a client that reached the server by `own` (`http://localhost:3000`). Without a domain, browsers resolve names below
    /// `localhost` to this machine; no other name or address has names below it.
    pub(crate) fn of(domain: Option<&str>, own: Option<&str>) -> Option<Self> {
        let own = own.and_then(|own| url::Url::parse(own).ok());
        let secure = own.as_ref().is_some_and(|own| own.scheme() == "https");
        if let Some(domain) = domain {
            return Some(Self { secure, domain: domain.to_owned() });
        }
        let own = own?;
        let is_local = match own.host()? {
            url::Host::Domain(name) => name == "localhost",
            url::Host::Ipv4(address) => address.is_loopback(),
            url::Host::Ipv6(address) => address.is_loopback(),
        };
        let port = own.port().map(|port| format!(":{port}")).unwrap_or_default();
        is_local.then(|| Self { secure, domain: format!("localhost{port}") })
    }

    /// The origin of a host below the domain.
    pub(crate) fn origin(&self, label: &str) -> String {
        format!("{}://{label}.{}", if self.secure { "https" } else { "http" }, self.domain)
    }

    /// The origin of a port of a sandbox.
    pub(crate) fn port(&self, sandbox: &SandboxId, port: u16) -> String {
        self.origin(&format!("{port}-{sandbox}"))
    }

    fn url(&self, row: &Row) -> Option<String> {
        let origin = match (&row.settings.slug, row.settings.access) {
            (Some(slug), Access::Public) => self.origin(slug),
            _ => self.port(&row.sandbox, row.port?),
        };
        Some(origin + "/")
    }
}

impl Services {
    /// A service, after a look at what it does.
    pub(crate) async fn describe(&self, row: &Row, sandbox: &Sandbox, base: Option<&Base>) -> Service {
        let Some(entry) = self.entry(&row.id) else {
            // Its sandbox has ended.
            let run = Run::Ended { reason: String::new() };
            return shown(row, &Seen::default(), sandbox, &run, Vec::new(), base);
        };
        let mut lines = Vec::new();
        if let Some(route) = self.directory.get(&entry.sandbox)
            && let Run::Alive { .. } = entry.run()
            && let Some(last) = &row.last
        {
            let looking = self.look(&entry, &route, last.run);
            // What was seen last is better than nothing.
            let _ = timeout(LOOK_TIME, looking).await;
            if self.state_of(&entry, sandbox) == ServiceState::Error {
                lines = self.last_lines(&entry, &route, last.run).await;
            }
        }
        let row = entry.row();
        shown(&row, &entry.seen(), sandbox, &entry.run(), lines, base)
    }

    fn state_of(&self, entry: &Entry, sandbox: &Sandbox) -> ServiceState {
        let row = entry.row();
        outcome(row.up, &sandbox.state, &entry.run(), row.port, Timestamp::now()).state
    }

    /// A service as the edge shows it to somebody who may see it.
    pub(crate) async fn described(&self, id: &ServiceId) -> Option<Service> {
        let row = self.entry(id)?.row();
        let sandbox = self.store.sandbox(&row.sandbox).await.ok().flatten()?;
        Some(self.describe(&row, &sandbox, self.base.as_ref()).await)
    }

    /// Waits until a service is not starting any more, or the time is up.
    pub(crate) async fn settle(&self, id: &ServiceId, limit: Duration) {
        let Some(entry) = self.entry(id) else { return };
        let mut changes = entry.changes();
        let settled = async {
            loop {
                changes.mark_unchanged();
                let Ok(Some(sandbox)) = self.store.sandbox(&entry.sandbox).await else { return };
                // Who waits has resumed the sandbox: that its row does not say so yet is no end.
                let state = self.state_of(&entry, &sandbox);
                let on_its_way = matches!(state, ServiceState::Starting | ServiceState::Suspended);
                if !on_its_way || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // If the time is up, it is described as it is.
        let _ = timeout(limit, settled).await;
    }

    /// Tells whoever follows a service what it does now.
    pub(super) async fn tell(&self, entry: &Arc<Entry>) {
        let row = entry.row();
        if row.removed || !self.live.has_sockets(&row.team) {
            return;
        }
        if let Ok(Some(sandbox)) = self.store.sandbox(&row.sandbox).await {
            let run = entry.run();
            let lines = row.last_lines.clone();
            self.live
                .service_changed(&row.team, &shown(&row, &entry.seen(), &sandbox, &run, lines, self.base.as_ref()));
        }
    }
}

/// The chat that a sandbox was made for.
fn chat_of(sandbox: &Sandbox) -> Option<String> {
    let label = sandbox.metadata.get(CHAT_LABEL)?.split('/').next()?;
    label.parse::<ChatId>().ok().map(String::from)
}

fn shown(row: &Row, seen: &Seen, sandbox: &Sandbox, run: &Run, lines: Vec<String>, base: Option<&Base>) -> Service {
    let mut outcome = outcome(row.up, &sandbox.state, run, row.port, Timestamp::now());
    if let (ServiceState::Error, Run::Alive { .. }, Some(other)) = (outcome.state, run, seen.other_port) {
        outcome.reason = outcome.reason.map(|reason| format!("{reason}; it listens on port {other}"));
    }
    let end = row.last.as_ref().filter(|_| !row.is_pending()).and_then(|last| last.end.as_ref());
    let failed = outcome.state == ServiceState::Error;
    Service {
        id: row.id.clone(),
        sandbox_id: row.sandbox.clone(),
        chat_id: chat_of(sandbox),
        name: row.name.clone(),
        command: row.command.clone(),
        cwd: row.cwd.clone(),
        env_keys: row.env.keys().cloned().collect(),
        port: row.port,
        state: outcome.state,
        since: row.since,
        exit_code: end.filter(|end| end.reason.is_some()).and_then(|end| end.exit_code),
        reason: outcome.reason,
        last_lines: if failed && lines.is_empty() { row.last_lines.clone() } else { lines },
        restarts: row.restarts,
        on_wake: row.settings.on_wake,
        always_on: row.settings.always_on,
        access: row.settings.access,
        slug: row.settings.slug.clone(),
        host_mode: row.settings.host_mode,
        bridge: row.settings.bridge,
        url: base.and_then(|base| base.url(row)),
        created_at: row.created_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_services_are() {
        let base = |domain, own| Base::of(domain, own).map(|base| base.origin("x"));
        assert_eq!(base(None, Some("http://localhost:3000")).as_deref(), Some("http://x.localhost:3000"));
        assert_eq!(base(None, Some("http://127.0.0.1:8080")).as_deref(), Some("http://x.localhost:8080"));
        assert_eq!(base(None, Some("http://[::1]:8080")).as_deref(), Some("http://x.localhost:8080"));
        assert_eq!(base(None, Some("http://10.0.0.1:3000")), None);
        assert_eq!(base(None, Some("http://cabana.lan")), None);
        assert_eq!(base(None, None), None);
        assert_eq!(base(Some("e.test:8443"), Some("https://e.test:8443")).as_deref(), Some("https://x.e.test:8443"));
        assert_eq!(base(Some("e.test"), None).as_deref(), Some("http://x.e.test"));
    }
}
