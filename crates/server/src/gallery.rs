//! Curated templates: templates that this program knows how to build. One that is used for the first time is built then, for all teams. It
//! is a template of the first team.

mod cards;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cabana_store::{Build, BuildLimits, BuildRequest, BuildStatus, BuildTarget, Store, Template};
use cabana_types::limits::{MAX_BUILDS, MAX_TAGS, PIDS};
use cabana_types::quota::Limits;
use cabana_types::wire::CuratedTemplate;
use cabana_types::{BuildId, ProjectId, Resources, TeamId, TemplateId};
use futures_util::stream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::builds::{BuildSpec, Builds, ReceiveError, Recipe, StartError};
use crate::config::Config;
use crate::server::first_team;
pub(crate) use cards::Curated;

/// The setting that says which templates are curated.
const SETTING: &str = "gallery";
/// The tag of all builds.
const TAG: &str = "default";

/// The curated templates of a server.
#[derive(Debug)]
pub(crate) struct Gallery {
    store: Store,
    builds: Arc<Builds>,
    team: TeamId,
    quotas: Limits,
    disk_mb: u32,
    interpreter: OnceLock<Cow<'static, [u8]>>,
    /// Held while a build is requested, so that two creations do not both do it.
    requesting: Mutex<()>,
}

/// What is remembered of a curated template: its newest build, and what that was made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    template: TemplateId,
    build: BuildId,
    recipe: String,
}

/// What there is of a curated template.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing yet.
    Absent,
    /// Its first build, or another one.
    Building(Template, BuildId),
    /// It can be used.
    Ready(Template),
    /// It can be used; a new build would have changes.
    Outdated(Template),
    /// It cannot be used: its build failed.
    Failed(Template, Box<Build>),
    /// A template with this name has another origin.
    Taken,
}

/// Why a curated template was not built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GalleryError {
    /// There is a template of this name already.
    #[error("there is another template with this name")]
    Taken,
    /// This program was built without it.
    #[error("this program does not contain {}, which the template needs", cards::INTERPRETER)]
    NoInterpreter,
    /// The files could not be packed.
    #[error("its files could not be packed")]
    Pack(#[source] std::io::Error),
    /// The files could not be kept.
    #[error("its files could not be kept")]
    Receive(#[from] ReceiveError),
    /// The build could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl Gallery {
    /// The gallery of a server.
    pub(crate) fn new(store: &Store, builds: &Arc<Builds>, config: &Config) -> Self {
        Self {
            store: store.clone(),
            builds: Arc::clone(builds),
            team: first_team(),
            quotas: config.quotas(),
            disk_mb: config.limits.disk_mb,
            interpreter: OnceLock::new(),
            requesting: Mutex::default(),
        }
    }

    /// The program for the code interpreter's template, given once.
    pub(crate) fn provide(&self, interpreter: Cow<'static, [u8]>) {
        // A second one would be the same.
        let _ = self.interpreter.set(interpreter);
    }

    /// All curated templates with their states.
    pub(crate) async fn list(&self) -> Result<Vec<CuratedTemplate>, GalleryError> {
        let mut list = Vec::new();
        for curated in cards::all() {
            list.push(shown(curated, self.state(curated).await?));
        }
        Ok(list)
    }

    /// One of them.
    pub(crate) async fn get(&self, curated: &Curated) -> Result<CuratedTemplate, GalleryError> {
        Ok(shown(curated, self.state(curated).await?))
    }

    /// What there is of one.
    pub(crate) async fn state(&self, curated: &Curated) -> Result<State, GalleryError> {
        let known = self.known().await?;
        let found = self.store.template_by_alias(&self.team, None, curated.name).await?.filter(|t| t.team == self.team);
        let Some(template) = found else { return Ok(State::Absent) };
        let Some(known) = known.get(curated.name).filter(|known| known.template == template.id) else {
            return Ok(State::Taken);
        };
        if let Some((build, BuildStatus::Waiting | BuildStatus::Building)) = template.newest.clone() {
            return Ok(State::Building(template, build));
        }
        if let Some(ready) = template.build.as_ref().filter(|build| build.status == BuildStatus::Ready) {
            let recipe =
                curated.prepared(self.interpreter.get()).map_err(GalleryError::Pack)?.map(|(_, recipe)| recipe);
            let same = ready.id == known.build && recipe.is_none_or(|recipe| recipe == known.recipe);
            return Ok(if same { State::Ready(template) } else { State::Outdated(template) });
        }
        let build = match &template.newest {
            Some((build, _)) => self.store.build(build).await?,
            None => None,
        };
        Ok(build.map_or(State::Absent, |build| State::Failed(template, Box::new(build))))
    }

    /// Starts a build, unless one is in progress or nothing would change.
    pub(crate) async fn build(&self, curated: &Curated) -> Result<State, GalleryError> {
        let _alone = self.requesting.lock().await;
        let wanted = match self.state(curated).await? {
            State::Taken => return Err(GalleryError::Taken),
            State::Building(template, _) if matches!(template.newest, Some((_, BuildStatus::Waiting))) => {
                BuildTarget::Template(template.id)
            }
            state @ (State::Building(..) | State::Ready(_)) => return Ok(state),
            State::Absent => BuildTarget::Alias(curated.name.to_owned()),
            State::Outdated(template) | State::Failed(template, _) => BuildTarget::Template(template.id),
        };
        let prepared = curated.prepared(self.interpreter.get()).map_err(GalleryError::Pack)?;
        let (context, recipe) = prepared.ok_or(GalleryError::NoInterpreter)?;
        let build = BuildId::from_random(rand::random());
        let card = &curated.card;
        let resources =
            Resources { cpu_count: card.cpu_count, memory_mb: card.memory_mb, disk_mb: self.disk_mb, pids: PIDS };
        let request = BuildRequest {
            team: self.team.clone(),
            project: ProjectId::default_of(&self.team),
            projects: None,
            wanted,
            template: TemplateId::from_random(rand::random()),
            build: build.clone(),
            tags: vec![TAG.to_owned()],
            resources,
            at: Timestamp::now(),
        };
        let hash = cabana_image::Digest::of(&context).hex();
        let length = context.len() as u64;
        let body = stream::iter([Ok::<_, Infallible>(Bytes::from(context))]);
        self.builds.files().receive(&self.team, &hash, Some(length), body).await?;
        let limits = BuildLimits { server: self.quotas, builds: MAX_BUILDS, tags: MAX_TAGS };
        let template = self.store.request_build(request, limits).await?;
        self.store.set_public(template.clone(), true, Timestamp::now()).await?;
        let mut known = self.known().await?;
        known.insert(curated.name.to_owned(), Known { template: template.clone(), build: build.clone(), recipe });
        self.store.set_setting(SETTING, serde_json::to_string(&known).unwrap_or_default()).await?;
        let recipe = Recipe::Dockerfile {
            text: curated.dockerfile.to_owned(),
            context: Some(hash),
            target: None,
            arguments: BTreeMap::new(),
            credentials: None,
        };
        let spec = BuildSpec {
            team: self.team.clone(),
            template,
            build,
            resources,
            recipe,
            images: BTreeMap::new(),
            start: None,
            ready: None,
            force: false,
        };
        self.builds.start(spec).await?;
        tracing::info!(template = curated.name, "building a curated template");
        self.state(curated).await
    }

    async fn known(&self) -> Result<BTreeMap<String, Known>, GalleryError> {
        let text = self.store.setting(SETTING).await?.unwrap_or_default();
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

fn shown(curated: &Curated, state: State) -> CuratedTemplate {
    let (name, template, build, message) = match state {
        State::Absent => ("absent", None, None, None),
        State::Taken => ("taken", None, None, None),
        State::Building(template, build) => ("building", Some(template.id), Some(build), None),
        State::Ready(template) => ("ready", Some(template.id), template.build.map(|build| build.id), None),
        State::Outdated(template) => ("outdated", Some(template.id), template.build.map(|build| build.id), None),
        State::Failed(template, build) => ("failed", Some(template.id), Some(build.id), build.error),
    };
    let card = &curated.card;
    CuratedTemplate {
        name: curated.name.to_owned(),
        title: card.title.clone(),
        category: card.category.clone(),
        description: card.description.clone(),
        licence: card.licence.clone(),
        size_mb: card.size_mb,
        ports: card.ports.clone(),
        cpu_count: card.cpu_count,
        memory_mb: card.memory_mb,
        versions: card.versions.clone(),
        dockerfile: curated.dockerfile.to_owned(),
        state: name.to_owned(),
        template_id: template,
        build_id: build,
        message,
    }
}
