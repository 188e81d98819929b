//! The base of a build: an image, a template, a sandbox's disk, or nothing.

use cabana_image::manifest::Defaults;
use cabana_image::registry::{Credentials, Event, Progress, PullLimits, Registry};
use cabana_image::sources::Base;
use cabana_image::unpack::Limits;
use cabana_image::{Digest, Image, Reference, layout};
use cabana_storage::Tree;
use cabana_storage::pack::Limits as PackLimits;
use cabana_store::{Boot, BuildStatus, Snapshot};
use cabana_types::{BuildId, TemplateId};
use tokio_util::sync::CancellationToken;

use super::build_task::BuildTask;
use super::failure::Failure;
use crate::failpoint;

/// The step name in the log.
pub(super) const BASE: &str = "base";
/// Images of this name are templates: `cabana/NAME`.
const OWN: &str = "cabana/";

/// The default `PATH` of templates.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Attempts for each part of an image, so that an unresponsive registry fails within a minute.
const ATTEMPTS: u32 = 3;

/// A tree and the cache key of everything that went into it.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// Its path.
    pub(super) tree: Tree,
    /// Its part in the cache keys of the steps that follow.
    pub(super) key: Digest,
}

impl Layer {
    /// The layer with this key.
    pub(super) fn of_key(key: Digest) -> Self {
        Self { tree: Tree::Layer(key.hex()), key }
    }

    /// A template's finished build.
    pub(super) fn build(build: &BuildId) -> Self {
        Self { tree: Tree::Build(build.clone()), key: Digest::of(format!("build {build}").as_bytes()) }
    }

    /// A snapshot of a sandbox's disk, merged with its template.
    pub(super) fn disk(copy: &TemplateId) -> Self {
        Self::of_key(Digest::of(format!("disk {copy}").as_bytes()))
    }
}

/// A base and its image configuration.
#[derive(Debug, Clone)]
pub(super) struct ResolvedBase {
    pub(super) layer: Layer,
    pub(super) defaults: Defaults,
    /// Whether it is a template of this server, which has all that sandboxes need.
    pub(super) is_template: bool,
}

impl BuildTask {
    /// The base of this name.
    pub(super) async fn begin(&self, name: &str, credentials: Option<&Credentials>) -> Result<ResolvedBase, Failure> {
        let wrong = |error: cabana_image::Error| Failure::image(BASE, &error);
        if let Some(archive) = self.spec.uploaded_image(name) {
            return self.begin_with_uploaded_image(name, archive).await;
        }
        if let Some(template) = name.strip_prefix(OWN) {
            return self.begin_with_template(template).await;
        }
        match self.builds.sources.resolve(name).map_err(wrong)? {
            Base::Template(template) => self.begin_with_template(&template).await,
            Base::Image(reference) => self.begin_with_image(&reference, credentials).await,
        }
    }

    /// An empty base.
    pub(super) async fn begin_with_nothing(&self) -> Result<ResolvedBase, Failure> {
        let layer = Layer::of_key(Digest::of(b"scratch"));
        if !self.pool.has_tree(&layer.tree).await {
            let failed = |error: cabana_storage::Error| Failure::storage(BASE, &error);
            self.pool.begin_layer(&layer.key.hex(), None, 0).await.map_err(failed)?.commit().await.map_err(failed)?;
        }
        self.used(&layer);
        Ok(ResolvedBase { layer, defaults: Defaults::default(), is_template: false })
    }

    /// A finished build.
    pub(super) fn begin_with_build(&self, build: &BuildId, boot: &Boot) -> ResolvedBase {
        let mut env = boot.env.clone();
        env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
        let defaults = Defaults {
            user: boot.default_user.clone(),
            working_dir: boot.default_workdir.clone().unwrap_or_default(),
            env: env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            entrypoint: boot.start.clone().unwrap_or_default(),
            healthcheck: boot.ready.clone().unwrap_or_default(),
            ..Defaults::default()
        };
        ResolvedBase { layer: Layer::build(build), defaults, is_template: true }
    }

    /// A snapshot of a sandbox's disk: merged into one tree as the sandbox saw it.
    pub(super) async fn begin_with_disk(&self, copy: &Snapshot) -> Result<ResolvedBase, Failure> {
        self.log.info(BASE, format!("FROM the disk of sandbox {}", copy.sandbox));
        let layer = Layer::disk(&copy.id);
        if !self.pool.has_tree(&layer.tree).await {
            let cancel = CancellationToken::new();
            // Cancelling the build drops this.
            let _ends = cancel.clone().drop_guard();
            let limits = PackLimits { bytes: self.disk_bytes(), ..PackLimits::default() };
            let key = layer.key.hex();
            let merged = self.pool.layer_from_snapshot(&copy.id, &copy.build, &key, limits, &cancel).await;
            let merged = merged.map_err(|error| Failure::storage(BASE, &error))?;
            failpoint::hit("build.merged");
            if merged.skipped > 0 {
                let names = merged.skipped_paths.join(", ");
                self.log.warn(BASE, format!("left out {} sockets and devices: {names}", merged.skipped));
            }
        }
        if self.spec.lent().is_none() {
            self.used(&layer);
        }
        Ok(ResolvedBase { layer, ..self.begin_with_build(&copy.build, &copy.boot) })
    }

    async fn begin_with_template(&self, name: &str) -> Result<ResolvedBase, Failure> {
        let (alias, tag) = name.split_once(':').unwrap_or((name, "default"));
        let store = &self.builds.store;
        let failed = |error: cabana_store::Error| Failure::store(BASE, &error);
        let missing = || {
            Failure::new(BASE, format!("there is no template {:?} with a finished build", super::failure::short(name)))
        };
        let team = &self.spec.team;
        // The team's own snapshots have priority, as everywhere: a name must not silently refer to another team's
        // template.
        if tag == "default"
            && let Some(snapshot) = store.snapshot_by_id_or_name(team, alias).await.map_err(failed)?
        {
            return self.begin_with_disk(&snapshot).await;
        }
        let template = store.template_by_alias(team, None, alias).await.map_err(failed)?.ok_or_else(missing)?;
        let build = match tag {
            "default" => template.build,
            tag => store.tagged(&template.id, tag).await.map_err(failed)?,
        };
        let build = build.filter(|build| build.status == BuildStatus::Ready).ok_or_else(missing)?;
        self.log.info(BASE, format!("FROM the template {name}, build {}", build.id));
        Ok(self.begin_with_build(&build.id, &build.boot))
    }

    async fn begin_with_image(
        &self,
        reference: &Reference,
        credentials: Option<&Credentials>,
    ) -> Result<ResolvedBase, Failure> {
        let wrong = |error: cabana_image::Error| Failure::image(BASE, &error);
        self.log.info(BASE, format!("FROM {reference}"));
        let registry = Registry::new(self.builds.sources.clone(), self.builds.timeouts.clone());
        let (log, name) = (self.log.clone(), reference.to_string());
        let progress = Progress::new(move |event| match event {
            Event::Resolved { digest, layers, bytes } => {
                log.info(BASE, format!("{name} is {digest}: {layers} layers, {} MB", bytes / 1_000_000));
            }
            Event::Blob { digest, done, total } if done == total => {
                log.info(BASE, format!("layer {} is there", &digest.hex()[..12]));
            }
            Event::Blob { .. } => {}
            Event::Retry { what, reason } => log.warn(BASE, format!("trying {what} again: {reason}")),
        });
        let total = self.disk_bytes();
        let limits = PullLimits { total, time: self.time_left(), attempts: ATTEMPTS, ..PullLimits::default() };
        let image =
            registry.pull(reference, credentials, &self.builds.blobs, &limits, &progress).await.map_err(wrong)?;
        self.begin_with(image).await
    }

    async fn begin_with_uploaded_image(&self, name: &str, archive: &str) -> Result<ResolvedBase, Failure> {
        self.log.info(BASE, format!("FROM {name}, which was uploaded"));
        let file = self.builds.files.path(&self.spec.team, archive);
        let (name, blobs, stop) = (name.to_owned(), self.builds.blobs.clone(), self.stop.clone());
        let most = self.disk_bytes();
        let image = self.blocking(BASE, move || layout::import(&file, Some(&name), &blobs, most, &stop)).await?;
        self.begin_with(image).await
    }

    /// An image whose layers are in the cache.
    async fn begin_with(&self, image: Image) -> Result<ResolvedBase, Failure> {
        let defaults = image.config.config.clone();
        let layer = Layer::of_key(Digest::of(format!("image {}", image.digest).as_bytes()));
        self.remember_image(image.digest);
        if !self.pool.has_tree(&layer.tree).await {
            self.assemble(image, &layer).await?;
        }
        self.used(&layer);
        Ok(ResolvedBase { layer, defaults, is_template: false })
    }

    async fn assemble(&self, image: Image, layer: &Layer) -> Result<(), Failure> {
        let failed = |error: cabana_storage::Error| Failure::storage(BASE, &error);
        let new = self.pool.begin_layer(&layer.key.hex(), None, self.disk_bytes()).await.map_err(failed)?;
        let root = new.open().map_err(failed)?;
        let (log, stop, limits) = (self.log.clone(), self.stop.clone(), self.unpack_limits());
        let assembled = self
            .blocking(BASE, move || {
                let layers = image.layers.len();
                let each = |layer: usize| log.info(BASE, format!("unpacking layer {} of {layers}", layer + 1));
                image.assemble(std::os::fd::AsFd::as_fd(&root), &limits, &stop, each)
            })
            .await?;
        for note in assembled.notes {
            self.log.warn(BASE, note);
        }
        new.commit().await.map_err(failed)
    }

    /// Limit on the unpacked size: the size of the template's disk.
    pub(super) fn unpack_limits(&self) -> Limits {
        Limits { bytes: self.disk_bytes(), space: self.pool.space_inside().clone(), ..Limits::default() }
    }

    /// The size of the template's disk, which bounds everything that a build unpacks.
    pub(super) fn disk_bytes(&self) -> u64 {
        u64::from(self.spec.resources.disk_mb) << 20
    }
}
