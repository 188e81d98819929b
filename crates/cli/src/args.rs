//! Command-line arguments: global flags, the list of commands, and flags shared by several commands.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::PathBuf;

use cabana_types::SandboxId;
use cabana_types::env;
use cabana_types::wire::{AutoResume, NetworkRequest, NewSandbox};
use clap::{Args, Parser, Subcommand};

use crate::amount::{parse_mebibytes, parse_pair, parse_seconds};
use crate::commands;
use crate::failure::Failure;
use crate::local_files::{self, LocalFile};
use crate::output::Output;

const OVERVIEW: &str = "\
Examples:
  cabana server                                 start a server on this machine
  cabana run -- python3 -c 'print(6 * 7)'       run a command in a new sandbox
  id=$(cabana create)                           create a sandbox and keep it
  cabana exec $id -- ls /                       run a command in it
  cabana cp data.csv $id:/home/user/            copy a file into it
  cabana tool read_file -s $id path=data.csv    call a tool that agents use
  cabana shell $id                              open a shell in it
  cabana service start $id -- npm run dev       run a server in it and print its address
  cabana chat 'why do the tests fail?'          ask a model that uses a sandbox
  cabana pause $id                              pause it; the next command resumes it
  cabana fork $id                               create a copy of it
  cabana kill $id                               kill it
  cabana template build web                     build a template from web/Dockerfile
  cabana template pull python:3.12-slim         create a template from an image

Exit codes: 0 success, 1 invalid request, 2 server or connection error;
run, exec, shell and tool exit with the command's exit code (128+n if it was killed by signal n);
chat exits with 3 if a person must answer and there is no terminal.";

/// Private computers for AI agents: isolated sandboxes that start in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "cabana", version, after_help = OVERVIEW, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Address of the server and credentials.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// API URL [default: http://127.0.0.1:3000]
    #[arg(long, global = true, value_name = "URL", env = env::API_URL, hide_env_values = true)]
    pub(crate) api_url: Option<String>,
    /// API key [default: the local server's]
    #[arg(long, global = true, value_name = "KEY", env = env::API_KEY, hide_env_values = true)]
    pub(crate) api_key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Server(commands::server::Args),
    Run(commands::run::Args),
    Create(commands::create::Args),
    Ls(commands::ls::Args),
    Exec(commands::exec::Args),
    Shell(commands::shell::Args),
    Cp(commands::cp::Args),
    #[command(subcommand, visible_alias = "services")]
    Service(commands::service::Command),
    Tool(commands::tool::Args),
    Chat(Box<commands::chat::Args>),
    #[command(subcommand, visible_alias = "agents")]
    Agent(commands::agent::Command),
    #[command(subcommand, visible_alias = "models")]
    Model(commands::model::Command),
    #[command(subcommand, visible_alias = "providers")]
    Provider(commands::provider::Command),
    Kill(commands::kill::Args),
    Timeout(commands::timeout::Args),
    Pause(commands::pause::Args),
    Resume(commands::resume::Args),
    Recover(commands::recover::Args),
    Archive(commands::archive::Args),
    Resize(commands::resize::Args),
    #[command(subcommand)]
    Network(commands::network::Command),
    Fork(commands::fork::Args),
    Commit(commands::commit::Args),
    #[command(subcommand)]
    Snapshot(commands::snapshot::Command),
    Logs(commands::logs::Args),
    Events(commands::events::Args),
    #[command(subcommand)]
    Webhooks(commands::webhooks::Command),
    #[command(subcommand, visible_alias = "templates")]
    Template(commands::template::Command),
    #[command(subcommand)]
    Key(commands::key::Command),
    #[command(subcommand)]
    Team(commands::team::Command),
    #[command(subcommand)]
    Project(commands::project::Command),
    #[command(subcommand)]
    User(commands::user::Command),
    #[command(subcommand)]
    Quota(commands::quota::Command),
    Usage(commands::usage::Args),
    #[command(subcommand)]
    Price(commands::price::Command),
    #[command(subcommand)]
    Wallet(commands::wallet::Command),
    #[command(subcommand)]
    Plan(commands::plan::Command),
    #[command(subcommand)]
    Audit(commands::audit::Command),
    #[command(subcommand)]
    Secret(commands::secret::Command),
    #[command(subcommand)]
    Tls(commands::tls::Command),
    Login(commands::login::Args),
    Mcp(commands::mcp::Args),
    Doctor(commands::doctor::Args),
    Completions(commands::completions::Args),
    Openapi(commands::openapi::Args),
    #[command(hide = true)]
    Man(commands::man::Args),
    /// The process that clones sandboxes; started by the server
    #[command(hide = true)]
    Launcher {
        /// The guest executable, if it is not embedded
        guest: Option<PathBuf>,
    },
}

/// Presets of where a sandbox may connect.
pub(crate) const NETWORK_PRESETS: [&str; 3] = ["none", "registries", "internet"];

/// Options of a new sandbox.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxArgs {
    /// Template to start from
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub(crate) template: String,
    /// Virtual CPUs [default: the template's]
    #[arg(long, value_name = "COUNT")]
    pub(crate) cpu: Option<i64>,
    /// Memory in MiB, or with a unit: 512, 2G [default: the template's]
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    pub(crate) memory: Option<i64>,
    /// Disk in MiB, or with a unit [default: the template's]
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    pub(crate) disk: Option<i64>,
    /// Environment variable for every command; may be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Label to find it by; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) metadata: Vec<(String, String)>,
    /// Block outbound network access; the same as --network none
    #[arg(long)]
    pub(crate) no_internet: bool,
    /// Where it may connect [default: the template's or the server's]
    #[arg(long, value_name = "PRESET", value_parser = NETWORK_PRESETS, conflicts_with = "no_internet")]
    pub(crate) network: Option<String>,
    /// Address, network, host name or wildcard that it may connect to; may be repeated
    #[arg(long, value_name = "WHERE")]
    pub(crate) allow_out: Vec<String>,
    /// Address or network that it may not connect to; may be repeated
    #[arg(long, value_name = "WHERE")]
    pub(crate) deny_out: Vec<String>,
    /// Environment variable with a placeholder for a secret, which is put into headers of HTTPS requests
    /// to the secret's hosts; may be repeated
    #[arg(long, value_name = "NAME=SECRET", value_parser = parse_pair)]
    pub(crate) secret: Vec<(String, String)>,
    /// Let `sudo` and other set-uid programs gain nothing
    #[arg(long)]
    pub(crate) no_new_privileges: bool,
    /// Kill it after this long: seconds, or 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub(crate) timeout: Option<i64>,
    /// Pause it at the timeout instead, keeping its memory or only its disk
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "memory", value_parser = ["memory", "disk"])]
    pub(crate) auto_pause: Option<String>,
    /// Resume it when a request to one of its ports arrives
    #[arg(long)]
    pub(crate) auto_resume: bool,
    /// Pause it after this long without activity
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub(crate) idle: Option<i64>,
    /// Reboot it from its disk automatically if it fails
    #[arg(long)]
    pub(crate) replace: bool,
    /// Path to keep when it is recycled; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) keep_path: Vec<String>,
}

impl SandboxArgs {
    fn network_request(&self) -> Option<NetworkRequest> {
        let list = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        let request = NetworkRequest {
            preset: self.network.clone(),
            allow_out: list(&self.allow_out),
            deny_out: list(&self.deny_out),
            ..NetworkRequest::default()
        };
        (request != NetworkRequest::default()).then_some(request)
    }

    pub(crate) fn to_request(&self) -> NewSandbox {
        let map = |pairs: &[(String, String)]| -> Option<BTreeMap<String, String>> {
            (!pairs.is_empty()).then(|| pairs.iter().cloned().collect())
        };
        NewSandbox {
            template_id: self.template.clone(),
            timeout: self.timeout,
            allow_internet_access: self.no_internet.then_some(false),
            network: self.network_request(),
            metadata: map(&self.metadata),
            env_vars: map(&self.env),
            secrets: map(&self.secret),
            no_new_privileges: self.no_new_privileges.then_some(true),
            cpu_count: self.cpu,
            memory_mb: self.memory,
            disk_size_mb: self.disk,
            auto_pause: self.auto_pause.is_some().then_some(true),
            auto_pause_memory: self.auto_pause.as_deref().and_then(|what| (what == "disk").then_some(false)),
            auto_resume: self.auto_resume.then_some(AutoResume { enabled: true }),
            idle_timeout: self.idle,
            on_failure: self.replace.then(|| "replace".to_owned()),
            keep: (!self.keep_path.is_empty()).then(|| self.keep_path.clone()),
            ..Default::default()
        }
    }
}

/// Files that come with a new sandbox.
#[derive(Debug, Clone, Args)]
pub(crate) struct UploadArgs {
    /// Files and directories of this machine to put into user-uploads/ of the new sandbox
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) upload: Vec<PathBuf>,
}

impl UploadArgs {
    /// The files, with those in directories.
    pub(crate) fn collect(&self, out: &Output) -> Result<Vec<LocalFile>, Failure> {
        let files = local_files::collect(&self.upload, out)?;
        match files.len() {
            0 if !self.upload.is_empty() => Err(Failure::user_error("there are no files to upload")),
            count if count > local_files::MAX_FILES => {
                let most = local_files::MAX_FILES;
                Err(Failure::user_error(format!("a sandbox can be created with {most} files, not {count}"))
                    .hint("create it, then copy them with `cabana cp FILES… ID:`"))
            }
            _ => Ok(files),
        }
    }
}

/// How to run a command in a sandbox.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommandArgs {
    /// Run it on a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// Do not pass standard input, even when it is piped
    #[arg(short = 'n', long)]
    pub(crate) no_stdin: bool,
    /// Working directory [default: the user's home]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// User of the sandbox to run as [default: the template's]
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

/// The command: everything after `--`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommandLine {
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) words: Vec<String>,
}

impl CommandLine {
    /// The program and its arguments.
    pub(crate) fn split(&self) -> (String, Vec<String>) {
        match self.words.split_first() {
            Some((program, args)) => (program.clone(), args.to_vec()),
            None => (String::new(), Vec::new()),
        }
    }
}

/// Parses a sandbox id.
pub(crate) fn parse_id(text: &str) -> Result<SandboxId, String> {
    cabana_types::routing::parse_sandbox_ref(text).ok_or_else(|| "not a sandbox id; `cabana ls` lists them".to_owned())
}

/// Converts pairs to a map.
pub(crate) fn to_map(pairs: &[(String, String)]) -> HashMap<String, String> {
    pairs.iter().cloned().collect()
}
