//! `cabana template import`: creates a template from an image file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabana_types::wire::BuildStart;

use super::request::TemplateArgs;
use super::upload;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  docker save app:v1 | cabana template import - --name app:v1
  cabana template import app.tar.gz --start '/app/serve' --ready 'curl -fs localhost:8080'
  cabana template import ./layout --pick app:v2        one of several images in an OCI layout

Reads the output of `docker save`, `podman save`, `skopeo copy` and `crane pull`: a docker archive,
or an OCI layout as a directory or an archive. Works without a registry or internet access; for an
image in a registry, see `cabana template pull`. To build on such an image, see `cabana template
build --image`. Prints NAME:BUILD.";

/// Default name of the image in the build.
const IMAGE: &str = "image";

/// Create a template from an image file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file or OCI layout; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Image to use if there are several
    #[arg(long, value_name = "IMAGE")]
    pick: Option<String>,
    #[command(flatten)]
    template_args: TemplateArgs,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let new = args.template_args.template(upload::image_name(&args.file))?;
    let image = tokio::task::spawn_blocking(move || upload::image(&args.file)).await??;
    let name = args.pick.unwrap_or_else(|| IMAGE.to_owned());
    let start = BuildStart {
        dockerfile: Some(format!("FROM {name}\n")),
        images: Some(BTreeMap::from([(name, image.hash.clone())])),
        ..Default::default()
    };
    args.template_args.build(new, vec![image], start, context).await
}
