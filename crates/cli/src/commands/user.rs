//! `cabana user`: the people of a server, for its operators.

use cabana_types::UserId;
use cabana_types::wire::{ServerUser, UserUpdate};

use super::team::parse_user;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const LS_EXAMPLES: &str = "\
Examples:
  cabana user ls
  cabana user ls --json

If piped, prints one tab-separated line per person: id, name, email, state, teams. Needs the scope
admin.";

const ENABLE_EXAMPLES: &str = "\
Examples:
  cabana user enable usr_0123456789abcdefghij

Needs a key with the scope admin.";

const DISABLE_EXAMPLES: &str = "\
Examples:
  cabana user disable usr_0123456789abcdefghij

Their sessions end at once. API keys that they made stay: programs use them.";

/// Manage the people of the server
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List people
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a person sign in no more
    #[command(after_help = DISABLE_EXAMPLES)]
    Disable {
        /// The person
        #[arg(value_name = "USER", value_parser = parse_user)]
        user: UserId,
    },
    /// Let a person sign in again
    #[command(after_help = ENABLE_EXAMPLES)]
    Enable {
        /// The person
        #[arg(value_name = "USER", value_parser = parse_user)]
        user: UserId,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    match command {
        Command::Ls { json: true } => out.json(&all(context).await?)?,
        Command::Ls { json: false } => {
            let rows: Vec<_> = all(context).await?.iter().map(row).collect();
            out.rows(&["ID", "NAME", "EMAIL", "STATE", "TEAMS"], &rows)?;
        }
        Command::Disable { user } => {
            client.update_user(&user, &UserUpdate { disabled: Some(true), admin: None }).await?;
            out.line(user.as_str())?;
        }
        Command::Enable { user } => {
            client.update_user(&user, &UserUpdate { disabled: Some(false), admin: None }).await?;
            out.line(user.as_str())?;
        }
    }
    Ok(0)
}

async fn all(context: &Context) -> Result<Vec<ServerUser>, Failure> {
    let client = context.client()?;
    let (mut users, mut after) = (Vec::new(), None);
    loop {
        let page = client.users(after.as_ref()).await?;
        users.extend(page.users);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(users);
        }
    }
}

fn row(user: &ServerUser) -> Vec<String> {
    let teams: Vec<_> = user.teams.iter().map(|team| format!("{}:{}", team.name, team.role)).collect();
    let state = match (user.disabled, user.user.admin) {
        (true, _) => "disabled",
        (false, true) => "admin",
        (false, false) => "active",
    };
    let email = user.user.email.clone().unwrap_or_else(|| "-".to_owned());
    vec![user.user.id.to_string(), user.user.name.clone(), email, state.to_owned(), teams.join(" ")]
}
