//! `cabana provider`: model providers of the team. Their keys are read from a file, the terminal or a variable, never from an argument,
//! which other users of the machine could see, and never printed.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use cabana_client::NewProvider;
use cabana_types::Secret;
use cabana_types::wire::ModelProvider;

use crate::commands::chat::keys::{self, Typed};
use crate::commands::{Context, each};
use crate::connection;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::signals::Signals;

const LS_EXAMPLES: &str = "\
Examples:
  cabana provider ls
  cabana provider ls --json

If piped, prints one tab-separated line per provider: name, kind, address, whether there is a key,
models, and whether the server's settings or the team added it. Keys are never shown.";

const ADD_EXAMPLES: &str = "\
Examples:
  cabana provider add anthropic --kind anthropic --model claude-sonnet
  pass show openai | cabana provider add openai --kind openai --model gpt-5 --model gpt-5-mini
  cabana provider add router --kind openai --url https://openrouter.ai/api/v1 --key-file key.txt

The key is read from --key-file, the variable CABANA_PROVIDER_KEY, standard input or the terminal,
and is kept sealed. An empty one: the provider needs none. A provider of the same name is replaced.
Models are then used as NAME/MODEL. Prints the provider's name.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana provider rm openai

Deletes the key too. Prints the names of the removed providers. Continues after an error.";

/// Variable with the key.
const KEY_VARIABLE: &str = "CABANA_PROVIDER_KEY";
/// Largest key.
const MAX_KEY: u64 = 4096;

/// Manage model providers
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List model providers
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a model provider
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The first part of its models' names
        #[arg(value_name = "NAME")]
        name: String,
        /// What it speaks
        #[arg(long, value_name = "KIND", value_parser = ["openai", "anthropic"])]
        kind: String,
        /// Address of its API [default: that of the company]
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// Model to offer; may be repeated
        #[arg(long, value_name = "MODEL")]
        model: Vec<String>,
        /// File with the key
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove model providers
    #[command(visible_alias = "delete", after_help = RM_EXAMPLES)]
    Rm {
        /// Names of the providers
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    match command {
        Command::Ls { json: true } => out.json(&client.model_providers().await?)?,
        Command::Ls { json: false } => {
            let rows: Vec<_> = client.model_providers().await?.iter().map(row).collect();
            out.rows(&["NAME", "KIND", "ADDRESS", "KEY", "MODELS", "ADDED BY"], &rows)?;
            if rows.is_empty() {
                out.note("there are no providers; add one with `cabana provider add`");
            }
        }
        Command::Add { name, kind, url, model, key_file, json } => {
            let key = read_key(key_file.as_deref(), out).await?;
            let new = NewProvider { name, kind, base_url: url, key, models: model };
            let added = client.add_model_provider(&new).await?;
            if json { out.json(&added)? } else { out.line(&added.name)? }
        }
        Command::Rm { names } => {
            let remove = async |name: &String| client.delete_model_provider(name).await.map(|()| true);
            return each::run("provider", &names, context, remove).await;
        }
    }
    Ok(0)
}

fn row(provider: &ModelProvider) -> Vec<String> {
    vec![
        provider.name.clone(),
        provider.kind.clone(),
        provider.base_url.clone().unwrap_or_else(|| "-".to_owned()),
        if provider.has_key { "yes" } else { "no" }.to_owned(),
        provider.models.join(", "),
        provider.scope.clone(),
    ]
}

/// The key; `None` if it is empty.
async fn read_key(file: Option<&Path>, out: &Output) -> Result<Option<Secret>, Failure> {
    let text = match (file, connection::variable(KEY_VARIABLE)) {
        (Some(path), _) => {
            let file = std::fs::File::open(path);
            read(file.map_err(|e| Failure::from(e).context(format!("cannot read {}", path.display())))?)?
        }
        (None, Some(key)) => key,
        (None, None) if out.can_ask() => {
            let mut signals = Signals::catch()?;
            match keys::read_line("Key (it is not shown): ", &[], true, &mut signals).await? {
                Typed::Line(key) => key,
                Typed::Interrupt | Typed::End => return Err(Failure::user_error("nothing was added").code(130)),
            }
        }
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Failure::user_error("there is no key").hint("use --key-file"));
        }
        (None, None) => read(std::io::stdin().lock())?,
    };
    let key = text.trim();
    if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Failure::user_error("the key has blanks or control characters in it"));
    }
    Ok((!key.is_empty()).then(|| Secret::new(key)))
}

fn read(source: impl Read) -> Result<String, Failure> {
    let mut text = String::new();
    source.take(MAX_KEY + 1).read_to_string(&mut text).map_err(|e| Failure::from(e).context("cannot read the key"))?;
    if text.len() as u64 > MAX_KEY {
        return Err(Failure::user_error(format!("the key has more than {MAX_KEY} bytes")));
    }
    Ok(text)
}
