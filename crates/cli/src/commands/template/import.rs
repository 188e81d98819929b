//! `cabana template import`: a template of an image in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabana_types::wire::BuildStart;

use super::order::Wanted;
use super::upload;
use crate::commands::Context;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  docker save app:v1 | cabana template import - --name app:v1
  cabana template import app.tar.gz --start '/app/serve' --ready 'curl -fs localhost:8080'
  cabana template import ./layout --pick app:v2        one of several in an OCI layout

Takes what `docker save`, `podman save`, `skopeo copy` and `crane pull` write: a docker archive, or
an OCI layout as a directory or an archive. No registry is asked, so this works without the
internet; for an image in a registry, see `cabana template pull`. To build on such an image, see
`cabana template build --image`. Prints NAME:BUILD.";

/// What the image is called in the build, where nothing else is said.
const IMAGE: &str = "image";

/// Make a template of an image in a file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file or OCI layout; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which image, if there are several in it
    #[arg(long, value_name = "IMAGE")]
    pick: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let new = args.wanted.template(upload::image_name(&args.file))?;
    let image = tokio::task::spawn_blocking(move || upload::image(&args.file)).await??;
    let name = args.pick.unwrap_or_else(|| IMAGE.to_owned());
    let start = BuildStart {
        dockerfile: Some(format!("FROM {name}\n")),
        images: Some(BTreeMap::from([(name, image.hash.clone())])),
        ..Default::default()
    };
    args.wanted.build(new, vec![image], start, context).await
}
