//! `cabana key`: manages the team's API keys.

use cabana_types::wire::{ApiKey, KeyRequest};
use cabana_types::{KeyId, Permission};
use jiff::{SignedDuration, Timestamp};

use crate::amount::{parse_seconds, relative};
use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const CREATE_EXAMPLES: &str = "\
Examples:
  cabana key create laptop
  export E2B_API_KEY=$(cabana key create ci)
  cabana key create monitor --scope sandboxes:read --scope usage:read
  cabana key create contractor --expires 12h --cidr 10.0.0.0/8

Prints the key. It is shown only once: the server stores only its hash.";

const LS_EXAMPLES: &str = "\
Examples:
  cabana key ls
  cabana key ls --json

If piped, prints one tab-separated line per key: id, name, masked key, creation time, time of last
use.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana key rm 2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f

Prints the ids of the deleted keys. Continues after an error. The team's last key cannot be deleted.";

/// Manage the team's API keys
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Create a key
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// Name of the key
        #[arg(value_name = "NAME")]
        name: String,
        /// What it may do, such as sandboxes:read; repeatable. Without it, everything but members and admin
        #[arg(long = "scope", value_name = "SCOPE", value_parser = parse_scope)]
        scopes: Vec<Permission>,
        /// Time after which it is invalid, such as 12h
        #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
        expires: Option<i64>,
        /// Network that it can be used from, such as 10.0.0.0/8; repeatable
        #[arg(long = "cidr", value_name = "NETWORK")]
        cidrs: Vec<String>,
        /// Only project that it is for: an id, or default
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List keys
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete keys
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// The keys
        #[arg(value_name = "ID", required = true, value_parser = parse_id)]
        ids: Vec<KeyId>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    match command {
        Command::Create { name, scopes, expires, cidrs, project, json } => {
            let request = KeyRequest {
                name,
                scopes: (!scopes.is_empty()).then_some(scopes),
                expires_at: expires.map(expiry).transpose()?,
                cidrs: (!cidrs.is_empty()).then_some(cidrs),
                project_id: project,
            };
            let made = client.create_key(&request).await?;
            if json {
                out.json(&made)?;
            } else {
                out.line(made.key.expose())?;
            }
        }
        Command::Ls { json: true } => out.json(&client.keys().await?)?,
        Command::Ls { json: false } => {
            let now = Timestamp::now();
            let time = |at: Timestamp| if out.is_terminal() { relative(at, now) } else { at.to_string() };
            let row = |key: &ApiKey| {
                let mask =
                    [&key.mask.prefix, &key.mask.masked_value_prefix, "…", &key.mask.masked_value_suffix].concat();
                let used = key.last_used.map(time).unwrap_or_else(|| "never".to_owned());
                vec![key.id.to_string(), key.name.clone(), mask, time(key.created_at), used]
            };
            let rows: Vec<_> = client.keys().await?.iter().map(row).collect();
            out.rows(&["ID", "NAME", "KEY", "CREATED", "USED"], &rows)?;
        }
        Command::Rm { ids } => {
            return each::run("key", &ids, context, async |id| client.delete_key(id).await.map(|()| true)).await;
        }
    }
    Ok(0)
}

fn expiry(seconds: i64) -> Result<Timestamp, Failure> {
    let at = Timestamp::now().checked_add(SignedDuration::from_secs(seconds));
    at.map_err(|_| Failure::user_error("--expires is too far away"))
}

fn parse_scope(text: &str) -> Result<Permission, String> {
    text.parse().map_err(|error: cabana_types::permission::UnknownName| error.to_string())
}

fn parse_id(text: &str) -> Result<KeyId, String> {
    text.to_ascii_lowercase().parse().map_err(|_| "not a key id; `cabana key ls` lists them".to_owned())
}
