//! `cabana doctor`: checks whether this machine can run a server, and suggests fixes.

use std::path::PathBuf;

use cabana_server::doctor::{self, Level, Protection};
use cabana_types::Fact;
use owo_colors::Style;
use serde::Serialize;

use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::guest_program;

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
    let checks =
        tokio::task::spawn_blocking(move || doctor::checks(&data_dir, guest_program::check(), guest_program::REMEDY))
            .await?;
    let mut facts: Vec<Fact> = checks.into_iter().map(|check| check.fact).collect();
    facts.push(server(context).await);
    facts.extend(context.client().ok().map(|client| doctor::encryption(client.base_url())));
    print(&facts, &doctor::protection(&facts), args.json, context)?;
    let missing = facts.iter().filter(|fact| State::of(fact) == State::Missing).count();
    match missing {
        0 => Ok(0),
        1 => Err(Failure::user_error("a server cannot run here: one requirement is missing")),
        many => Err(Failure::user_error(format!("a server cannot run here: {many} requirements are missing"))),
    }
}

async fn server(context: &Context) -> Fact {
    let answer = async {
        let client = context.client()?;
        let status = client.status().await?;
        Ok::<_, Failure>((client.base_url().to_owned(), status))
    }
    .await;
    match answer {
        Ok((url, status)) => doctor::server(&status, &url),
        Err(failure) => {
            let causes: Vec<_> = failure.chain().collect();
            let remedy = failure.hint_text().map(str::to_owned);
            Fact { name: "server", ok: false, required: false, detail: causes.join(": "), remedy }
        }
    }
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
    use super::*;

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
        let rows = serde_json::to_value(rows(&facts, &doctor::protection(&facts), State::Lacking)).unwrap();
        assert_eq!(rows[0].get("level"), None, "checks are as they were");
        assert_eq!(rows[1]["name"], "protection");
        assert_eq!(rows[1]["level"], "basic");
        assert_eq!(rows[1]["raise"][0], "process table: raise it");
    }
}
