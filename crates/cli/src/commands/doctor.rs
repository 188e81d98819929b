//! `cabana doctor`: checks whether this machine can run a server, and suggests fixes.

mod hardening;
mod machine;
mod protection;

use std::path::PathBuf;

use cabana_types::Fact;
use cabana_types::wire::{IsolationStatus, ServerStatus};
use owo_colors::Style;
use serde::Serialize;

use self::protection::{Level, Protection};
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana doctor
  cabana doctor --json
  cabana doctor --check            compare the server's records with the machine's state
  sudo cabana doctor               with all checks; some need root

Ends with the level of protection (none, basic, good), whom it is good enough for, and what would
raise it. Changes nothing. Exits with 1 if the server cannot run on this machine. If piped, prints
one tab-separated line per check: state (ok, lacking, missing), name, finding, fix.";

/// Check whether this machine can run sandboxes, and what is missing
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data directory that a server would use
    #[arg(long, value_name = "DIR", env = cabana_types::env::DATA_DIR, hide_env_values = true, default_value = "/var/lib/cabana")]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Compare the server's records with the machine's state instead; exits with 1 if they differ
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Not ideal, but the server can run.
    Lacking,
    /// The server cannot run without it.
    Missing,
}

impl State {
    fn of(fact: &Fact) -> Self {
        match (fact.ok, fact.required) {
            (true, _) => Self::Ok,
            (false, false) => Self::Lacking,
            (false, true) => Self::Missing,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Lacking => "lacking",
            Self::Missing => "missing",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ok => Style::new().green(),
            Self::Lacking => Style::new().yellow(),
            Self::Missing => Style::new().red().bold(),
        }
    }
}

/// Asks the server for differences between its records and the machine's state.
async fn check(context: &Context, json: bool) -> Outcome {
    let differences = context.client()?.check().await?;
    if json {
        context.out.json(&differences)?;
    } else {
        for difference in &differences {
            context.out.line(difference)?;
        }
        if differences.is_empty() {
            context.out.note("no differences found");
        }
    }
    Ok(u8::from(!differences.is_empty()))
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    if args.check {
        return check(context, args.json).await;
    }
    let data_dir = args.data_dir.clone();
    let mut facts = tokio::task::spawn_blocking(move || {
        let mut facts = machine::facts();
        facts.extend(cabana_jail::machine::facts());
        facts.extend(cabana_net::facts().into_iter().map(network));
        facts.extend(cabana_storage::pool::facts(&data_dir));
        facts.extend(hardening::facts(&data_dir));
        facts
    })
    .await?;
    facts.push(server(context).await);
    facts.extend(context.client().ok().map(|client| hardening::encryption(client.base_url())));
    print(&facts, &protection::protection(&facts), args.json, context)?;
    let missing = facts.iter().filter(|fact| State::of(fact) == State::Missing).count();
    match missing {
        0 => Ok(0),
        1 => Err(Failure::user_error("a server cannot run here: one requirement is missing")),
        many => Err(Failure::user_error(format!("a server cannot run here: {many} requirements are missing"))),
    }
}

/// Another firewall is only a warning; everything else is required.
fn network(fact: cabana_net::Fact) -> Fact {
    let required = fact.name != "other firewalls";
    Fact { name: fact.name, ok: fact.ok, required, detail: fact.detail, remedy: fact.remedy }
}

async fn server(context: &Context) -> Fact {
    let answer = async {
        let client = context.client()?;
        let status = client.status().await?;
        Ok::<_, Failure>((client.base_url().to_owned(), status))
    }
    .await;
    let (ok, detail, remedy) = match answer {
        Ok((url, status)) => (
            status.storage.as_ref().is_none_or(|storage| storage.state == "ok"),
            format!(
                "version {} at {url}, {} sandboxes up{}{}{}",
                status.version,
                status.running,
                abilities(&status),
                isolations(&status),
                storage(&status)
            ),
            space_remedy(&status),
        ),
        Err(failure) => {
            let causes: Vec<_> = failure.chain().collect();
            (false, causes.join(": "), failure.hint_text().map(str::to_owned))
        }
    };
    Fact { name: "server", ok, required: false, detail, remedy }
}

/// Capabilities of the server's default backend, if it reports them.
fn abilities(status: &ServerStatus) -> String {
    let Some(can) = status.capabilities else { return String::new() };
    let named = [
        (can.disk_quota, "disk limits"),
        (can.pause_memory, "pausing with memory"),
        (can.memory_outlives_reboot, "memory that outlives a reboot"),
        (can.copies, "snapshots and forks"),
    ];
    let list = |wanted: bool| {
        let names: Vec<_> = named.iter().filter(|(able, _)| *able == wanted).map(|(_, name)| *name).collect();
        names.join(", ")
    };
    let part = |word: &str, names: String| if names.is_empty() { names } else { format!("; {word} {names}") };
    part("with", list(true)) + &part("without", list(false))
}

/// The server's isolation backends, if it reports them.
fn isolations(status: &ServerStatus) -> String {
    let one = |isolation: &IsolationStatus| {
        let facts = [
            (isolation.default, "default"),
            (isolation.pause_memory, "pauses in RAM"),
            (isolation.checkpoint, "checkpoints"),
            (isolation.mounts, "mounts"),
        ];
        let facts: Vec<_> = facts.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        format!("{} ({})", isolation.name, facts.join(", "))
    };
    let all: Vec<_> = status.isolations.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!("; isolation: {}", all.join(", ")) }
}

/// What is wrong with the server's disks.
fn storage(status: &ServerStatus) -> String {
    let Some(storage) = status.storage.as_ref().filter(|storage| storage.state != "ok") else { return String::new() };
    let (free, reserve) = (storage.free_mb, storage.reserve_mb);
    match storage.state.as_str() {
        "read_only" => format!("; its disks are READ-ONLY because the disk was full ({free} MiB are free)"),
        _ => format!("; only {free} MiB are free, {reserve} MiB are needed for new sandboxes"),
    }
}

fn space_remedy(status: &ServerStatus) -> Option<String> {
    (!storage(status).is_empty()).then(|| {
        "free some space on the disk of the data directory; the server goes on by itself (its log says how)".to_owned()
    })
}

fn print(facts: &[Fact], protection: &Protection, json: bool, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let state = match protection.level {
        Level::Good => State::Ok,
        Level::Basic | Level::Unknown => State::Lacking,
        Level::None => State::Missing,
    };
    if json {
        return out.json(&rows(facts, protection, state));
    }
    if !out.is_terminal() {
        let row = |f: &Fact| {
            let remedy = f.remedy.clone().unwrap_or_default();
            vec![State::of(f).word().to_owned(), f.name.to_owned(), f.detail.clone(), remedy]
        };
        let words = protection.level.words().to_owned();
        let last = vec![state.word().to_owned(), PROTECTION.to_owned(), words, protection.raise.join("; ")];
        return out.rows(&[], &facts.iter().map(row).chain([last]).collect::<Vec<_>>());
    }
    let width = facts.iter().map(|f| f.name.len()).max().unwrap_or_default();
    for fact in facts {
        let state = State::of(fact);
        let word = out.mark(&format!("{:8}", state.word()), state.style());
        let detail = crate::output::clean(&fact.detail);
        let mut text = format!("{word} {:width$}  {detail}\n", fact.name);
        if let Some(remedy) = &fact.remedy {
            text.push_str(&format!("{:9}{:width$}  {} {remedy}\n", "", "", out.mark("→", Style::new().cyan())));
        }
        out.raw(text.as_bytes())?;
    }
    let mut text = format!("\n{PROTECTION}: {}\n", out.mark(protection.level.words(), state.style()));
    if !protection.raise.is_empty() {
        text.push_str("To raise it:\n");
    }
    for advice in &protection.raise {
        text.push_str(&format!("  {} {}\n", out.mark("→", Style::new().cyan()), crate::output::clean(advice)));
    }
    out.raw(text.as_bytes())
}

const PROTECTION: &str = "protection";

/// A check as JSON. The last one is the level of protection.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    state: State,
    detail: &'a str,
    remedy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<Level>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raise: Option<&'a [String]>,
}

fn rows<'a>(facts: &'a [Fact], protection: &'a Protection, state: State) -> Vec<Row<'a>> {
    let row = |name, state, detail, remedy| Row { name, state, detail, remedy, level: None, raise: None };
    let checks = facts.iter().map(|f| row(f.name, State::of(f), &*f.detail, f.remedy.as_deref()));
    let last = Row {
        level: Some(protection.level),
        raise: Some(&protection.raise),
        ..row(PROTECTION, state, protection.level.words(), protection.raise.first().map(String::as_str))
    };
    checks.chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use cabana_types::wire::{Capabilities, StorageStatus};

    use super::*;

    #[test]
    fn server_abilities_are_listed() {
        let listed_abilities = |capabilities| {
            abilities(&ServerStatus {
                version: "1".into(),
                backend: "native".into(),
                running: 0,
                capabilities,
                isolations: vec![],
                storage: None,
                capacity: None,
            })
        };
        let can = |all, copies| {
            Some(Capabilities { disk_quota: all, pause_memory: all, memory_outlives_reboot: all, copies })
        };
        assert_eq!(listed_abilities(None), "", "an older server");
        assert_eq!(
            listed_abilities(can(false, true)),
            "; with snapshots and forks; without disk limits, pausing with memory, memory that outlives a reboot"
        );
        assert!(!listed_abilities(can(true, true)).contains("without"));
        assert!(listed_abilities(can(false, false)).starts_with("; without disk limits"));
    }

    #[test]
    fn the_last_row_is_the_protection() {
        let lacking = Fact {
            name: "process table",
            ok: false,
            required: false,
            detail: "small".into(),
            remedy: Some("raise it".into()),
        };
        let facts = [lacking];
        let rows = serde_json::to_value(rows(&facts, &protection::protection(&facts), State::Lacking)).unwrap();
        assert_eq!(rows[0].get("level"), None, "checks are as they were");
        assert_eq!(rows[1]["name"], "protection");
        assert_eq!(rows[1]["level"], "basic");
        assert_eq!(rows[1]["raise"][0], "process table: raise it");
    }

    #[test]
    fn isolation_backends_are_listed() {
        let isolation = |name: &str, default| IsolationStatus {
            name: name.into(),
            default,
            pause_memory: default,
            checkpoint: !default,
            memory_outlives_reboot: false,
            mounts: true,
            out_of_memory: "process".into(),
        };
        let listed = vec![isolation("native", true), isolation("other", false)];
        let status = ServerStatus {
            version: "1".into(),
            backend: "native".into(),
            running: 0,
            capabilities: None,
            isolations: listed,
            storage: None,
            capacity: None,
        };
        assert_eq!(
            isolations(&status),
            "; isolation: native (default, pauses in RAM, mounts), other (checkpoints, mounts)"
        );
        assert_eq!(isolations(&ServerStatus { isolations: vec![], ..status.clone() }), "", "an older server");
        let with = |state: &str| {
            let storage = StorageStatus { state: state.into(), free_mb: 5, reserve_mb: 9, clamped: 0 };
            ServerStatus { storage: Some(storage), ..status.clone() }
        };
        assert_eq!((storage(&status), storage(&with("ok"))), (String::new(), String::new()));
        assert_eq!(storage(&with("low")), "; only 5 MiB are free, 9 MiB are needed for new sandboxes");
        assert!(space_remedy(&with("read_only")).is_some() && space_remedy(&with("ok")).is_none());
    }
}
