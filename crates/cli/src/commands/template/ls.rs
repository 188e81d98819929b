//! `cabana template ls`: lists templates.

use cabana_client::Client;
use cabana_types::wire::Template;
use futures_util::StreamExt;
use jiff::Timestamp;

use crate::amount::{mebibytes, relative};
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana template ls
  cabana template ls --json
  cabana create --template base

If piped, prints one tab-separated line per template: id, names, state of the newest build (ready,
building, waiting or error), CPUs, memory in MiB, disk in MiB, creation time, tags.";

/// Concurrent requests for templates.
const PARALLEL: usize = 8;

/// List templates
#[derive(Debug, clap::Args)]
#[command(visible_alias = "list", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let templates = client.templates().await?;
    let out = &context.out;
    if args.json {
        out.json(&templates)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let people = out.is_terminal();
    let amount = |mib: u32| if people { mebibytes(mib.into()) } else { mib.to_string() };
    let details: Vec<_> =
        futures_util::stream::iter(&templates).map(|t| newest_and_tags(&client, t)).buffered(PARALLEL).collect().await;
    let mut rows = Vec::new();
    for (template, details) in templates.iter().zip(details) {
        let (state, tags) = details?;
        rows.push(vec![
            template.template_id.to_string(),
            template.aliases.join(","),
            state,
            template.cpu_count.to_string(),
            amount(template.memory_mb),
            amount(template.disk_size_mb),
            if people { relative(template.created_at, now) } else { template.created_at.to_string() },
            tags.join(","),
        ]);
    }
    out.rows(&["ID", "NAMES", "BUILD", "CPU", "MEMORY", "DISK", "MADE", "TAGS"], &rows)?;
    Ok(0)
}

/// Details that the list does not have. A template that was just deleted is shown without them.
async fn newest_and_tags(client: &Client, template: &Template) -> Result<(String, Vec<String>), Failure> {
    let known = template.build_status.clone();
    let id = template.template_id.as_str();
    let newest = match client.template(id).await {
        Ok(details) => details.builds.into_iter().next().map_or(known, |build| build.status),
        Err(e) if e.is_not_found() => return Ok((known, vec![])),
        Err(e) => return Err(e.into()),
    };
    match client.tags(id).await {
        Ok(tags) => Ok((newest, tags.into_iter().map(|tag| tag.tag).collect())),
        Err(e) if e.is_not_found() => Ok((newest, vec![])),
        Err(e) => Err(e.into()),
    }
}
