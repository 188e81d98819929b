//! `cabana quota`: what teams use and may use.

use cabana_types::quota::QuotaKind;
use cabana_types::wire::{LimitChanges, QuotaState, TeamQuotas};

use super::plan::check_path;
use crate::commands::Context;
use crate::failure::Outcome;

const LS_EXAMPLES: &str = "\
Examples:
  cabana quota ls
  cabana quota ls research --json

If piped, prints one tab-separated line per kind: kind, used, limit, where the limit comes from (team,
plan or server). Limits of other teams are shown to admins of the server.";

const SET_EXAMPLES: &str = "\
Examples:
  cabana quota set default instances=50
  cabana quota set research vcpu=32 memory_mb=65536 lifetime_seconds=3600

Kinds: instances, vcpu, memory_mb, disk_mb, snapshots, templates, lifetime_seconds, turns. A limit below
what is used ends nothing, but refuses more. Needs an API key with the scope admin.";

const UNSET_EXAMPLES: &str = "\
Examples:
  cabana quota unset research vcpu
  cabana quota unset research

Without a kind, removes all limits of the team. Those of its plan then hold.";

/// Show and change what teams may use
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List what a team uses and may use
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// The team; your own by default
        #[arg(value_name = "TEAM", value_parser = check_path)]
        team: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set limits of a team
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The team
        #[arg(value_name = "TEAM", value_parser = check_path)]
        team: String,
        /// The limits
        #[arg(value_name = "KIND=LIMIT", required = true, value_parser = parse_limit)]
        limits: Vec<(QuotaKind, i64)>,
    },
    /// Remove limits of a team
    #[command(after_help = UNSET_EXAMPLES)]
    Unset {
        /// The team
        #[arg(value_name = "TEAM", value_parser = check_path)]
        team: String,
        /// The kinds; all by default
        #[arg(value_name = "KIND", value_parser = parse_kind)]
        kinds: Vec<QuotaKind>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    match command {
        Command::Ls { team, json: true } => context.out.json(&client.quotas(team.as_deref()).await?)?,
        Command::Ls { team, json: false } => show(&client.quotas(team.as_deref()).await?, context)?,
        Command::Set { team, limits } => {
            let limits = limits.into_iter().map(|(kind, limit)| (kind, Some(limit))).collect();
            show(&client.set_quotas(&team, &LimitChanges { limits }).await?, context)?;
        }
        Command::Unset { team, kinds } => show(&client.unset_quotas(&team, &kinds).await?, context)?,
    }
    Ok(0)
}

/// Prints a table of what a team uses and may use.
pub(super) fn show(quotas: &TeamQuotas, context: &Context) -> Result<(), crate::failure::Failure> {
    let row = |state: &QuotaState| {
        let limit = state.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        // It holds for each sandbox, so that nothing is used up.
        let used = if state.kind == QuotaKind::LifetimeSeconds { "-".to_owned() } else { state.used.to_string() };
        vec![state.kind.to_string(), used, limit, state.source.to_string()]
    };
    let rows: Vec<_> = quotas.quotas.iter().map(row).collect();
    context.out.rows(&["KIND", "USED", "LIMIT", "FROM"], &rows)
}

/// A limit in the form `KIND=LIMIT`.
pub(super) fn parse_limit(text: &str) -> Result<(QuotaKind, i64), String> {
    let (kind, value) = text.split_once('=').ok_or("expected KIND=LIMIT, such as instances=10")?;
    let kind = parse_kind(kind)?;
    let value: i64 = value.parse().map_err(|_| format!("{value:?} is not a whole number"))?;
    kind.limit(value).map_err(|e| e.to_string())?;
    Ok((kind, value))
}

fn parse_kind(text: &str) -> Result<QuotaKind, String> {
    QuotaKind::parse(text).ok_or_else(|| {
        let kinds: Vec<_> = QuotaKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("{text:?} is not limited; the kinds are {}", kinds.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked_before_they_are_sent() {
        assert_eq!(parse_limit("vcpu=8"), Ok((QuotaKind::Vcpu, 8)));
        for bad in ["vcpu", "gpu=1", "vcpu=-1", "vcpu=1.5", "vcpu=99999999999999999999", "turns=0"] {
            assert!(parse_limit(bad).is_err(), "{bad}");
        }
    }
}
