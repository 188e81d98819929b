//! `cabana template gallery` and `cabana template get`: curated templates.

use std::time::Duration;

use cabana_client::{Client, Error};
use cabana_types::ErrorCode;
use cabana_types::wire::CuratedTemplate;

use super::watch::{self, Watch};
use crate::amount::mebibytes;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const LIST_EXAMPLES: &str = "\
Examples:
  cabana template gallery
  cabana template gallery --dockerfile postgres > Dockerfile
  cabana create --template code-interpreter-v1     builds it first, if it is not there

If piped, prints one tab-separated line per template: name, state (absent, building, ready, outdated,
failed or taken), category, size in MiB, title.";

const GET_EXAMPLES: &str = "\
Examples:
  cabana template get code-interpreter-v1
  cabana run --template $(cabana template get postgres) -- psql --version

Builds a curated template, unless it is ready, and prints its name. The build log goes to standard
error. One whose build has failed, or which has changed since, is built again.";

/// How often the state of another team's build is read.
const POLL: Duration = Duration::from_secs(1);

/// List curated templates, which the server can build
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Print the Dockerfile of one
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    dockerfile: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Build a curated template
#[derive(Debug, clap::Args)]
#[command(after_help = GET_EXAMPLES)]
pub(crate) struct GetArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

pub(crate) async fn list(args: ListArgs, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    if let Some(name) = args.dockerfile {
        out.raw(client.curated_template(&name).await?.dockerfile.as_bytes())?;
        return Ok(0);
    }
    let templates = client.curated_templates().await?;
    if args.json {
        out.json(&templates)?;
        return Ok(0);
    }
    let people = out.is_terminal();
    let size = |mib: u32| if people { mebibytes(mib.into()) } else { mib.to_string() };
    let row = |t: CuratedTemplate| vec![t.name, t.state, t.category, size(t.size_mb), t.title];
    let rows: Vec<_> = templates.into_iter().map(row).collect();
    out.rows(&["NAME", "STATE", "CATEGORY", "SIZE", "TITLE"], &rows)?;
    Ok(0)
}

pub(crate) async fn get(args: GetArgs, context: &Context) -> Outcome {
    let client = context.client()?;
    let mut found = client.build_curated(&args.name).await?;
    if found.state == "building" {
        follow(&client, &found, context).await?;
        found = client.curated_template(&args.name).await?;
    }
    match found.state.as_str() {
        "ready" | "outdated" => {
            context.out.line(&found.name)?;
            Ok(0)
        }
        _ => {
            let why = found.message.unwrap_or_else(|| format!("it is {}", found.state));
            Err(Failure::user_error(format!("template {} was not built: {why}", found.name)))
        }
    }
}

/// Waits for a build, and prints its log if this key may read it.
async fn follow(client: &Client, found: &CuratedTemplate, context: &Context) -> Result<(), Failure> {
    let (Some(template), Some(build)) = (&found.template_id, &found.build_id) else { return Ok(()) };
    match client.build_status(template, build, 0, 1).await {
        Err(Error::Api { code: Some(ErrorCode::Forbidden), .. }) => {
            context.out.say(&format!("waiting for the template {}, which the server is building", found.name));
            while client.curated_template(&found.name).await?.state == "building" {
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        }
        _ => {
            let show = |entry: &_| {
                watch::show(entry, &context.out);
                Ok(())
            };
            match (Watch { client, template, build }).read(true, context, show).await?.reason {
                Some(reason) => Err(watch::failure(&reason)),
                None => Ok(()),
            }
        }
    }
}
