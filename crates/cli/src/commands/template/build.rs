//! `cabana template build`: from a Dockerfile to a template.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use cabana_client::{Client, Error};
use cabana_image::dockerfile::{Dockerfile, DockerfileError};
use cabana_types::limits::MAX_DOCKERFILE_BYTES;
use cabana_types::wire::{BuildStart, NewTemplate, RegistryCredentials, RequestedBuild};
use cabana_types::{Secret, env};
use futures_util::TryStreamExt;
use indicatif::HumanBytes;
use tokio_util::io::ReaderStream;

use super::context::{Directory, Packed, leave_out};
use super::watch::{self, Watch};
use crate::amount::{parse_mebibytes, parse_pair};
use crate::commands::Context;
use crate::connection::variable;
use crate::failure::{Failure, Outcome};
use crate::output::clean;
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  cabana template build                              the Dockerfile here; the directory's name
  cabana template build web --name web:v2 --tag stable
  cabana template build --file docker/ci.Dockerfile --target test --build-arg VERSION=3
  cabana template build --start 'python3 app.py' --ready 'curl -fs localhost:8000'
  cabana run --template $(cabana template build web) -- python3 -V
  pass show registry | cabana template build --registry-user me --registry-password-stdin

Without a tag the build is `default`, which is what NAME alone means; with tags it is only what they
say. What the build says goes to standard error. The last line, on standard output, names the build:
NAME:BUILD can be used wherever a template is named, and is this build for ever. Ctrl-C ends the build.

Files that .dockerignore names (or FILE.dockerignore, for that file alone) are not sent.";

/// Piece in which the archive is read.
const CHUNK: usize = 128 * 1024;
/// A password is one short line; more is not read.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// Build a template from a Dockerfile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory with the Dockerfile and the files that it copies
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// What to call the template [default: the directory's name]
    #[arg(long, value_name = "NAME[:TAG]")]
    name: Option<String>,
    /// Tag for the build; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
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
    /// Command that runs in every sandbox, for a shell [default: the Dockerfile's CMD]
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// Command that succeeds when a sandbox is ready [default: the Dockerfile's HEALTHCHECK]
    #[arg(long, value_name = "COMMAND")]
    ready: Option<String>,
    /// Virtual CPUs of its sandboxes and steps [default: the server's]
    #[arg(long, value_name = "COUNT")]
    cpu: Option<i64>,
    /// Memory in MiB, or with a unit: 512, 2G [default: the server's]
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    memory: Option<i64>,
    /// Disk in MiB, or with a unit [default: the server's]
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    disk: Option<i64>,
    /// User for the registry of its images; the password is in CABANA_REGISTRY_PASSWORD
    #[arg(long, value_name = "USER")]
    registry_user: Option<String>,
    /// Read the password from standard input instead
    #[arg(long, requires = "registry_user")]
    registry_password_stdin: bool,
    /// Return when the build has begun; `cabana template logs` shows it
    #[arg(short, long)]
    detach: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let directory = Directory::open(&args.directory)?;
    let (path, text) = args.dockerfile()?;
    let arguments: BTreeMap<String, String> = args.arguments.iter().cloned().collect();
    // Mistakes are told before anything is sent.
    let parsed = Dockerfile::parse(&text).and_then(|file| file.plan(args.target.as_deref(), &arguments));
    parsed.map_err(|e| mistake(&e, &text))?;
    let credentials = args.credentials()?;
    let client = context.client()?;
    let new = NewTemplate {
        name: Some(args.template_name(&directory)?),
        tags: (!args.tags.is_empty()).then(|| args.tags.clone()),
        cpu_count: args.cpu,
        memory_mb: args.memory,
        min_free_disk_mb: args.disk,
        ..Default::default()
    };
    let ignore = directory.ignore(&path)?;
    let packed = tokio::task::spawn_blocking(move || directory.pack(&ignore)).await??;

    let mut signals = Signals::catch()?;
    let build = client.request_build(&new).await?;
    let start = BuildStart {
        from_image_registry: credentials,
        start_cmd: args.start,
        ready_cmd: args.ready,
        force: args.no_cache.then_some(true),
        dockerfile: Some(text),
        context: packed.as_ref().map(|packed| packed.hash.clone()),
        target: args.target,
        build_args: (!arguments.is_empty()).then_some(arguments),
        ..Default::default()
    };
    let work = async {
        if let Err(failure) = begin(&client, &build, packed, &start, context).await {
            // Nobody else would: it would wait for ever.
            let _ = client.cancel_build(&build.template_id, &build.build_id).await;
            return Err(failure);
        }
        if args.detach { Ok(()) } else { follow(&client, &build, context).await }
    };
    tokio::select! {
        ended = work => ended?,
        signal = signals.recv() => {
            // A second one ends us while we ask.
            tokio::select! {
                ended = client.cancel_build(&build.template_id, &build.build_id) => ended?,
                _ = signals.recv() => {}
            }
            context.out.say("the build was ended; steps that were finished are kept for the next");
            return Ok(128 + signal);
        }
    }
    if !args.detach {
        context.out.note(&format!("ready: cabana run --template {} -- …", used_as(&build)));
    }
    if args.json {
        context.out.json(&build)?;
    } else {
        context.out.line(&format!("{}:{}", name_of(&build), build.build_id))?;
    }
    Ok(0)
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

    fn template_name(&self, directory: &Directory) -> Result<String, Failure> {
        let missing = || Failure::yours("the directory has no name that a template could have").hint("give --name");
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => directory.template_name().ok_or_else(missing),
        }
    }

    /// For the registry. A password is never an argument, where every user of the machine could see it.
    fn credentials(&self) -> Result<Option<RegistryCredentials>, Failure> {
        let Some(user) = &self.registry_user else { return Ok(None) };
        let password = if self.registry_password_stdin {
            let mut text = String::new();
            std::io::stdin().lock().take(MAX_PASSWORD_BYTES).read_to_string(&mut text)?;
            Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty())
        } else {
            variable(env::REGISTRY_PASSWORD)
        };
        let missing = || {
            Failure::yours(format!("there is no password for {user}"))
                .hint("set CABANA_REGISTRY_PASSWORD, or pipe it in with --registry-password-stdin")
        };
        Ok(Some(RegistryCredentials {
            kind: "registry".to_owned(),
            username: Some(user.clone()),
            password: Some(Secret::new(password.ok_or_else(missing)?)),
            aws_access_key_id: None,
            aws_secret_access_key: None,
            aws_region: None,
            service_account_json: None,
        }))
    }
}

/// What is wrong with the Dockerfile, with the line itself.
fn mistake(error: &DockerfileError, text: &str) -> Failure {
    match text.lines().nth(error.line.saturating_sub(1)) {
        Some(line) => Failure::yours(format!("{error}\n  {} | {}", error.line, clean(line))),
        None => Failure::yours(error.to_string()),
    }
}

/// Sends what the build needs, and starts it.
async fn begin(
    client: &Client,
    build: &RequestedBuild,
    packed: Option<Packed>,
    start: &BuildStart,
    context: &Context,
) -> Result<(), Failure> {
    if let Some(packed) = packed {
        send(client, build, packed, context).await?;
    }
    Ok(client.start_build(&build.template_id, &build.build_id, start).await?)
}

/// Uploads the files, unless they are there.
async fn send(client: &Client, build: &RequestedBuild, packed: Packed, context: &Context) -> Result<(), Failure> {
    let Packed { file, length, hash, files, largest } = packed;
    let link = client.upload_link(&build.template_id, &hash).await?;
    let size = HumanBytes(length);
    if link.present {
        context.out.say(&format!("{files} files, {size}: there already"));
        return Ok(());
    }
    let url = link.url.ok_or_else(|| Failure::yours("the server does not say where to upload files"))?;
    context.out.say(&format!("{files} files, {size}: sending"));
    let bar = context.out.byte_bar(Some(length));
    let moving = bar.clone();
    let contents = ReaderStream::with_capacity(tokio::fs::File::from_std(file), CHUNK)
        .inspect_ok(move |chunk| moving.inc(chunk.len() as u64));
    let sent = client.upload(&url, contents, length).await;
    bar.finish_and_clear();
    sent.map_err(|e| match e {
        Error::Api { status: 413, .. } => Failure::from(e).hint(leave_out(&largest)),
        other => other.into(),
    })
}

/// Shows what the build says until it has ended.
async fn follow(client: &Client, build: &RequestedBuild, context: &Context) -> Result<(), Failure> {
    let watch = Watch { client, template: &build.template_id, build: &build.build_id };
    let show = |entry: &_| {
        watch::show(entry, &context.out);
        Ok(())
    };
    match watch.read(true, context, show).await?.reason {
        Some(reason) => Err(watch::failure(&reason)),
        None => Ok(()),
    }
}

fn name_of(build: &RequestedBuild) -> &str {
    build.aliases.first().map_or(build.template_id.as_str(), String::as_str)
}

/// The shortest name that means this build.
fn used_as(build: &RequestedBuild) -> String {
    match build.tags.iter().find(|tag| *tag != "default") {
        Some(tag) if !build.tags.iter().any(|tag| tag == "default") => format!("{}:{tag}", name_of(build)),
        _ => name_of(build).to_owned(),
    }
}
