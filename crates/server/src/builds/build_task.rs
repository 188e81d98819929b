//! One build, from its specification to a root filesystem.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cabana_image::dockerfile::{Action, CopyFrom, Dockerfile, Evaluated, Plan, StageBase};
use cabana_image::manifest::Defaults;
use cabana_image::registry::Credentials;
use cabana_image::{Digest, Stop};
use cabana_storage::Pool;
use cabana_store::{Boot, CacheKey, CacheKind};
use futures_util::future::try_join_all;
use tokio::sync::watch;

use super::base::{BASE, Layer, ResolvedBase};
use super::copying::Files;
use super::failure::Failure;
use super::log::Log;
use super::spec::{BuildSpec, Origin, Recipe};
use super::{Builds, e2b_steps};

/// A build in progress.
pub(super) struct BuildTask {
    pub(super) builds: Arc<Builds>,
    pub(super) pool: Arc<Pool>,
    pub(super) spec: BuildSpec,
    pub(super) log: Log,
    pub(super) stop: Stop,
    pub(super) until: Instant,
    /// The entries of the build cache that it used.
    used: Mutex<HashSet<CacheKey>>,
}

/// The result of a build.
pub(super) struct BuildOutput {
    pub(super) layer: Layer,
    pub(super) boot: Boot,
}

impl BuildTask {
    pub(super) fn new(builds: Arc<Builds>, pool: Arc<Pool>, spec: BuildSpec, time: Duration) -> Self {
        let log = Log::new(builds.store.clone(), spec.build.clone());
        let until = Instant::now() + time;
        Self { builds, pool, spec, log, stop: Stop::after(time), until, used: Mutex::default() }
    }

    pub(super) fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub(super) fn used(&self, layer: &Layer) {
        self.note_use(CacheKey::new(CacheKind::Layer, layer.key.hex()));
    }

    pub(super) fn remember_image(&self, digest: Digest) {
        self.note_use(CacheKey::new(CacheKind::Image, digest.hex()));
    }

    pub(super) fn note_use(&self, key: CacheKey) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    pub(super) fn take_used(&self) -> Vec<CacheKey> {
        std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }

    /// Runs blocking work on images and files; `label` is the step to blame for an error.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        label: &str,
        work: impl FnOnce() -> Result<T, cabana_image::Error> + Send + 'static,
    ) -> Result<T, Failure> {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| Failure::image(label, &error)),
            Err(_) => Err(Failure::new(label, "the server failed")),
        }
    }

    /// Runs the specification.
    pub(super) async fn make(&self) -> Result<BuildOutput, Failure> {
        let mut made = match &self.spec.recipe {
            Recipe::Steps { from, steps } => self.make_of_steps(from, steps).await?,
            Recipe::Dockerfile { text, context, target, arguments, credentials } => {
                self.make_of_dockerfile(text, context.as_deref(), target.as_deref(), arguments, credentials.as_ref())
                    .await?
            }
        };
        if let Some(start) = &self.spec.start {
            made.boot.start = Some(e2b_steps::shell(start));
        }
        if let Some(ready) = &self.spec.ready {
            made.boot.ready = Some(e2b_steps::shell(ready));
        }
        Ok(made)
    }

    async fn make_of_steps(
        &self,
        from: &Origin,
        list: &[cabana_types::wire::TemplateStep],
    ) -> Result<BuildOutput, Failure> {
        let begun = match from {
            Origin::Build { build, boot } => self.begin_with_build(build, boot),
            Origin::Image { name, credentials } => self.begin(name, credentials.as_ref()).await?,
            Origin::Disk { copy, .. } => self.begin_with_disk(copy).await?,
        };
        let mut layer = begun.layer.clone();
        let mut boot = boot_of(&begun.defaults);
        if !begun.is_template {
            // The image's own start command is not used for templates.
            boot = Boot {
                default_user: e2b_steps::USER.to_owned(),
                default_workdir: None,
                start: None,
                ready: None,
                ..boot
            };
            layer = self.prepare(layer).await?;
        }
        let (translated, boot) = e2b_steps::translate(&boot, list)?;
        let count = list.len();
        let mut force = self.spec.force;
        for translated in translated {
            force |= translated.force;
            let files = match &translated.files {
                Some(hash) => Some(Arc::new(self.uploaded(hash, &translated.number).await?)),
                None => None,
            };
            let position = format!("{}/{count}", translated.number);
            layer = self.run_step(layer, &translated.step, files, force, &translated.number, &position).await?;
        }
        Ok(BuildOutput { layer, boot })
    }

    /// Adds what sandboxes need to an image.
    async fn prepare(&self, layer: Layer) -> Result<Layer, Failure> {
        let step = cabana_image::dockerfile::Step {
            line: 0,
            text: "prepare the image: the user \"user\" and its home".to_owned(),
            action: Action::Run(["/bin/sh", "-c", e2b_steps::PREPARE].map(str::to_owned).to_vec()),
            environment: BTreeMap::new(),
            user: "root".to_owned(),
            directory: "/".to_owned(),
        };
        self.run_step(layer, &step, None, false, BASE, "1/1").await
    }

    async fn uploaded(&self, hash: &str, label: &str) -> Result<Files, Failure> {
        let missing = |error: std::io::Error| {
            Failure::new(label, format!("the uploaded files {hash:.80} cannot be read: {error}"))
        };
        let archive = self.builds.files.read(&self.spec.team, hash).map_err(missing)?;
        let failed = |error: cabana_storage::Error| Failure::storage(label, &error);
        let scratch = self.pool.begin_scratch(self.disk_bytes()).await.map_err(failed)?;
        let root = scratch.open().map_err(failed)?;
        let (limits, stop) = (self.unpack_limits(), self.stop.clone());
        self.blocking(label, move || Files::of_archive(archive, (scratch, root), &limits, &stop)).await
    }

    async fn make_of_dockerfile(
        &self,
        text: &str,
        context: Option<&str>,
        target: Option<&str>,
        arguments: &BTreeMap<String, String>,
        credentials: Option<&Credentials>,
    ) -> Result<BuildOutput, Failure> {
        let plan = Dockerfile::parse(text).and_then(|file| file.plan(target, arguments))?;
        for note in &plan.notes {
            self.log.warn(BASE, format!("Dockerfile line {}: {}", note.line, note.text));
        }
        let context = match context {
            Some(hash) => Arc::new(self.uploaded(hash, BASE).await?),
            None => self.files_of(&self.begin_with_nothing().await?.layer, BASE).await?,
        };
        let mut bases = self.bases(&plan, credentials).await?;
        for base in bases.values_mut().filter(|base| base.is_template) {
            // Like Docker: steps run as root and in `/` until the Dockerfile changes that.
            base.defaults.user.clear();
            base.defaults.working_dir.clear();
        }
        let evaluated = plan.evaluate_all(|name| match bases.get(name) {
            Some(begun) => Ok(begun.defaults.clone()),
            None => Err(Failure::new(BASE, format!("{name} was not pulled"))),
        });
        let evaluated = evaluated?;
        let layer = self.stages(&plan, &evaluated, &bases, context).await?;
        let last = evaluated.last().map(|stage| stage.defaults.clone()).unwrap_or_default();
        let inherited = match root_image(&plan, plan.stages.len().saturating_sub(1)) {
            Some(image) => bases.get(image).filter(|base| !base.is_template).map(|base| &base.defaults),
            None => None,
        };
        let mut boot = boot_of(&last);
        // The command and health check of the base image (a shell, an interpreter) are ignored unless the Dockerfile
        // sets them.
        if let Some(image) = inherited
            && (&image.entrypoint, &image.cmd) == (&last.entrypoint, &last.cmd)
        {
            boot.start = None;
            if image.healthcheck == last.healthcheck {
                boot.ready = None;
            }
        }
        Ok(BuildOutput { layer, boot })
    }

    /// All bases and copy sources of the stages, by name.
    async fn bases(
        &self,
        plan: &Plan,
        credentials: Option<&Credentials>,
    ) -> Result<BTreeMap<String, ResolvedBase>, Failure> {
        let mut names: Vec<&str> = Vec::new();
        for stage in &plan.stages {
            if let StageBase::Image(name) = &stage.base {
                names.push(name);
            }
            names.extend(stage.images.iter().map(String::as_str));
        }
        names.sort_unstable();
        names.dedup();
        let begun = names
            .iter()
            .map(|name| async move { Ok::<_, Failure>((name.to_string(), self.begin(name, credentials).await?)) });
        Ok(try_join_all(begun).await?.into_iter().collect())
    }

    /// Builds all stages; independent ones run concurrently.
    async fn stages(
        &self,
        plan: &Plan,
        evaluated: &[Evaluated],
        bases: &BTreeMap<String, ResolvedBase>,
        context: Arc<Files>,
    ) -> Result<Layer, Failure> {
        let nothing = self.begin_with_nothing().await?.layer;
        let (done, seen): (Vec<_>, Vec<_>) = plan.stages.iter().map(|_| watch::channel(None::<Layer>)).unzip();
        let mut before = 0;
        let mut work = Vec::new();
        for ((number, stage), done) in plan.stages.iter().enumerate().zip(done) {
            let first = before;
            before += evaluated[number].steps.len();
            let (seen, context, nothing) = (&seen, Arc::clone(&context), &nothing);
            work.push(async move {
                let mut layer = match &stage.base {
                    StageBase::Scratch => nothing.clone(),
                    StageBase::Image(name) => base(bases, name)?.layer.clone(),
                    StageBase::Stage(place) => finished(seen, *place).await?,
                };
                for (step, count) in evaluated[number].steps.iter().zip(first + 1..) {
                    let label = count.to_string();
                    let files = match &step.action {
                        Action::Copy(copy) => Some(match &copy.from {
                            CopyFrom::Context => Arc::clone(&context),
                            CopyFrom::Stage(place) => self.files_of(&finished(seen, *place).await?, &label).await?,
                            CopyFrom::Image(name) => self.files_of(&base(bases, name)?.layer, &label).await?,
                        }),
                        _ => None,
                    };
                    let name = stage.name.as_deref().map(|name| format!("{name} ")).unwrap_or_default();
                    let position = format!("{name}{}/{}", count - first, evaluated[number].steps.len());
                    let taken = self.run_step(layer, step, files, self.spec.force, &label, &position).await;
                    layer = taken.map_err(|failure| Failure {
                        message: format!("Dockerfile line {}: {}", step.line, failure.message),
                        ..failure
                    })?;
                }
                done.send_replace(Some(layer.clone()));
                Ok::<_, Failure>(layer)
            });
        }
        let mut layers = try_join_all(work).await?;
        layers.pop().ok_or_else(|| Failure::new(BASE, "the Dockerfile has no stage"))
    }

    async fn files_of(&self, layer: &Layer, label: &str) -> Result<Arc<Files>, Failure> {
        let root = self.pool.read_tree(&layer.tree).await.map_err(|error| Failure::storage(label, &error))?;
        let stop = self.stop.clone();
        self.blocking(label, move || Files::of_tree(root.as_fd(), &stop)).await.map(Arc::new)
    }
}

fn base<'a>(bases: &'a BTreeMap<String, ResolvedBase>, name: &str) -> Result<&'a ResolvedBase, Failure> {
    bases.get(name).ok_or_else(|| Failure::new(BASE, format!("{name} was not pulled")))
}

/// The result of a stage, once it has finished.
async fn finished(seen: &[watch::Receiver<Option<Layer>>], place: usize) -> Result<Layer, Failure> {
    let lost = || Failure::new(BASE, "a stage that another one needs was not built");
    let mut seen = seen.get(place).ok_or_else(lost)?.clone();
    let layer = seen.wait_for(Option::is_some).await.map_err(|_| lost())?.clone();
    layer.ok_or_else(lost)
}

/// The image that a stage is ultimately based on.
fn root_image(plan: &Plan, stage: usize) -> Option<&str> {
    match &plan.stages.get(stage)?.base {
        StageBase::Image(name) => Some(name),
        StageBase::Scratch => None,
        StageBase::Stage(place) if *place < stage => root_image(plan, *place),
        StageBase::Stage(_) => None,
    }
}

/// The boot configuration of sandboxes, from an image's configuration.
fn boot_of(defaults: &Defaults) -> Boot {
    let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
    Boot {
        default_user: if defaults.user.is_empty() { "root".to_owned() } else { defaults.user.clone() },
        default_workdir: Some(defaults.working_dir.clone()).filter(|directory| !directory.is_empty()),
        env: defaults.environment(),
        start: some([&defaults.entrypoint[..], &defaults.cmd[..]].concat()),
        ready: some(defaults.healthcheck.clone()),
        no_new_privileges: false,
    }
}
