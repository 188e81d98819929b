//! Requests a build and follows it: shared by all commands that create a template.

use cabana_client::{Client, Error};
use cabana_types::wire::{BuildStart, NewTemplate, RequestedBuild};
use futures_util::TryStreamExt;
use indicatif::HumanBytes;
use tokio_util::io::ReaderStream;

use super::upload::Upload;
use super::watch::{self, Watch};
use crate::amount::parse_mebibytes;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;

/// Chunk size for reading an archive.
const CHUNK: usize = 128 * 1024;

/// Options of a new template.
#[derive(Debug, clap::Args)]
pub(super) struct TemplateArgs {
    /// Name of the template [default: the name of the directory, file or image]
    #[arg(long, value_name = "NAME[:TAG]")]
    name: Option<String>,
    /// Tag for the build; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Shell command that runs in every sandbox
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// Command that succeeds when a sandbox is ready
    #[arg(long, value_name = "COMMAND")]
    ready: Option<String>,
    /// Virtual CPUs of its sandboxes and build steps [default: the server's]
    #[arg(long, value_name = "COUNT")]
    cpu: Option<i64>,
    /// Memory in MiB, or with a unit: 512, 2G [default: the server's]
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    memory: Option<i64>,
    /// Disk in MiB, or with a unit [default: the server's]
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    disk: Option<i64>,
    /// Return when the build has started; `cabana template logs` shows its log
    #[arg(short, long)]
    detach: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl TemplateArgs {
    /// The request to the server. `found` is the default name.
    pub(super) fn template(&self, found: Option<String>) -> Result<NewTemplate, Failure> {
        let missing = || Failure::user_error("cannot derive a template name").hint("give --name");
        Ok(NewTemplate {
            name: Some(self.name.clone().or(found).ok_or_else(missing)?),
            tags: (!self.tags.is_empty()).then(|| self.tags.clone()),
            cpu_count: self.cpu,
            memory_mb: self.memory,
            min_free_disk_mb: self.disk,
            ..Default::default()
        })
    }

    /// Builds a template and prints the build's log until it has ended.
    pub(super) async fn build(
        self,
        new: NewTemplate,
        uploads: Vec<Upload>,
        start: BuildStart,
        context: &Context,
    ) -> Outcome {
        let client = context.client()?;
        let start = BuildStart { start_cmd: self.start, ready_cmd: self.ready, ..start };
        let mut signals = Signals::catch()?;
        let build = client.request_build(&new).await?;
        let work = async {
            if let Err(failure) = upload_and_start(&client, &build, uploads, &start, context).await {
                // Otherwise the build would wait for ever.
                let _ = client.cancel_build(&build.template_id, &build.build_id).await;
                return Err(failure);
            }
            if self.detach { Ok(()) } else { follow(&client, &build, context).await }
        };
        tokio::select! {
            ended = work => ended?,
            signal = signals.recv() => {
                // A second Ctrl-C exits while the build is being cancelled.
                tokio::select! {
                    ended = client.cancel_build(&build.template_id, &build.build_id) => ended?,
                    _ = signals.recv() => {}
                }
                context.out.say("the build was cancelled; finished steps stay cached");
                return Ok(128 + signal);
            }
        }
        if !self.detach {
            context.out.note(&format!("ready: cabana run --template {} -- …", shortest_name(&build)));
        }
        if self.json {
            context.out.json(&build)?;
        } else {
            context.out.line(&format!("{}:{}", name_of(&build), build.build_id))?;
        }
        Ok(0)
    }
}

/// Uploads what the build needs, and starts it.
async fn upload_and_start(
    client: &Client,
    build: &RequestedBuild,
    uploads: Vec<Upload>,
    start: &BuildStart,
    context: &Context,
) -> Result<(), Failure> {
    for upload in uploads {
        send(client, build, upload, context).await?;
    }
    Ok(client.start_build(&build.template_id, &build.build_id, start).await?)
}

/// Uploads an archive, unless the server has it.
async fn send(client: &Client, build: &RequestedBuild, upload: Upload, context: &Context) -> Result<(), Failure> {
    let Upload { file, length, hash, what, too_large_hint } = upload;
    let link = client.upload_link(&build.template_id, &hash).await?;
    let size = HumanBytes(length);
    if link.present {
        context.out.say(&format!("{what}, {size}: already uploaded"));
        return Ok(());
    }
    let url = link.url.ok_or_else(|| Failure::user_error("the server returned no upload URL"))?;
    context.out.say(&format!("{what}, {size}: uploading"));
    let bar = context.out.byte_bar(Some(length));
    let moving = bar.clone();
    let contents = ReaderStream::with_capacity(tokio::fs::File::from_std(file), CHUNK)
        .inspect_ok(move |chunk| moving.inc(chunk.len() as u64));
    let sent = client.upload(&url, contents, length).await;
    bar.finish_and_clear();
    sent.map_err(|e| match e {
        Error::Api { status: 413, .. } => Failure::from(e).hint(too_large_hint),
        other => other.into(),
    })
}

/// Prints the build's log until it has ended.
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

/// The shortest name of this build.
fn shortest_name(build: &RequestedBuild) -> String {
    match build.tags.iter().find(|tag| *tag != "default") {
        Some(tag) if !build.tags.iter().any(|tag| tag == "default") => format!("{}:{tag}", name_of(build)),
        _ => name_of(build).to_owned(),
    }
}
