//! `cabana audit`: who did what.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use cabana_client::{AuditList, Client};
use cabana_types::audit::{AuditEntry, AuditResult, Chain, Chains, Report};
use futures_util::StreamExt;
use jiff::Timestamp;
use serde::Deserialize;

use crate::amount::relative;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

/// Entries of a page of the API.
const PAGE: u32 = 200;

const LS_EXAMPLES: &str = "\
Examples:
  cabana audit ls
  cabana audit ls --action create_sandbox --result refused
  cabana audit ls --all --from 2026-11-01T00:00:00Z --json

Actions are the ids of operations of the API (cabana openapi). If piped, prints one tab-separated line
per entry: time, actor, action, target, result, status, address. Needs the scope audit:read, which a
key has only if it was made with it; --all needs the scope admin.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  cabana audit export > audit.jsonl
  cabana audit export --csv --from 2026-11-01T00:00:00Z > november.csv

JSON lines contain the hashes: without filters, `cabana audit verify --file` checks them, also
without the server.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  cabana audit verify
  cabana audit verify --file audit.jsonl
  cabana audit verify --database /var/lib/cabana/cabana.db

Prints how many entries were read, and where each chain ends: note it elsewhere, and nobody can
replace the whole log unnoticed. Exits with 1 if an entry was changed, removed or replaced.";

const PRUNE_EXAMPLES: &str = "\
Examples:
  cabana audit prune --before 2026-01-01T00:00:00Z

Entries of the last 30 days are always kept. Each chain gets an entry that says what was removed. The
server does the same every day by its setting retention.audit_days.";

/// Show who did what, and verify that nobody has changed it
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List what was done, newest first
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        filters: Filters,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print everything, oldest first
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        #[command(flatten)]
        filters: Filters,
        /// Print CSV instead of JSON lines
        #[arg(long)]
        csv: bool,
    },
    /// Check that no entry was changed, removed or replaced
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// An export, instead of the server's log
        #[arg(long, value_name = "FILE", conflicts_with_all = ["database", "all"])]
        file: Option<PathBuf>,
        /// The database of a server, which need not run
        #[arg(long, value_name = "FILE", conflicts_with = "all")]
        database: Option<PathBuf>,
        /// All teams and the server
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove old entries of all teams
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune {
        /// Remove entries older than this time
        #[arg(long, value_name = "TIME")]
        before: Timestamp,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Filters {
    /// All teams and the server
    #[arg(long)]
    all: bool,
    /// Not before this time
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Id of a person or API key
    #[arg(long, value_name = "ID")]
    actor: Option<String>,
    /// What was done
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// What it was done to
    #[arg(long, value_name = "ID")]
    target: Option<String>,
    /// ok, refused, failed or interrupted
    #[arg(long, value_name = "RESULT", value_parser = parse_result)]
    result: Option<AuditResult>,
}

impl Filters {
    fn list(self) -> AuditList {
        let Self { all, from, until, actor, action, target, result } = self;
        AuditList { all, from, until, actor, action, target, result, limit: None, cursor: None }
    }
}

/// A line of an export.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Chain { chain: Chain },
    Entry(Box<AuditEntry>),
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let out = &context.out;
    match command {
        Command::Ls { filters, limit, json } => ls(&context.client()?, filters.list(), limit, json, context).await,
        Command::Export { filters, csv } => {
            let mut export = context.client()?.export_audit(&filters.list(), csv).await?;
            while let Some(part) = export.next().await {
                out.raw(&part?)?;
            }
            Ok(0)
        }
        Command::Verify { file: Some(file), json, .. } => show(&verify_export(&file)?, json, context),
        Command::Verify { database: Some(database), json, .. } => {
            show(&cabana_server::audit::verify_file(&database).await?, json, context)
        }
        Command::Verify { all, json, .. } => show(&context.client()?.verify_audit(all).await?, json, context),
        Command::Prune { before } => {
            let pruned = context.client()?.prune_audit(before).await?;
            out.line(&format!("{} entries removed", pruned.entries))?;
            Ok(0)
        }
    }
}

async fn ls(client: &Client, mut list: AuditList, limit: usize, json: bool, context: &Context) -> Outcome {
    let (mut entries, mut names) = (Vec::new(), std::collections::BTreeMap::new());
    while entries.len() < limit {
        list.limit = Some(u32::try_from(limit - entries.len()).unwrap_or(PAGE).min(PAGE));
        let page = client.audit(&list).await?;
        entries.extend(page.entries);
        names.extend(page.names);
        list.cursor = page.next_cursor;
        if list.cursor.is_none() {
            break;
        }
    }
    if json {
        context.out.json(&entries)?;
        return Ok(0);
    }
    let (now, terminal) = (Timestamp::now(), context.out.is_terminal());
    let row = |entry: &AuditEntry| {
        let at = if terminal { relative(entry.at, now) } else { entry.at.to_string() };
        let actor = entry.actor.clone().unwrap_or_else(|| "-".to_owned());
        let actor = if terminal { names.get(&actor).cloned().unwrap_or(actor) } else { actor };
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let status = entry.status.to_string();
        vec![
            at,
            actor,
            entry.action.clone(),
            text(&entry.target),
            entry.result.to_string(),
            status,
            text(&entry.address),
        ]
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    context.out.rows(&["WHEN", "WHO", "WHAT", "TARGET", "RESULT", "STATUS", "FROM"], &rows)?;
    Ok(0)
}

/// Verifies an export, which needs no server.
fn verify_export(path: &Path) -> Result<Report, Failure> {
    let named = |error: std::io::Error| Failure::user_error(error.to_string()).context(path.display().to_string());
    let mut chains = Chains::default();
    for (number, line) in BufReader::new(std::fs::File::open(path).map_err(named)?).lines().enumerate() {
        let line = line.map_err(named)?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(Line::Chain { chain }) => chains.expect(chain),
            Ok(Line::Entry(entry)) => chains.entry(&entry),
            Err(_) => {
                let text = format!("{}: line {} is no entry of an audit log", path.display(), number + 1);
                return Err(Failure::user_error(text).hint("exports to be verified are made without --csv"));
            }
        }
    }
    Ok(chains.finish())
}

fn show(report: &Report, json: bool, context: &Context) -> Outcome {
    if json {
        context.out.json(report)?;
    } else {
        for chain in &report.chains {
            let team = chain.team.as_ref().map_or("server", |team| team.as_str());
            context.out.line(&format!("{team}\t{}\t{}", chain.last_seq, chain.last_hash))?;
        }
        for problem in &report.problems {
            let team = problem.team.as_ref().map_or("server", |team| team.as_str());
            context.out.line(&format!("{team}\t{}\t{}: {}", problem.seq, problem.kind, problem.message))?;
        }
        let found = report.problems.len();
        context.out.say(&match found {
            0 => format!("{} entries are as they were written", report.entries),
            _ => format!("{} entries were read; {found} problems were found", report.entries),
        });
    }
    Ok(u8::from(!report.problems.is_empty()))
}

fn parse_result(text: &str) -> Result<AuditResult, String> {
    text.parse().map_err(|error: cabana_types::audit::UnknownResult| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_exports_are_told_apart() {
        let zeros = "0".repeat(64);
        let chain = format!(r#"{{"chain":{{"prunedSeq":0,"prunedHash":"{zeros}","lastSeq":2,"lastHash":"{zeros}"}}}}"#);
        assert!(matches!(serde_json::from_str(&chain), Ok(Line::Chain { .. })));
        let hashes = format!(r#""previousHash":"{zeros}","hash":"{zeros}""#);
        let entry = format!(
            r#"{{"seq":1,"at":"2026-01-01T00:00:00Z","action":"a","result":"ok","status":200,"details":{{}},{hashes}}}"#
        );
        assert!(matches!(serde_json::from_str(&entry), Ok(Line::Entry(_))));
        for bad in ["", "{}", "[]", &entry.replace("\"seq\"", "\"x\""), &entry.replace("{}", "{},\"x\":1")] {
            assert!(serde_json::from_str::<Line>(bad).is_err(), "{bad}");
        }
    }
}
