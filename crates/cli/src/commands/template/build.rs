//! `cabana template build`: builds a template from a Dockerfile.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use cabana_image::dockerfile::{Dockerfile, DockerfileError};
use cabana_types::limits::MAX_DOCKERFILE_BYTES;
use cabana_types::wire::BuildStart;
use flate2::Compression;
use indicatif::HumanBytes;

use super::context::Directory;
use super::credentials::Login;
use super::request::TemplateArgs;
use super::upload;
use crate::amount::parse_pair;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::output::clean;

const EXAMPLES: &str = "\
Examples:
  cabana template build                              ./Dockerfile, named after the directory
  cabana template build web --name web:v2 --tag stable
  cabana template build --file docker/ci.Dockerfile --target test --build-arg VERSION=3
  cabana template build --start 'python3 app.py' --ready 'curl -fs localhost:8000'
  cabana run --template $(cabana template build web) -- python3 -V
  pass show registry | cabana template build --registry-user me --registry-password-stdin
  cabana template build --image acme/base=base.tar   FROM acme/base reads that file

Without tags the build is tagged `default`, which NAME alone refers to; with tags it gets only
those. The build log goes to standard error. NAME:BUILD is printed to standard output; it can be
used like any template name and always refers to this build. Ctrl-C cancels the build.

--start and --ready default to the Dockerfile's CMD and HEALTHCHECK.

Files that match .dockerignore (or FILE.dockerignore next to the Dockerfile) are not uploaded.";

/// Build a template from a Dockerfile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory with the Dockerfile and the files that it copies
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The Dockerfile [default: Dockerfile in DIR]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Stage of the Dockerfile to build [default: the last]
    #[arg(long, value_name = "STAGE")]
    target: Option<String>,
    /// Value for an ARG; may be repeated
    #[arg(long = "build-arg", value_name = "NAME=VALUE", value_parser = parse_pair)]
    arguments: Vec<(String, String)>,
    /// Do not use cached steps
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    login: Login,
    /// Image for FROM NAME from a file: `docker save` output or an OCI layout; may be repeated
    #[arg(long = "image", value_name = "NAME=FILE", value_parser = parse_pair)]
    images: Vec<(String, String)>,
    #[command(flatten)]
    template_args: TemplateArgs,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let directory = Directory::open(&args.directory)?;
    let (path, text) = args.dockerfile()?;
    let arguments: BTreeMap<String, String> = args.arguments.iter().cloned().collect();
    // Report mistakes before anything is uploaded.
    let parsed = Dockerfile::parse(&text).and_then(|file| file.plan(args.target.as_deref(), &arguments));
    parsed.map_err(|e| dockerfile_error(&e, &text))?;
    let credentials = args.login.credentials()?;
    let new = args.template_args.template(directory.template_name())?;
    let ignore = directory.ignore(&path)?;
    let files = args.images;
    let packed = tokio::task::spawn_blocking(move || {
        let packed = directory.pack(&ignore, Compression::fast())?;
        let images = files.into_iter().map(|(name, file)| Ok((name, upload::image(Path::new(&file))?)));
        Ok::<_, Failure>((packed, images.collect::<Result<Vec<_>, Failure>>()?))
    });
    let (packed, images) = packed.await??;
    let start = BuildStart {
        from_image_registry: credentials,
        force: args.no_cache.then_some(true),
        dockerfile: Some(text),
        context: packed.as_ref().map(|packed| packed.hash.clone()),
        target: args.target,
        build_args: (!arguments.is_empty()).then_some(arguments),
        images: (!images.is_empty())
            .then(|| images.iter().map(|(name, image)| (name.clone(), image.hash.clone())).collect()),
        ..Default::default()
    };
    let uploads = packed.into_iter().chain(images.into_iter().map(|(_, image)| image)).collect();
    args.template_args.build(new, uploads, start, context).await
}

impl Args {
    /// The path and the contents of the Dockerfile.
    fn dockerfile(&self) -> Result<(PathBuf, String), Failure> {
        let path = match &self.file {
            None => self.directory.join("Dockerfile"),
            // Relative to the working directory, or else to DIR.
            Some(file) if file.exists() => file.clone(),
            Some(file) => self.directory.join(file),
        };
        let read = || -> std::io::Result<String> {
            let mut text = String::new();
            std::fs::File::open(&path)?.take(MAX_DOCKERFILE_BYTES as u64 + 1).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|e| {
            let failure = Failure::user_error(format!("cannot read {}: {e}", path.display()));
            match e.kind() {
                std::io::ErrorKind::NotFound => {
                    failure.hint("create one with `cabana template init`, or give another with --file")
                }
                _ => failure,
            }
        })?;
        if text.len() > MAX_DOCKERFILE_BYTES {
            let most = MAX_DOCKERFILE_BYTES as u64;
            return Err(Failure::user_error(format!("{} is larger than {}", path.display(), HumanBytes(most))));
        }
        Ok((path, text))
    }
}

/// An error in the Dockerfile, with the offending line.
fn dockerfile_error(error: &DockerfileError, text: &str) -> Failure {
    match text.lines().nth(error.line.saturating_sub(1)) {
        Some(line) => Failure::user_error(format!("{error}\n  {} | {}", error.line, clean(line))),
        None => Failure::user_error(error.to_string()),
    }
}
