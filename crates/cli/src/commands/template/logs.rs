//! `cabana template logs`: prints a build's log.

use cabana_client::Client;
use cabana_types::BuildId;
use cabana_types::wire::TemplateWithBuilds;

use super::watch::{self, Watch};
use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::output::clean;

const EXAMPLES: &str = "\
Examples:
  cabana template logs web                 the newest build, even if it failed
  cabana template logs web:v1              the build tagged v1
  cabana template logs web --follow        continue until the build ends
  cabana template logs web --build 2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f
  cabana template logs web --json          one JSON object per line

With --follow the exit code is 1 if the build fails.";

/// Show a build's log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The template
    #[arg(value_name = "NAME[:TAG]")]
    name: String,
    /// The build [default: the newest]
    #[arg(long, value_name = "ID")]
    build: Option<String>,
    /// Keep printing new lines
    #[arg(short, long)]
    follow: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    let name = super::without_tag(&args.name);
    let template = client.template(name).await.map_err(|e| Failure::from(e).context(format!("template {name}")))?;
    let build = find_build(&client, &args, &template).await?;
    let watch = Watch { client: &client, template: &template.template.template_id, build: &build };
    let show = |entry: &cabana_types::wire::BuildLogEntry| {
        if args.json {
            return out.json_line(entry);
        }
        out.raw(format!("{} {}\n", entry.timestamp, clean(&entry.message)).as_bytes())
    };
    let ended = watch.read(args.follow, context, show).await?;
    match ended.reason {
        Some(reason) if args.follow => Err(watch::failure(&reason)),
        _ => Ok(0),
    }
}

/// Finds the requested build.
async fn find_build(client: &Client, args: &Args, template: &TemplateWithBuilds) -> Result<BuildId, Failure> {
    let named = args.build.as_deref().or_else(|| args.name.split_once(':').map(|(_, tag)| tag));
    let Some(named) = named else {
        let newest = template.builds.first().map(|build| build.build_id.clone());
        return newest.ok_or_else(|| Failure::user_error(format!("{} has no build yet", args.name)));
    };
    if let Ok(id) = named.to_ascii_lowercase().parse() {
        return Ok(id);
    }
    if args.build.is_some() {
        return Err(Failure::user_error(format!("`{named}` is not a build id")));
    }
    let tags = client.tags(template.template.template_id.as_str()).await?;
    let found = tags.into_iter().find(|tag| tag.tag == named.to_ascii_lowercase());
    let missing = || {
        Failure::user_error(format!("the template has no tag {named}"))
            .hint("`cabana template ls` lists templates and their tags")
    };
    Ok(found.ok_or_else(missing)?.build_id)
}
