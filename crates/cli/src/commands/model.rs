//! `cabana model`: models that chats can use.

use cabana_types::wire::Model;

use crate::commands::Context;
use crate::failure::Outcome;

const LS_EXAMPLES: &str = "\
Examples:
  cabana model ls
  cabana model ls --json | jq -r '.models[].id'

If piped, prints one tab-separated line per model: id, tokens that fit, notes. The demo is scripted
and no AI: it shows what chats do until a provider is added.";

/// See which models chats can use
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List models
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let Command::Ls { json } = command;
    let page = context.client()?.models().await?;
    let out = &context.out;
    if json {
        out.json(&page)?;
        return Ok(0);
    }
    let rows: Vec<_> = page.models.iter().map(row).collect();
    out.rows(&["MODEL", "CONTEXT", "NOTES"], &rows)?;
    if page.models.iter().all(|model| model.demo) {
        out.note("only the demo is there; add a provider with `cabana provider add`");
    }
    Ok(0)
}

fn row(model: &Model) -> Vec<String> {
    let notes = [(model.default, "default"), (model.demo, "scripted"), (!model.priced && !model.demo, "unpriced")];
    let notes: Vec<&str> = notes.into_iter().filter_map(|(holds, note)| holds.then_some(note)).collect();
    vec![model.id.clone(), model.context_window.to_string(), notes.join(", ")]
}
