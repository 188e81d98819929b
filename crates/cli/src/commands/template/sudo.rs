//! `cabana template sudo`: whether set-uid programs gain privileges in sandboxes of a template.

use clap::builder::PossibleValuesParser;

use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const ON: &str = "on";
const OFF: &str = "off";

const EXAMPLES: &str = "\
Examples:
  cabana template sudo web                     prints on or off
  cabana template sudo web off                 `sudo`, `su` and other set-uid programs gain nothing
  cabana template sudo web on                  they work, unless the server or a creation says otherwise

Applies to new sandboxes of the template, whatever their creation asks for. Existing ones stay as they
are. Builds are not affected: they install packages.";

/// Show or change whether `sudo` works in sandboxes of a template
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The template
    #[arg(value_name = "NAME")]
    name: String,
    /// Whether it works
    #[arg(value_name = "on|off", value_parser = PossibleValuesParser::new([ON, OFF]), hide_possible_values = true)]
    works: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let client = context.client()?;
    let Args { name, works } = args;
    let failed = |e| Failure::from(e).context(format!("template {name}"));
    match works {
        None => {
            let template = client.template(&name).await.map_err(failed)?.template;
            context.out.line(if template.no_new_privileges { OFF } else { ON })?;
        }
        Some(works) => {
            client.set_template_no_new_privileges(&name, works == OFF).await.map_err(failed)?;
            context.out.note(&format!("{name}: new sandboxes start with sudo {works}"));
        }
    }
    Ok(0)
}
