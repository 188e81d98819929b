//! `cabana agent`: models with instructions and tools.

use std::path::{Path, PathBuf};

use cabana_types::chat::{ChatTool, MAX_SYSTEM};
use cabana_types::wire::{Agent, NewAgent};

use crate::commands::Context;
use crate::commands::chat::start;
use crate::failure::{Failure, Outcome};

const LS_EXAMPLES: &str = "\
Examples:
  cabana agent ls
  cabana agent ls --json

If piped, prints one tab-separated line per agent: id, name, model, description.";

const CREATE_EXAMPLES: &str = "\
Examples:
  cabana agent create reviewer --system-file review.md --model anthropic/claude-sonnet
  cabana agent create analyst --system 'Answer with numbers.' --template python
  cabana chat --agent reviewer \"look at the last commit\" --file repo.bundle

Prints the agent's id.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana agent rm reviewer

Chats with the agent stay. Prints the names of the deleted agents. Continues after an error.";

/// Manage agents: models with instructions and tools
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List agents
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Create(Box<Create>),
    /// Delete agents
    #[command(visible_alias = "delete", after_help = RM_EXAMPLES)]
    Rm {
        /// Names or ids of the agents
        #[arg(value_name = "AGENT", required = true)]
        agents: Vec<String>,
    },
}

/// Create an agent
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct Create {
    /// Name of the agent
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Model, as PROVIDER/MODEL [default: the server's]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Instructions for the model
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// File with instructions for the model
    #[arg(long, value_name = "FILE", conflicts_with = "system")]
    system_file: Option<PathBuf>,
    /// Template of its sandboxes [default: base]
    #[arg(long, value_name = "NAME", conflicts_with = "no_sandbox")]
    template: Option<String>,
    /// It has no sandbox
    #[arg(long)]
    no_sandbox: bool,
    /// Something that people can ask it for; may be repeated
    #[arg(long, value_name = "TEXT")]
    suggestion: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Create {
    fn tools(&self) -> Option<Vec<ChatTool>> {
        if self.no_sandbox {
            return Some(vec![ChatTool::Ask {}]);
        }
        let wanted = self.template.clone()?;
        let mut tools = start::default_tools();
        for tool in &mut tools {
            if let ChatTool::Sandbox { template, .. } = tool {
                *template = Some(wanted.clone());
            }
        }
        Some(tools)
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    match command {
        Command::Ls { json: true } => out.json(&client.agents().await?)?,
        Command::Ls { json: false } => {
            let row = |agent: &Agent| {
                let model = agent.model.clone().unwrap_or_else(|| "-".to_owned());
                vec![agent.id.to_string(), agent.name.clone(), model, agent.description.clone()]
            };
            let rows: Vec<_> = client.agents().await?.iter().map(row).collect();
            out.rows(&["ID", "NAME", "MODEL", "DESCRIPTION"], &rows)?;
            if rows.is_empty() {
                out.note("there are no agents; make one with `cabana agent create`");
            }
        }
        Command::Create(args) => {
            let system = match &args.system_file {
                Some(path) => Some(read_system(path)?),
                None => args.system.clone(),
            };
            let tools = args.tools();
            let new = NewAgent {
                name: args.name,
                description: args.description,
                kind: None,
                model: args.model,
                system,
                tools,
                limits: None,
                suggestions: (!args.suggestion.is_empty()).then_some(args.suggestion),
            };
            let made = client.create_agent(&new).await?;
            if args.json { out.json(&made)? } else { out.line(made.id.as_str())? }
        }
        Command::Rm { agents } => {
            let mut worst: Option<Failure> = None;
            for name in agents {
                let removed = async {
                    let agent = start::find_agent(&client, &name).await?;
                    Ok::<_, Failure>(client.delete_agent(&agent.id).await?)
                };
                match removed.await {
                    Ok(()) => out.line(&name)?,
                    Err(failure) => {
                        if let Some(earlier) = worst.replace(failure.context(format!("agent {name}"))) {
                            out.failure(&earlier);
                        }
                    }
                }
            }
            return worst.map_or(Ok(0), Err);
        }
    }
    Ok(0)
}

fn read_system(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::from(e).context(format!("cannot read {}", path.display())))?;
    if text.chars().count() > MAX_SYSTEM {
        return Err(Failure::user_error(format!("{} has more than {MAX_SYSTEM} characters", path.display())));
    }
    Ok(text)
}
