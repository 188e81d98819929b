//! `cabana project`: the parts of a team, and who works in them.

use cabana_types::wire::Project;
use cabana_types::{Role, UserId};

use super::team::{parse_role, parse_user};
use crate::commands::Context;
use crate::failure::Outcome;

const LS_EXAMPLES: &str = "\
Examples:
  cabana project ls
  cabana project ls --json

If piped, prints one tab-separated line per project: id, name, creation time.";

const CREATE_EXAMPLES: &str = "\
Examples:
  cabana project create website

Prints its id. Owners and admins of the team reach it at once; others must be added.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  cabana project remove prj_0123456789abcdefghij usr_0123456789abcdefghij

The person stays in the team.";

const ADD_EXAMPLES: &str = "\
Examples:
  cabana project add prj_0123456789abcdefghij usr_0123456789abcdefghij
  cabana project add prj_0123456789abcdefghij usr_0123456789abcdefghij --role viewer

The role is at most the one in the team.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana project rm prj_0123456789abcdefghij

Its sandboxes, templates, snapshots, chats and keys must be deleted before.";

/// Manage the projects of the team
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List projects
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a project
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete a project
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// The project
        #[arg(value_name = "PROJECT", value_parser = parse_project)]
        project: String,
    },
    /// Add a person of the team, or change their role
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The project
        #[arg(value_name = "PROJECT", value_parser = parse_project)]
        project: String,
        /// The person
        #[arg(value_name = "USER", value_parser = parse_user)]
        user: UserId,
        /// developer or viewer
        #[arg(long, value_name = "ROLE", default_value = "developer", value_parser = parse_role)]
        role: Role,
    },
    /// Remove a person
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove {
        /// The project
        #[arg(value_name = "PROJECT", value_parser = parse_project)]
        project: String,
        /// The person
        #[arg(value_name = "USER", value_parser = parse_user)]
        user: UserId,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    match command {
        Command::Ls { json: true } => out.json(&client.projects().await?)?,
        Command::Ls { json: false } => {
            let row = |project: Project| vec![project.id.to_string(), project.name, project.created_at.to_string()];
            let rows: Vec<_> = client.projects().await?.into_iter().map(row).collect();
            out.rows(&["ID", "NAME", "CREATED"], &rows)?;
        }
        Command::Create { name } => out.line(client.create_project(&name).await?.id.as_str())?,
        Command::Rm { project } => {
            client.delete_project(&project).await?;
            out.line(&project)?;
        }
        Command::Add { project, user, role } => {
            client.set_project_role(&project, &user, role).await?;
            out.line(user.as_str())?;
        }
        Command::Remove { project, user } => {
            client.remove_from_project(&project, &user).await?;
            out.line(user.as_str())?;
        }
    }
    Ok(0)
}

/// Checks the id of a project, which becomes a part of a path.
fn parse_project(text: &str) -> Result<String, String> {
    match text.parse::<cabana_types::ProjectId>() {
        Ok(id) => Ok(id.as_str().to_owned()),
        Err(_) => Err("an id of a project is prj_ and 20 characters; list them with cabana project ls".to_owned()),
    }
}
