//! `cabana secret`: manages the team's secrets. Values are read from standard input or a file, never from an argument,
//! which other users of the machine could see, and never printed.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use cabana_types::Secret;
use cabana_types::limits::MAX_SECRET_BYTES;
use cabana_types::wire::{NewSecret, SecretInfo, SecretUpdate, SecretView};
use jiff::Timestamp;

use crate::amount::{parse_pair, relative};
use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const CREATE_EXAMPLES: &str = "\
Examples:
  pass show openai | cabana secret create openai
  cabana secret create openai --value-file key.txt --metadata owner=me
  cabana secret create github --host api.github.com --host '*.githubusercontent.com'

The value is read from standard input or the file, without the newline at its end. Prints the
secret's id, or with --host its name. Network rules use the secret as ${e2b.secrets.openai} in headers
that the server sets. With hosts, `cabana create --secret TOKEN=github` puts a placeholder for it into
the environment. The value never enters a sandbox.";

const LS_EXAMPLES: &str = "\
Examples:
  cabana secret ls
  cabana secret ls --json

If piped, prints one tab-separated line per secret: id, name, version, creation time, time of the
last update. Values are never shown.";

const UPDATE_EXAMPLES: &str = "\
Examples:
  pass show openai | cabana secret update openai
  cabana secret update openai --value-file key.txt

Prints the new version. Requests of sandboxes use the new value from now on.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana secret rm openai

Prints the names of the deleted secrets. Continues after an error.";

/// Manage the team's secrets
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Create a secret
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// Name of the secret: letters, digits, - and _
        #[arg(value_name = "NAME")]
        name: String,
        /// File with the value [default: standard input]
        #[arg(long, value_name = "FILE")]
        value_file: Option<PathBuf>,
        /// Host that it is for, or *.name for all below it; may be repeated
        #[arg(long, value_name = "HOST")]
        host: Vec<String>,
        /// Label; may be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
        metadata: Vec<(String, String)>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List secrets
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set a new value
    #[command(after_help = UPDATE_EXAMPLES)]
    Update {
        /// Name or id of the secret
        #[arg(value_name = "NAME")]
        name: String,
        /// File with the value [default: standard input]
        #[arg(long, value_name = "FILE")]
        value_file: Option<PathBuf>,
        /// Label that replaces the present ones; may be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
        metadata: Vec<(String, String)>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete secrets
    #[command(visible_alias = "delete", after_help = RM_EXAMPLES)]
    Rm {
        /// Names or ids of the secrets
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    match command {
        Command::Create { name, value_file, host, metadata, json } => {
            let metadata = (!metadata.is_empty()).then(|| metadata.into_iter().collect());
            let value = read_value(value_file.as_deref())?;
            let hosts = (!host.is_empty()).then_some(host);
            let new = NewSecret { name, value, metadata, hosts, description: None };
            let made = client.create_secret(&new).await?;
            match &made {
                made if json => out.json(made)?,
                SecretView::Info(info) => out.line(info.secret_id.as_str())?,
                SecretView::Binding(binding) => out.line(&binding.name)?,
            }
        }
        Command::Ls { json: true } => out.json(&client.secrets().await?)?,
        Command::Ls { json: false } => {
            let now = Timestamp::now();
            let time = |at: Timestamp| if out.is_terminal() { relative(at, now) } else { at.to_string() };
            let row = |secret: &SecretInfo| {
                let version = secret.current_version.to_string();
                let (created, updated) = (time(secret.created_at), time(secret.updated_at));
                vec![secret.secret_id.to_string(), secret.name.clone(), version, created, updated]
            };
            let rows: Vec<_> = client.secrets().await?.iter().map(row).collect();
            out.rows(&["ID", "NAME", "VERSION", "CREATED", "UPDATED"], &rows)?;
        }
        Command::Update { name, value_file, metadata, json } => {
            let metadata = (!metadata.is_empty()).then(|| metadata.into_iter().collect());
            let new = SecretUpdate { value: read_value(value_file.as_deref())?, metadata };
            let made = client.update_secret(&name, &new).await?;
            if json { out.json(&made)? } else { out.line(&made.current_version.to_string())? }
        }
        Command::Rm { names } => {
            let delete = async |name: &String| client.delete_secret(name).await.map(|()| true);
            return each::run("secret", &names, context, delete).await;
        }
    }
    Ok(0)
}

/// The value without the newline at its end.
fn read_value(file: Option<&Path>) -> Result<Secret, Failure> {
    let limit = MAX_SECRET_BYTES as u64 + 3;
    let mut text = String::new();
    let read = match file {
        Some(path) => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
        None if std::io::stdin().is_terminal() => {
            return Err(Failure::user_error(
                "there is no value: pipe it into this command, or name a file with --value-file",
            ));
        }
        None => std::io::stdin().take(limit).read_to_string(&mut text),
    };
    let from = file.map_or_else(|| "standard input".into(), |path| path.display().to_string());
    read.map_err(|e| Failure::user_error(format!("cannot read the value from {from}: {e}")))?;
    let value = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if value.len() > MAX_SECRET_BYTES {
        return Err(Failure::user_error(format!("the value in {from} has more than {MAX_SECRET_BYTES} bytes")));
    }
    Ok(Secret::new(value))
}
