//! The audit log.

use cabana_types::audit::{AuditResult, Report};
use cabana_types::wire::{AuditPage, AuditPrune, AuditPruned};
use http::Method;
use jiff::Timestamp;

use crate::api::{Client, to_json, within};
use crate::error::Result;
use crate::files::FileStream;
use crate::query;

/// Which entries to read.
#[derive(Debug, Clone, Default)]
pub struct AuditList {
    /// Those of all teams and of the server, for operators; otherwise those of the key's team.
    pub all: bool,
    /// Not before this time.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
    pub result: Option<AuditResult>,
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl AuditList {
    fn path(&self, what: &str, mut pairs: Vec<(&'static str, String)>) -> String {
        pairs.extend(self.from.iter().map(|at| ("from", at.to_string())));
        pairs.extend(self.until.iter().map(|at| ("until", at.to_string())));
        let texts =
            [("actor", &self.actor), ("action", &self.action), ("target", &self.target), ("cursor", &self.cursor)];
        pairs.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
        pairs.extend(self.result.iter().map(|result| ("result", result.to_string())));
        pairs.extend(self.limit.iter().map(|limit| ("limit", limit.to_string())));
        format!("{}{what}{}", base(self.all), query::encode(&pairs))
    }
}

fn base(all: bool) -> &'static str {
    if all { "/admin/audit" } else { "/audit" }
}

impl Client {
    /// A page of the audit log, newest first.
    pub async fn audit(&self, list: &AuditList) -> Result<AuditPage> {
        self.fetch("read the audit log", &list.path("", Vec::new())).await
    }

    /// The audit log as a file, oldest first: JSON lines, or CSV. Has no timeout once it has begun.
    pub async fn export_audit(&self, list: &AuditList, csv: bool) -> Result<FileStream> {
        let action = "export the audit log";
        let format = if csv { vec![("format", "csv".to_owned())] } else { Vec::new() };
        let request = self.request(Method::GET, &list.path("/export", format), None)?;
        Ok(FileStream::of(within(action, self.http().send(action, request)).await?))
    }

    /// Verifies the chain of the key's team, or all.
    pub async fn verify_audit(&self, all: bool) -> Result<Report> {
        self.fetch("verify the audit log", &format!("{}/verify", base(all))).await
    }

    /// Removes entries that are older than a time.
    pub async fn prune_audit(&self, before: Timestamp) -> Result<AuditPruned> {
        let action = "prune the audit log";
        let body = to_json(action, &AuditPrune { before })?;
        self.call(action, self.request(Method::POST, "/admin/audit/prune", Some(body))?).await
    }
}
