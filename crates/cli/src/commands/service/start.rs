//! `cabana service start`: starts a service, or replaces the one of the same name.

use cabana_types::SandboxId;
use cabana_types::service::{Access, is_name, is_slug};
use cabana_types::wire::NewService;

use super::state;
use crate::amount::parse_pair;
use crate::args::{CommandLine, parse_id};
use crate::commands::Context;
use crate::failure::Outcome;

/// Longest time that the server waits.
pub(super) const WAIT_SECONDS: u64 = 60;

const EXAMPLES: &str = "\
Examples:
  cabana service start SANDBOX -- npm run dev
  cabana service start SANDBOX --name api --port 8000 --cwd /srv/api -e DEBUG=1 -- ./serve
  cabana service start SANDBOX -- 'npm ci && npm run dev'       one argument is a script
  cabana service start SANDBOX --public --slug my-shop -- npm start

Waits until the service listens, and prints its name, state, port, access and URL. If it ends or
opens no port, prints its last lines and the reason; the exit code is then 1. A service of the same
name is replaced and keeps its address. Without --public, the URL asks to sign in;
`cabana service link` makes one for others.";

/// Start a service
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name of the service [default: web]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    /// Port that it will listen on [default: the first one that it does]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Working directory [default: the user's home]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Environment variable for the command; may be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    env: Vec<(String, String)>,
    /// Let everyone see it
    #[arg(long)]
    public: bool,
    /// Name of a public service below the server's domain
    #[arg(long, value_name = "NAME", requires = "public", value_parser = parse_slug)]
    slug: Option<String>,
    /// Keep the sandbox running as long as the service does
    #[arg(long)]
    always_on: bool,
    /// Do not wait until it listens
    #[arg(long)]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The sandbox
    #[arg(value_name = "SANDBOX", value_parser = parse_id)]
    sandbox: SandboxId,
    #[command(flatten)]
    line: CommandLine,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let new = NewService {
        name: args.name,
        command: script(&args.line.words),
        port: args.port,
        cwd: args.cwd,
        env: args.env.into_iter().collect(),
        always_on: args.always_on.then_some(true),
        access: args.public.then_some(Access::Public),
        slug: args.slug,
        ..NewService::default()
    };
    let wait = if args.no_wait { 0 } else { WAIT_SECONDS };
    let service = context.client()?.create_service(&args.sandbox, &new, wait).await?;
    state::report(&service, !args.no_wait, args.json, context)
}

/// The words as a script for a shell: one is a script already.
fn script(words: &[String]) -> String {
    match words {
        [script] => script.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err("it must consist of a-z, 0-9, - and _".to_owned()) }
}

fn parse_slug(text: &str) -> Result<String, String> {
    match is_slug(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("it must have 3 to 40 characters of a-z, 0-9 and -, begin with a letter, and not be reserved"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_script() {
        let script = |words: &[&str]| script(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(script(&["cd app && npm run dev"]), "cd app && npm run dev");
        assert_eq!(script(&["npm", "run", "dev", "--port=3000"]), "npm run dev --port=3000");
        assert_eq!(script(&["echo", "", "a b", "it's", "$HOME"]), "echo '' 'a b' 'it'\\''s' '$HOME'");
        let output =
            std::process::Command::new("sh").args(["-c", &script(&["printf", "%s|", "it's", "$HOME", "*"])]).output();
        assert_eq!(output.expect("sh").stdout, b"it's|$HOME|*|");
    }
}
