//! `cabana template pull`: a template of an image in a registry.

use cabana_image::Reference;
use cabana_types::wire::BuildStart;

use super::context::template_name;
use super::credentials::Login;
use super::order::Wanted;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana template pull python:3.12-slim          then: cabana run --template python:3.12-slim
  cabana template pull ghcr.io/acme/web:v2 --name web --start '/app/serve'
  pass show registry | cabana template pull registry.acme.dev/web --registry-user me \\
    --registry-password-stdin

The template is called as the image is, without its registry and owner, unless --name says
otherwise. Pulled again, it is what the registry has by then; layers that are here are not fetched
twice. What the image runs by itself does not run in sandboxes unless --start says so. For an image
in a file, see `cabana template import`. Prints NAME:BUILD.";

/// Make a template of an image in a registry
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The image: [REGISTRY/]NAME[:TAG] or NAME@DIGEST
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    login: Login,
    #[command(flatten)]
    wanted: Wanted,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let image: Reference = args.image.parse().map_err(|e| Failure::yours(format!("{e}")))?;
    let new = args.wanted.template(named_after(&image))?;
    let start = BuildStart {
        dockerfile: Some(format!("FROM {}\n", args.image)),
        from_image_registry: args.login.credentials()?,
        ..Default::default()
    };
    args.wanted.build(new, Vec::new(), start, context).await
}

/// `web:v2` of `ghcr.io/acme/web:v2`, and `web` of `web:latest`: what a name alone means there and here.
fn named_after(image: &Reference) -> Option<String> {
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
    fn templates_are_called_as_images_are() {
        let digest = format!("busybox@sha256:{}", "0".repeat(64));
        let names = [
            ("python:3.12-slim", "python:3.12-slim"),
            ("ghcr.io/acme/Web:V2", ""),
            ("ghcr.io/acme/web.app:V2", "web-app:v2"),
            ("localhost:5000/a/b", "b"),
            (&digest, "busybox"),
        ];
        for (image, name) in names {
            let found = image.parse().ok().and_then(|image| named_after(&image)).unwrap_or_default();
            assert_eq!(found, name, "{image}");
        }
    }
}
