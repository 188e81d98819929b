//! The authorization table: what every route needs. A route without an entry is refused.

use cabana_types::Permission::{
    self, Admin, AuditRead, Chats, Keys, Members, SandboxesRead, SandboxesWrite, ServicesPublish, TemplatesRead,
    TemplatesWrite, Tools, UsageRead,
};
use http::Method;

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: its handler checks a signed link or code, or there is nothing to protect.
    Public,
    /// Any valid key or session: it is about the caller itself.
    Own,
    /// The same, of somebody who signed in within the last hour.
    OwnFresh,
    /// A permission.
    One(Permission),
    /// A permission over the whole team: for callers who reach only some of its projects it is forbidden.
    Whole(Permission),
    /// A permission, of somebody who signed in within the last hour: it hands out or takes away access.
    Fresh(Permission),
}

impl Needs {
    /// The permission that it needs, if any.
    pub fn permission(self) -> Option<Permission> {
        match self {
            Self::Public | Self::Own | Self::OwnFresh => None,
            Self::One(permission) | Self::Whole(permission) | Self::Fresh(permission) => Some(permission),
        }
    }

    /// Whether it needs the whole team. Members are always a matter of it.
    pub fn is_of_whole_team(self) -> bool {
        matches!(self, Self::Whole(_)) || self.permission() == Some(Members)
    }

    /// Whether people must have signed in lately.
    pub fn is_sensitive(self) -> bool {
        matches!(self, Self::OwnFresh | Self::Fresh(_))
    }
}

/// What a request to a route needs; `None` for a route without an entry.
pub fn needs(method: &Method, route: &str) -> Option<Needs> {
    // A route for GET answers HEAD too.
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let (_, _, needs) =
        TABLE.iter().find(|(methods, path, _)| *path == route && methods.split(' ').any(|m| m == method))?;
    Some(*needs)
}

/// Reads that are recorded in the audit log: they give something out, or lead into a sandbox.
const RECORDED_READS: [&str; 3] = ["/audit/export", "/admin/audit/export", "/sandboxes/{sandboxID}/terminal"];

/// Whether the audit log has an entry of every request to a route: those that change something, and attempts to sign in.
pub(crate) fn is_recorded(method: &Method, route: &str) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let Some(needs) = needs(method, route) else { return false };
    match needs.permission() {
        None if needs == Needs::Public => !reads && route.starts_with("/auth/"),
        None => !reads,
        // A read that needs the right to write prepares a change.
        Some(SandboxesWrite | TemplatesWrite) if reads => true,
        Some(_) if reads => RECORDED_READS.contains(&route),
        Some(permission) => !matches!(permission, SandboxesRead | TemplatesRead | UsageRead | AuditRead),
    }
}

/// Whether there is an entry for a route with any method.
pub(super) fn is_listed(route: &str) -> bool {
    TABLE.iter().any(|(_, path, _)| *path == route)
}

const fn one(permission: Permission) -> Needs {
    Needs::One(permission)
}

const fn whole(permission: Permission) -> Needs {
    Needs::Whole(permission)
}

const fn fresh(permission: Permission) -> Needs {
    Needs::Fresh(permission)
}

/// Methods, route, and what they need.
const TABLE: &[(&str, &str, Needs)] = &[
    ("GET", "/health", Needs::Public),
    ("GET", "/openapi.json", Needs::Public),
    ("GET", "/.well-known/jwks.json", Needs::Public),
    ("GET", "/.well-known/openid-configuration", Needs::Public),
    ("POST", "/auth/sign-in", Needs::Public),
    ("POST", "/auth/welcome", Needs::Public),
    ("PUT", "/templates/{templateID}/files/{hash}", Needs::Public),
    ("GET", "/sandboxes/{sandboxID}/download", Needs::Public),
    // The caller itself.
    ("GET DELETE", "/auth/session", Needs::Own),
    ("GET", "/auth/sessions", Needs::Own),
    ("DELETE", "/auth/sessions/{sessionID}", Needs::Own),
    ("GET", "/teams", Needs::Own),
    ("GET", "/status", Needs::Own),
    // Each topic needs a permission of its own.
    ("GET", "/live", Needs::Own),
    // People.
    ("PUT", "/auth/session", Needs::Own),
    ("POST", "/auth/confirm", Needs::Own),
    ("PUT", "/auth/password", Needs::Own),
    ("PATCH", "/auth/user", Needs::OwnFresh),
    ("GET", "/auth/methods", Needs::Public),
    ("POST", "/auth/invitation", Needs::Public),
    ("POST", "/auth/invitation/accept", Needs::Public),
    ("POST", "/teams", Needs::OwnFresh),
    ("POST", "/teams/{teamID}/leave", Needs::Own),
    ("PATCH", "/teams/{teamID}", fresh(Members)),
    ("DELETE", "/teams/{teamID}", fresh(Members)),
    ("GET", "/teams/{teamID}/members", one(Members)),
    ("PATCH DELETE", "/teams/{teamID}/members/{userID}", fresh(Members)),
    ("GET", "/teams/{teamID}/invitations", one(Members)),
    ("POST", "/teams/{teamID}/invitations", fresh(Members)),
    ("DELETE", "/teams/{teamID}/invitations/{invitationID}", one(Members)),
    ("GET", "/projects", Needs::Own),
    ("POST", "/projects", fresh(Members)),
    ("GET", "/projects/{projectID}", Needs::Own),
    ("PATCH DELETE", "/projects/{projectID}", fresh(Members)),
    ("GET", "/projects/{projectID}/members", one(Members)),
    ("PUT DELETE", "/projects/{projectID}/members/{userID}", fresh(Members)),
    ("GET", "/projects/{projectID}/quotas", one(UsageRead)),
    ("PUT", "/projects/{projectID}/quotas", fresh(Members)),
    ("GET", "/admin/users", one(Admin)),
    ("PATCH", "/admin/users/{userID}", fresh(Admin)),
    ("GET", "/admin/teams", one(Admin)),
    ("POST", "/admin/teams", fresh(Admin)),
    // The server.
    ("POST", "/auth/codes", one(Admin)),
    ("GET", "/status/doctor", one(Admin)),
    ("GET", "/metrics", one(Admin)),
    ("GET", "/status/check", one(SandboxesRead)),
    // The team.
    ("GET", "/api-keys", one(Keys)),
    ("POST", "/api-keys", fresh(Keys)),
    ("DELETE PATCH", "/api-keys/{apiKeyID}", fresh(Keys)),
    ("GET", "/teams/{teamID}/metrics", one(UsageRead)),
    ("GET", "/teams/{teamID}/metrics/max", one(UsageRead)),
    ("GET", "/sandboxes/quota", one(UsageRead)),
    // Who did what.
    ("GET", "/audit", whole(AuditRead)),
    ("GET", "/audit/export", whole(AuditRead)),
    ("GET", "/audit/verify", whole(AuditRead)),
    ("GET", "/admin/audit", one(Admin)),
    ("GET", "/admin/audit/export", one(Admin)),
    ("GET", "/admin/audit/verify", one(Admin)),
    ("POST", "/admin/audit/prune", one(Admin)),
    ("GET", "/quotas", one(UsageRead)),
    // What was used, and what it costs.
    ("GET", "/usage", one(UsageRead)),
    ("GET", "/sandboxes/{sandboxID}/usage", one(UsageRead)),
    ("GET", "/prices", one(UsageRead)),
    ("GET", "/wallet", whole(UsageRead)),
    ("GET", "/wallet/entries", whole(UsageRead)),
    ("PUT", "/admin/prices", one(Admin)),
    ("POST", "/admin/teams/{teamID}/top-ups", one(Admin)),
    // Limits of all teams.
    ("GET PUT DELETE", "/admin/teams/{teamID}/quotas", one(Admin)),
    ("PUT", "/admin/teams/{teamID}/plan", one(Admin)),
    ("GET", "/admin/plans", one(Admin)),
    ("POST", "/admin/signing-keys", one(Admin)),
    ("GET PUT DELETE", "/admin/plans/{planID}", one(Admin)),
    // Sandboxes.
    ("GET", "/sandboxes", one(SandboxesRead)),
    ("GET", "/v2/sandboxes", one(SandboxesRead)),
    ("GET", "/sandboxes/events", one(SandboxesRead)),
    ("GET", "/sandboxes/metrics", one(SandboxesRead)),
    ("GET", "/sandboxes/{sandboxID}", one(SandboxesRead)),
    ("GET", "/sandboxes/{sandboxID}/logs", one(SandboxesRead)),
    ("GET", "/v2/sandboxes/{sandboxID}/logs", one(SandboxesRead)),
    ("GET", "/sandboxes/{sandboxID}/metrics", one(SandboxesRead)),
    ("GET", "/sandboxes/{sandboxID}/network", one(SandboxesRead)),
    ("GET", "/sandboxes/{sandboxID}/ports", one(SandboxesRead)),
    ("GET", "/sandboxes/{sandboxID}/tombstone", one(SandboxesRead)),
    ("GET", "/events/sandboxes", one(SandboxesRead)),
    ("GET", "/events/sandboxes/{sandboxID}", one(SandboxesRead)),
    ("POST", "/sandboxes", one(SandboxesWrite)),
    ("POST", "/v2/sandboxes", one(SandboxesWrite)),
    ("DELETE", "/sandboxes/{sandboxID}", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/archive", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/clone", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/connect", one(SandboxesWrite)),
    ("POST", "/v2/sandboxes/{sandboxID}/connect", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/fork", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/hotplug-memory", one(SandboxesWrite)),
    ("PUT", "/sandboxes/{sandboxID}/network", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/pause", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/recover", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/refreshes", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/reset", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/resize", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/resume", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/snapshots", one(SandboxesWrite)),
    ("POST", "/sandboxes/{sandboxID}/timeout", one(SandboxesWrite)),
    ("POST DELETE", "/sandboxes/{sandboxID}/volume-mounts", one(SandboxesWrite)),
    // What sandboxes use, and who hears of them.
    ("GET", "/events/webhooks", whole(SandboxesRead)),
    ("GET", "/events/webhooks/{webhookID}", whole(SandboxesRead)),
    ("GET", "/events/webhooks/{webhookID}/deliveries", whole(SandboxesRead)),
    ("POST", "/events/webhooks", whole(SandboxesWrite)),
    ("DELETE PATCH", "/events/webhooks/{webhookID}", whole(SandboxesWrite)),
    ("GET", "/secrets", one(SandboxesRead)),
    ("GET", "/secrets/{secretID}", one(SandboxesRead)),
    ("POST", "/secrets", whole(SandboxesWrite)),
    ("PUT POST DELETE", "/secrets/{secretID}", whole(SandboxesWrite)),
    ("GET", "/volumes", one(SandboxesRead)),
    ("GET", "/volumes/{volumeID}", one(SandboxesRead)),
    ("POST", "/volumes", one(SandboxesWrite)),
    ("DELETE PATCH", "/volumes/{volumeID}", one(SandboxesWrite)),
    ("GET POST", "/volumecontent/{volumeID}/dir", one(SandboxesWrite)),
    ("GET PUT", "/volumecontent/{volumeID}/file", one(SandboxesWrite)),
    ("GET DELETE PATCH", "/volumecontent/{volumeID}/path", one(SandboxesWrite)),
    // Inside of sandboxes.
    ("GET", "/tools", one(Tools)),
    ("POST", "/mcp", one(Tools)),
    ("POST", "/sandboxes/{sandboxID}/tools/{name}", one(Tools)),
    ("GET DELETE", "/sandboxes/{sandboxID}/calls/{callID}", one(Tools)),
    ("POST", "/sandboxes/{sandboxID}/uploads", one(Tools)),
    ("GET DELETE", "/sandboxes/{sandboxID}/files", one(Tools)),
    ("GET PUT", "/sandboxes/{sandboxID}/files/content", one(Tools)),
    ("POST", "/sandboxes/{sandboxID}/files/directories", one(Tools)),
    ("POST", "/sandboxes/{sandboxID}/files/move", one(Tools)),
    ("GET", "/sandboxes/{sandboxID}/files/stat", one(Tools)),
    ("POST", "/sandboxes/{sandboxID}/sqlite", one(Tools)),
    ("GET", "/sandboxes/{sandboxID}/terminal", one(Tools)),
    ("GET", "/sandboxes/{sandboxID}/terminals", one(Tools)),
    ("DELETE", "/sandboxes/{sandboxID}/terminals/{pid}", one(Tools)),
    // Services.
    ("GET", "/sandboxes/{sandboxID}/services", one(SandboxesRead)),
    ("GET", "/services/{serviceID}", one(SandboxesRead)),
    ("GET", "/services/{serviceID}/logs", one(SandboxesRead)),
    ("POST", "/services/{serviceID}/open", one(SandboxesRead)),
    ("POST", "/services/{serviceID}/screenshot", one(Tools)),
    ("POST", "/sandboxes/{sandboxID}/services", one(ServicesPublish)),
    ("DELETE PATCH", "/services/{serviceID}", one(ServicesPublish)),
    ("GET POST", "/services/{serviceID}/links", one(ServicesPublish)),
    ("DELETE", "/services/{serviceID}/links/{linkID}", one(ServicesPublish)),
    ("POST", "/services/{serviceID}/restart", one(ServicesPublish)),
    ("POST", "/services/{serviceID}/start", one(ServicesPublish)),
    ("POST", "/services/{serviceID}/stop", one(ServicesPublish)),
    // Templates.
    ("GET", "/default-templates", one(TemplatesRead)),
    ("GET", "/snapshots", one(TemplatesRead)),
    ("GET", "/templates", one(TemplatesRead)),
    ("GET", "/templates/gallery", one(TemplatesRead)),
    ("GET", "/templates/gallery/{name}", one(TemplatesRead)),
    ("GET", "/v2/templates", one(TemplatesRead)),
    ("GET", "/templates/{templateID}", one(TemplatesRead)),
    ("GET", "/templates/aliases/{alias}", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/builds/{buildID}/logs", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/builds/{buildID}/status", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/tags", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/tags/count", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/tags/exists", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/tags/groups", one(TemplatesRead)),
    ("GET", "/templates/{templateID}/tags/{tag}/assignments", one(TemplatesRead)),
    // It answers with a link for an upload.
    ("GET", "/templates/{templateID}/files/{hash}", one(TemplatesWrite)),
    ("POST", "/sandboxes/{sandboxID}/commit", one(TemplatesWrite)),
    ("POST", "/templates", one(TemplatesWrite)),
    ("POST", "/templates/gallery/{name}", one(TemplatesWrite)),
    ("POST", "/v2/templates", one(TemplatesWrite)),
    ("POST", "/v3/templates", one(TemplatesWrite)),
    ("POST DELETE", "/templates/tags", one(TemplatesWrite)),
    ("POST DELETE PATCH", "/templates/{templateID}", one(TemplatesWrite)),
    ("PATCH", "/v2/templates/{templateID}", one(TemplatesWrite)),
    ("POST", "/templates/{templateID}/builds/{buildID}", one(TemplatesWrite)),
    ("POST DELETE", "/v2/templates/{templateID}/builds/{buildID}", one(TemplatesWrite)),
    // Chats.
    ("GET", "/agents", one(Chats)),
    ("POST", "/agents", whole(Chats)),
    ("GET", "/agents/{agentID}", one(Chats)),
    ("DELETE PATCH", "/agents/{agentID}", whole(Chats)),
    ("POST", "/attachments", one(Chats)),
    ("GET DELETE", "/attachments/{attachmentID}", one(Chats)),
    ("GET", "/attachments/{attachmentID}/content", one(Chats)),
    ("GET POST", "/chats", one(Chats)),
    ("GET DELETE PATCH", "/chats/{chatID}", one(Chats)),
    ("POST", "/chats/{chatID}/approvals/{callID}", one(Chats)),
    ("GET POST", "/chats/{chatID}/attachments", one(Chats)),
    ("POST", "/chats/{chatID}/attachments/sync", one(Chats)),
    ("POST", "/chats/{chatID}/cancel", one(Chats)),
    ("GET", "/chats/{chatID}/checkpoints", one(Chats)),
    ("POST", "/chats/{chatID}/checkpoints/{turnID}/restore", one(Chats)),
    ("GET", "/chats/{chatID}/events", one(Chats)),
    ("POST", "/chats/{chatID}/fork", one(Chats)),
    ("GET POST", "/chats/{chatID}/messages", one(Chats)),
    ("GET", "/chats/{chatID}/resume", one(Chats)),
    ("GET POST", "/chats/{chatID}/shares", one(Chats)),
    ("DELETE", "/chats/{chatID}/shares/{shareID}", one(Chats)),
    ("GET", "/chats/{chatID}/exposure", one(Chats)),
    ("POST", "/chats/{chatID}/sandboxes", one(Chats)),
    ("DELETE", "/chats/{chatID}/sandboxes/{name}", one(Chats)),
    ("POST", "/chats/{chatID}/tool-results", one(Chats)),
    ("GET", "/model-providers", one(Chats)),
    ("POST", "/model-providers", whole(Chats)),
    ("DELETE", "/model-providers/{providerName}", whole(Chats)),
    ("GET", "/models", one(Chats)),
    ("GET", "/v1/models", one(Chats)),
    ("POST", "/v1/chat/completions", one(Chats)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Methods and routes of the OpenAPI document, and whether they need a key.
    fn described() -> Vec<(Method, String, bool)> {
        let document: serde_json::Value = serde_json::from_str(crate::api::document()).expect("JSON");
        let mut routes = vec![];
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("item") {
                let open = |schemes: &serde_json::Value| {
                    schemes.as_array().is_some_and(|s| s.iter().any(|s| s.get("apiKey").is_none()))
                };
                let method = method.to_uppercase().parse().expect("method");
                routes.push((method, path.clone(), !open(&operation["security"])));
            }
        }
        routes
    }

    #[test]
    fn every_route_has_one_entry() {
        let routes = described();
        for (method, route, private) in &routes {
            let found = needs(method, route);
            assert!(found.is_some(), "{method} {route} has no entry in the authorization table: say what it needs");
            assert_eq!(found == Some(Needs::Public), !private, "{method} {route}");
        }
        let routes: BTreeSet<(String, String)> = routes.into_iter().map(|(m, r, _)| (m.to_string(), r)).collect();
        let mut listed = BTreeSet::new();
        for (methods, path, _) in TABLE {
            for method in methods.split(' ') {
                assert!(listed.insert((method.to_owned(), (*path).to_owned())), "{method} {path} is listed twice");
            }
        }
        assert_eq!(listed, routes, "entries without a route");
    }

    #[test]
    fn what_changes_something_is_recorded() {
        let recorded = |method: Method, route: &str| is_recorded(&method, route);
        assert!(recorded(Method::POST, "/sandboxes") && recorded(Method::DELETE, "/auth/session"));
        assert!(recorded(Method::POST, "/auth/sign-in") && recorded(Method::GET, "/audit/export"));
        assert!(recorded(Method::GET, "/templates/{templateID}/files/{hash}"));
        assert!(!recorded(Method::GET, "/sandboxes") && !recorded(Method::POST, "/services/{serviceID}/open"));
        assert!(!recorded(Method::GET, "/auth/session") && !recorded(Method::PATCH, "/sandboxes"));
        for (methods, route, needs) in TABLE {
            let changes = methods.split(' ').filter(|method| *method != "GET");
            for method in changes.map(|method| method.parse().expect("method")) {
                let reads = matches!(needs, Needs::Public) || *needs == one(SandboxesRead);
                assert!(is_recorded(&method, route) || reads, "{method} {route} is not recorded");
            }
        }
        for route in RECORDED_READS {
            assert!(is_listed(route), "{route}");
        }
    }

    #[test]
    fn methods_are_told_apart() {
        assert_eq!(needs(&Method::GET, "/sandboxes"), Some(one(SandboxesRead)));
        assert_eq!(needs(&Method::HEAD, "/sandboxes"), Some(one(SandboxesRead)));
        assert_eq!(needs(&Method::POST, "/sandboxes"), Some(one(SandboxesWrite)));
        assert_eq!(needs(&Method::PATCH, "/sandboxes"), None);
        assert_eq!(needs(&Method::GET, "/sandboxes/x"), None);
    }
}
