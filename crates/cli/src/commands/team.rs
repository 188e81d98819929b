//! `cabana team`: the members of the key's team, invitations, and the teams of a server.

use cabana_types::wire::{Member, NewInvitation, TeamOverview};
use cabana_types::{InvitationId, Role, UserId};

use crate::commands::Context;
use crate::failure::Outcome;

const LS_EXAMPLES: &str = "\
Examples:
  cabana team ls
  cabana team ls --json

All teams of the server; needs the scope admin. If piped, prints one tab-separated line per team:
id, name, plan, number of members, number of sandboxes.";

const CREATE_EXAMPLES: &str = "\
Examples:
  cabana team create research --owner ada@example.com

Prints the link with which its owner joins. Needs the scope admin.";

const MEMBERS_EXAMPLES: &str = "\
Examples:
  cabana team members
  cabana team members --json

If piped, prints one tab-separated line per person: id, name, email, role, time last seen. Needs a
key with the scope members.";

const INVITE_EXAMPLES: &str = "\
Examples:
  cabana team invite ada@example.com
  cabana team invite bob@example.com --role viewer
  cabana team invite eve@example.com --project prj_0123456789abcdefghij

Prints a link. It works once, within a week, and only for an account with this email.";

const INVITATIONS_EXAMPLES: &str = "\
Examples:
  cabana team invitations
  cabana team invitations --json";

const REVOKE_EXAMPLES: &str = "\
Examples:
  cabana team revoke inv_0123456789abcdefghij

Its link does not work any more.";

const ROLE_EXAMPLES: &str = "\
Examples:
  cabana team role usr_0123456789abcdefghij viewer

Has effect at once. Only an owner, signed in to the console, gives and takes the role owner.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana team rm usr_0123456789abcdefghij

What the person made stays, also their API keys.";

/// Manage the members of the team
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List the teams of the server
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a team for somebody
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Email of its owner
        #[arg(long, value_name = "EMAIL")]
        owner: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List members
    #[command(after_help = MEMBERS_EXAMPLES)]
    Members {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Invite somebody
    #[command(after_help = INVITE_EXAMPLES)]
    Invite {
        /// Whom
        #[arg(value_name = "EMAIL")]
        email: String,
        /// What they may do: owner, admin, developer, billing or viewer
        #[arg(long, value_name = "ROLE", default_value = "developer", value_parser = parse_role)]
        role: Role,
        /// A project to add them to as well
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List open invitations
    #[command(after_help = INVITATIONS_EXAMPLES)]
    Invitations {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke an invitation
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke {
        /// The invitation
        #[arg(value_name = "ID", value_parser = parse_invitation)]
        id: InvitationId,
    },
    /// Change the role of a member
    #[command(after_help = ROLE_EXAMPLES)]
    Role {
        /// The person
        #[arg(value_name = "USER", value_parser = parse_user)]
        user: UserId,
        /// Their role
        #[arg(value_name = "ROLE", value_parser = parse_role)]
        role: Role,
    },
    /// Remove a member
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// The person
        #[arg(value_name = "USER", value_parser = parse_user)]
        user: UserId,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    match command {
        Command::Ls { json: true } => out.json(&client.all_teams().await?)?,
        Command::Ls { json: false } => {
            let row = |team: TeamOverview| {
                let counts = [team.members.to_string(), team.sandboxes.to_string()];
                [team.id.to_string(), team.name, team.plan].into_iter().chain(counts).collect::<Vec<_>>()
            };
            let rows: Vec<_> = client.all_teams().await?.into_iter().map(row).collect();
            out.rows(&["ID", "NAME", "PLAN", "MEMBERS", "SANDBOXES"], &rows)?;
        }
        Command::Create { name, owner, json } => {
            let made = client.create_team(&name, &owner).await?;
            if json { out.json(&made)? } else { out.line(made.invitation.url.expose())? }
        }
        Command::Members { json } => {
            let members = client.members(&own(context).await?).await?;
            if json { out.json(&members)? } else { show(&members, context)? }
        }
        Command::Invite { email, role, project, json } => {
            let new = NewInvitation { email, role, project_id: project, expires_in_hours: None };
            let made = client.invite(&own(context).await?, &new).await?;
            if json { out.json(&made)? } else { out.line(made.url.expose())? }
        }
        Command::Invitations { json: true } => out.json(&client.invitations(&own(context).await?).await?)?,
        Command::Invitations { json: false } => {
            let invitations = client.invitations(&own(context).await?).await?;
            let row = |row: cabana_types::wire::Invitation| {
                vec![row.id.to_string(), row.email, row.role.to_string(), row.expires_at.to_string()]
            };
            let rows: Vec<_> = invitations.into_iter().map(row).collect();
            out.rows(&["ID", "EMAIL", "ROLE", "EXPIRES"], &rows)?;
        }
        Command::Revoke { id } => {
            client.revoke_invitation(&own(context).await?, &id).await?;
            out.line(id.as_str())?;
        }
        Command::Role { user, role } => {
            client.set_role(&own(context).await?, &user, role).await?;
            out.line(user.as_str())?;
        }
        Command::Rm { user } => {
            client.remove_member(&own(context).await?, &user).await?;
            out.line(user.as_str())?;
        }
    }
    Ok(0)
}

/// The id of the key's team.
async fn own(context: &Context) -> Result<String, crate::failure::Failure> {
    let teams = context.client()?.teams().await?;
    Ok(teams.into_iter().next().map(|team| team.team_id).unwrap_or_default())
}

fn show(members: &[Member], context: &Context) -> Result<(), crate::failure::Failure> {
    let row = |member: &Member| {
        let seen = member.last_seen_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        let email = member.user.email.clone().unwrap_or_else(|| "-".to_owned());
        vec![member.user.id.to_string(), member.user.name.clone(), email, member.role.to_string(), seen]
    };
    let rows: Vec<_> = members.iter().map(row).collect();
    context.out.rows(&["ID", "NAME", "EMAIL", "ROLE", "LAST SEEN"], &rows)?;
    Ok(())
}

pub(super) fn parse_role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|error: cabana_types::permission::UnknownName| error.to_string())
}

pub(super) fn parse_user(text: &str) -> Result<UserId, String> {
    text.parse()
        .map_err(|_| "an id of a person is usr_ and 20 characters; list them with cabana team members".to_owned())
}

fn parse_invitation(text: &str) -> Result<InvitationId, String> {
    text.parse().map_err(|_| {
        "an id of an invitation is inv_ and 20 characters; list them with cabana team invitations".to_owned()
    })
}
