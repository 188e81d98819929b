//! Exports of the audit log, streamed: as JSON lines with the hashes, which can be verified without this server, and as CSV for people.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cabana_store::{AuditQuery, Order};
use cabana_types::TeamId;
use cabana_types::audit::{AuditEntry, Chain};
use cabana_types::error::chain;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use jiff::Timestamp;
use serde_json::json;

use crate::api::App;
use crate::api::query::Query;
use crate::error::{ApiError, short};

/// Entries that are read at once.
const BATCH: u32 = 500;
const COLUMNS: &str = "team,seq,at,actor,action,target,address,result,status,details,previousHash,hash\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Jsonl,
    Csv,
}

/// What is left of an export.
struct Export {
    app: Arc<App>,
    format: Format,
    query: AuditQuery,
    /// Where the chains ended when it began: it has no entries that came later.
    chains: Vec<Chain>,
    ready: VecDeque<Bytes>,
    over: bool,
}

/// The export that a request asks for.
pub(super) async fn answer(app: Arc<App>, team: Option<TeamId>, query: &Query) -> Result<Response, ApiError> {
    let format = match query.text("format") {
        None | Some("jsonl") => Format::Jsonl,
        Some("csv") => Format::Csv,
        Some(other) => return Err(ApiError::invalid(format!("format must be jsonl or csv, not {:?}", short(other)))),
    };
    let wanted = super::filtered(team, query)?;
    let is_whole = wanted.from.is_none()
        && wanted.until.is_none()
        && wanted.result.is_none()
        && [&wanted.actor, &wanted.action, &wanted.target].iter().all(|filter| filter.is_none());
    let chains = app.store.audit_chains(wanted.team.as_ref()).await?;
    let head = match format {
        Format::Csv => COLUMNS.to_owned(),
        // A part of a chain has gaps, and needs no claim about where the whole one begins and ends.
        Format::Jsonl if is_whole => chains.iter().map(|chain| format!("{}\n", json!({"chain": chain}))).collect(),
        Format::Jsonl => String::new(),
    };
    let query = AuditQuery { order: Order::Ascending, after: None, limit: BATCH, ..wanted };
    let export = Export { app, format, query, chains, ready: VecDeque::from([Bytes::from(head)]), over: false };
    let body = Body::from_stream(futures_util::stream::try_unfold(export, |mut export| async move {
        let part = export.next().await?;
        Ok::<_, cabana_store::Error>(part.map(|part| (part, export)))
    }));
    let (kind, ending) = match format {
        Format::Jsonl => ("application/x-ndjson", "jsonl"),
        Format::Csv => ("text/csv; charset=utf-8; header=present", "csv"),
    };
    let name = format!("attachment; filename=\"audit-{}.{ending}\"", Timestamp::now().strftime("%Y-%m-%d"));
    let headers =
        [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name), (X_CONTENT_TYPE_OPTIONS, "nosniff".into())];
    Ok((headers, body).into_response())
}

impl Export {
    async fn next(&mut self) -> Result<Option<Bytes>, cabana_store::Error> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                if part.is_empty() {
                    continue;
                }
                return Ok(Some(part));
            }
            if self.over {
                return Ok(None);
            }
            let read = self.app.store.audit(&self.query).await;
            let rows =
                read.inspect_err(|error| tracing::warn!(error = chain(error), "an export of the audit log broke off"))?;
            self.over = rows.len() < BATCH as usize;
            self.query.after = rows.last().map(|(place, _)| *place).or(self.query.after);
            let lines: String =
                rows.iter().filter(|(_, entry)| self.has(entry)).map(|(_, entry)| self.line(entry)).collect();
            self.ready.push_back(Bytes::from(lines));
        }
    }

    /// Whether an entry was there when the export began.
    fn has(&self, entry: &AuditEntry) -> bool {
        self.chains.iter().any(|chain| chain.team == entry.team && entry.seq <= chain.last_seq)
    }

    fn line(&self, entry: &AuditEntry) -> String {
        match self.format {
            Format::Jsonl => format!("{}\n", json!(entry)),
            Format::Csv => csv(entry),
        }
    }
}

fn csv(entry: &AuditEntry) -> String {
    let cells = [
        entry.team.as_ref().map(ToString::to_string).unwrap_or_default(),
        entry.seq.to_string(),
        entry.at.to_string(),
        entry.actor.clone().unwrap_or_default(),
        entry.action.clone(),
        entry.target.clone().unwrap_or_default(),
        entry.address.clone().unwrap_or_default(),
        entry.result.to_string(),
        entry.status.to_string(),
        json!(entry.details).to_string(),
        entry.previous_hash.to_string(),
        entry.hash.to_string(),
    ];
    let mut line = cells.map(|cell| quoted(&cell)).join(",");
    line.push_str("\r\n");
    line
}

/// A cell in quotation marks. A spreadsheet takes none for a formula.
fn quoted(cell: &str) -> String {
    let formula = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{formula}{}\"", cell.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text() {
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(quoted("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
    }
}
