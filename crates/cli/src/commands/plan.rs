//! `cabana plan`: limits under a name, for any number of teams.

use cabana_types::quota::QuotaKind;
use cabana_types::wire::{Plan, PlanSettings};

use super::quota::{parse_limit, show};
use crate::commands::Context;
use crate::failure::Outcome;

const LS_EXAMPLES: &str = "\
Examples:
  cabana plan ls
  cabana plan ls --json

If piped, prints one tab-separated line per plan: id, name, number of teams, limits.";

const SET_EXAMPLES: &str = "\
Examples:
  cabana plan set small instances=5 vcpu=8 memory_mb=16384 lifetime_seconds=3600
  cabana plan set open --name 'No limits'

Makes the plan, or replaces its name and limits: a kind that is not named has no limit. The plan
self-hosted is built in and has none.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana plan rm small

A plan that teams have cannot be deleted.";

const ASSIGN_EXAMPLES: &str = "\
Examples:
  cabana plan assign research small
  cabana plan assign research self-hosted

Limits that the team was given by `cabana quota set` come before those of its plan.";

/// Manage plans, which limit teams
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List plans
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make or replace a plan
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Its id
        #[arg(value_name = "PLAN", value_parser = check_path)]
        plan: String,
        /// Its limits
        #[arg(value_name = "KIND=LIMIT", value_parser = parse_limit)]
        limits: Vec<(QuotaKind, i64)>,
        /// Its name; its id by default
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Delete a plan
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// Its id
        #[arg(value_name = "PLAN", value_parser = check_path)]
        plan: String,
    },
    /// Give a team a plan
    #[command(after_help = ASSIGN_EXAMPLES)]
    Assign {
        /// The team
        #[arg(value_name = "TEAM", value_parser = check_path)]
        team: String,
        /// Id of the plan
        #[arg(value_name = "PLAN")]
        plan: String,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    let row = |plan: &Plan| {
        let limits: Vec<_> = plan.limits.iter().map(|(kind, limit)| format!("{kind}={limit}")).collect();
        let limits = if limits.is_empty() { "-".to_owned() } else { limits.join(" ") };
        vec![plan.id.clone(), plan.name.clone(), plan.teams.to_string(), limits]
    };
    match command {
        Command::Ls { json: true } => out.json(&client.plans().await?)?,
        Command::Ls { json: false } => {
            let rows: Vec<_> = client.plans().await?.iter().map(row).collect();
            out.rows(&["ID", "NAME", "TEAMS", "LIMITS"], &rows)?;
        }
        Command::Set { plan, limits, name } => {
            let settings = PlanSettings { name, limits: limits.into_iter().collect() };
            out.line(&client.put_plan(&plan, &settings).await?.id)?;
        }
        Command::Rm { plan } => {
            client.delete_plan(&plan).await?;
            out.line(&plan)?;
        }
        Command::Assign { team, plan } => show(&client.assign_plan(&team, &plan).await?, context)?,
    }
    Ok(0)
}

/// Checks the id of a team or plan, which becomes a part of a path.
pub(super) fn check_path(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("an id has 1 to 64 characters of a-z, 0-9 and -".to_owned())
}
