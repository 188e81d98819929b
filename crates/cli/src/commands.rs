//! The commands, one file each.

pub(crate) mod agent;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod commit;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod doctor;
pub(crate) mod each;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod fork;
pub(crate) mod key;
pub(crate) mod kill;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod openapi;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod price;
pub(crate) mod project;
pub(crate) mod provider;
pub(crate) mod quota;
pub(crate) mod recover;
pub(crate) mod resize;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod team;
pub(crate) mod template;
pub(crate) mod timeout;
pub(crate) mod tls;
pub(crate) mod tool;
pub(crate) mod usage;
pub(crate) mod user;
pub(crate) mod wallet;
pub(crate) mod webhooks;

use cabana_client::Client;

use crate::args::{Command, ServerArgs};
use crate::connection;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// Context of every command.
pub(crate) struct Context {
    pub(crate) out: Output,
    pub(crate) server: ServerArgs,
}

impl Context {
    /// A client for the configured server.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        connection::client(&self.server)
    }
}

/// Runs a command. Large futures are boxed to keep this one small.
pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Server(args) => Box::pin(server::run(args, context)).await,
        Command::Run(args) => Box::pin(run::run(args, context)).await,
        Command::Create(args) => Box::pin(create::run(args, context)).await,
        Command::Ls(args) => ls::run(args, context).await,
        Command::Exec(args) => Box::pin(exec::run(args, context)).await,
        Command::Shell(args) => Box::pin(shell::run(args, context)).await,
        Command::Cp(args) => Box::pin(cp::run(args, context)).await,
        Command::Service(command) => Box::pin(service::run(command, context)).await,
        Command::Tool(args) => Box::pin(tool::run(args, context)).await,
        Command::Chat(args) => Box::pin(chat::run(*args, context)).await,
        Command::Agent(command) => Box::pin(agent::run(command, context)).await,
        Command::Model(command) => model::run(command, context).await,
        Command::Provider(command) => Box::pin(provider::run(command, context)).await,
        Command::Kill(args) => kill::run(args, context).await,
        Command::Timeout(args) => timeout::run(args, context).await,
        Command::Pause(args) => pause::run(args, context).await,
        Command::Resume(args) => resume::run(args, context).await,
        Command::Recover(args) => recover::run(args, context).await,
        Command::Archive(args) => archive::run(args, context).await,
        Command::Resize(args) => resize::run(args, context).await,
        Command::Network(command) => network::run(command, context).await,
        Command::Fork(args) => fork::run(args, context).await,
        Command::Commit(args) => commit::run(args, context).await,
        Command::Snapshot(command) => snapshot::run(command, context).await,
        Command::Logs(args) => logs::run(args, context).await,
        Command::Events(args) => events::run(args, context).await,
        Command::Quota(command) => quota::run(command, context).await,
        Command::Usage(args) => usage::run(args, context).await,
        Command::Price(command) => price::run(command, context).await,
        Command::Wallet(command) => wallet::run(command, context).await,
        Command::Plan(command) => plan::run(command, context).await,
        Command::Audit(command) => Box::pin(audit::run(command, context)).await,
        Command::Webhooks(command) => webhooks::run(command, context).await,
        Command::Template(command) => template::run(command, context).await,
        Command::Key(command) => key::run(command, context).await,
        Command::Team(command) => team::run(command, context).await,
        Command::Project(command) => project::run(command, context).await,
        Command::User(command) => user::run(command, context).await,
        Command::Login(args) => login::run(args, context).await,
        Command::Secret(command) => secret::run(command, context).await,
        Command::Tls(command) => tls::run(&command, context),
        Command::Mcp(args) => mcp::run(args, context).await,
        Command::Doctor(args) => doctor::run(args, context).await,
        Command::Completions(args) => completions::run(&args, context),
        // `main` runs it before any thread starts.
        Command::Launcher { .. } => Err(Failure::user_error("the launcher cannot be started as a command")),
        Command::Man(args) => man::run(&args),
        Command::Openapi(args) => openapi::run(&args, context),
    }
}
