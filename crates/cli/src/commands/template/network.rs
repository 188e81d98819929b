//! `cabana template network`: where sandboxes of a template may connect that ask for nothing.

use clap::builder::PossibleValuesParser;

use crate::args::NETWORK_PRESETS;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

/// Means the server's own default.
const DEFAULT: &str = "default";

const EXAMPLES: &str = "\
Examples:
  cabana template network web                  prints none, registries, internet or default
  cabana template network web none             nothing at all
  cabana template network web registries       package registries only
  cabana template network web default          what the server's configuration says

Applies to new sandboxes of the template whose creation has no `network` options. Existing ones keep
their policy: change it with `cabana network set`.";

/// Show or change where sandboxes of a template may connect
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The template
    #[arg(value_name = "NAME")]
    name: String,
    /// The new policy
    #[arg(value_name = "PRESET", value_parser = PossibleValuesParser::new(NETWORK_PRESETS.iter().copied().chain([DEFAULT])))]
    preset: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let Args { name, preset } = args;
    let failed = |e| Failure::from(e).context(format!("template {name}"));
    match preset {
        None => {
            let template = client.template(&name).await.map_err(failed)?.template;
            context.out.line(template.network.as_deref().unwrap_or(DEFAULT))?;
        }
        Some(preset) => {
            let wanted = Some(preset.as_str()).filter(|preset| *preset != DEFAULT);
            client.set_template_network(&name, wanted).await.map_err(failed)?;
            context.out.note(&format!("{name}: new sandboxes start with {preset}"));
        }
    }
    Ok(0)
}
