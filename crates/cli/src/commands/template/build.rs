//! `cabana template build`: from a Dockerfile to a template.

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
use super::order::Wanted;
use super::upload;
use crate::amount::parse_pair;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::output::clean;

const EXAMPLES: &str = "\
Examples:
  cabana template build                              the Dockerfile here; the directory's name
  cabana template build web --name web:v2 --tag stable
  cabana template build --file docker/ci.Dockerfile --target test --build-arg VERSION=3
  cabana template build --start 'python3 app.py' --ready 'curl -fs localhost:8000'
  cabana run --template $(cabana template build web) -- python3 -V
  pass show registry | cabana template build --registry-user me --registry-password-stdin
  cabana template build --image acme/base=base.tar   FROM acme/base is in that file

Without a tag the build is `default`, which is what NAME alone means; with tags it is only what they
say. What the build says goes to standard error. The last line, on standard output, names the build:
NAME:BUILD can be used wherever a template is named, and is this build for ever. Ctrl-C ends the build.

Without --start and --ready, the Dockerfile's CMD and HEALTHCHECK are what they would say.

Files that .dockerignore names (or FILE.dockerignore, for that file alone) are not sent.";

/// Build a template from a Dockerfile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory with the Dockerfile and the files that it copies
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
    /// Do every step again
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    login: Login,
    /// Image for FROM NAME that is in a file: from `docker save`, or an OCI layout; may be repeated
    #[arg(long = "image", value_name = "NAME=FILE", value_parser = parse_pair)]
    images: Vec<(String, String)>,
    #[command(flatten)]
    wanted: Wanted,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let directory = Directory::open(&args.directory)?;
    let (path, text) = args.dockerfile()?;
    let arguments: BTreeMap<String, String> = args.arguments.iter().cloned().collect();
    // Mistakes are told before anything is sent.
    let parsed = Dockerfile::parse(&text).and_then(|file| file.plan(args.target.as_deref(), &arguments));
    parsed.map_err(|e| mistake(&e, &text))?;
    let credentials = args.login.credentials()?;
    let new = args.wanted.template(directory.template_name())?;
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
    args.wanted.build(new, uploads, start, context).await
}

impl Args {
    /// Where the Dockerfile is, and what it says.
    fn dockerfile(&self) -> Result<(PathBuf, String), Failure> {
        let path = match &self.file {
            None => self.directory.join("Dockerfile"),
            // From where the caller is; or else in the directory.
            Some(file) if file.exists() => file.clone(),
            Some(file) => self.directory.join(file),
        };
        let read = || -> std::io::Result<String> {
            let mut text = String::new();
            std::fs::File::open(&path)?.take(MAX_DOCKERFILE_BYTES as u64 + 1).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|e| {
            let failure = Failure::yours(format!("cannot read {}: {e}", path.display()));
            match e.kind() {
                std::io::ErrorKind::NotFound => {
                    failure.hint("`cabana template init` writes one to begin with; --file names another")
                }
                _ => failure,
            }
        })?;
        if text.len() > MAX_DOCKERFILE_BYTES {
            let most = MAX_DOCKERFILE_BYTES as u64;
            return Err(Failure::yours(format!("{} is larger than {}", path.display(), HumanBytes(most))));
        }
        Ok((path, text))
    }
}

/// What is wrong with the Dockerfile, with the line itself.
fn mistake(error: &DockerfileError, text: &str) -> Failure {
    match text.lines().nth(error.line.saturating_sub(1)) {
        Some(line) => Failure::yours(format!("{error}\n  {} | {}", error.line, clean(line))),
        None => Failure::yours(error.to_string()),
    }
}
