//! `cabana template pull`: creates a template from an image in a registry.

use cabana_image::Reference;
use cabana_types::wire::BuildStart;

use super::context::template_name;
use super::credentials::Login;
use super::request::TemplateArgs;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana template pull python:3.12-slim          then: cabana run --template python:3.12-slim
  cabana template pull ghcr.io/acme/web:v2 --name web --start '/app/serve'
  pass show registry | cabana template pull registry.acme.dev/web --registry-user me \\
    --registry-password-stdin

By default the template is named after the image, without registry and owner. Pulling again updates
it; layers that the server has are not downloaded again. The image's entrypoint is ignored; give a
command to run with --start. For an image in a file, see `cabana template import`. Prints
NAME:BUILD.";

/// Create a template from an image in a registry
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The image: [REGISTRY/]NAME[:TAG] or NAME@DIGEST
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    login: Login,
    #[command(flatten)]
    template_args: TemplateArgs,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let image: Reference = args.image.parse().map_err(|e| Failure::user_error(format!("{e}")))?;
    let new = args.template_args.template(default_name(&image))?;
    let start = BuildStart {
        dockerfile: Some(format!("FROM {}\n", args.image)),
        from_image_registry: args.login.credentials()?,
        ..Default::default()
    };
    args.template_args.build(new, Vec::new(), start, context).await
}

/// `web:v2` for `ghcr.io/acme/web:v2`, and `web` for `web:latest`, the default tag.
fn default_name(image: &Reference) -> Option<String> {
    let path = image.path();
    let name = template_name(path.rsplit('/').next().unwrap_or(path))?;
    Some(match image.tag() {
        Some(tag) if image.digest().is_none() && tag != "latest" => format!("{name}:{}", tag.to_ascii_lowercase()),
        _ => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_named_after_images() {
        let digest = format!("busybox@sha256:{}", "0".repeat(64));
        let names = [
            ("python:3.12-slim", "python:3.12-slim"),
            ("ghcr.io/acme/Web:V2", ""),
            ("ghcr.io/acme/web.app:V2", "web-app:v2"),
            ("localhost:5000/a/b", "b"),
            (&digest, "busybox"),
        ];
        for (image, name) in names {
            let found = image.parse().ok().and_then(|image| default_name(&image)).unwrap_or_default();
            assert_eq!(found, name, "{image}");
        }
    }
}
