//! What can be done with a server from inside its program while it runs.

use std::borrow::Cow;
use std::sync::Arc;

use cabana_store::{Boot, BuildStatus, ProvidedTemplate};
use cabana_types::{BuildId, Resources, Secret, TemplateId};
use jiff::Timestamp;

use super::Server;
use crate::api::App;
use crate::auth::FIRST_TEAM;
use crate::error::Error;

impl Server {
    /// Puts this program into the template of the code interpreter.
    #[must_use]
    pub fn with_interpreter(self, program: Cow<'static, [u8]>) -> Self {
        self.app.gallery.provide(program);
        self
    }
}

/// A template whose root filesystem is built outside of the server.
#[derive(Debug, Clone)]
pub struct TemplateSpec {
    /// Its alias, `base`.
    pub alias: String,
    /// The build that holds its root filesystem.
    pub build: BuildId,
    /// Whether that is finished.
    pub ready: bool,
    /// Default resources of its sandboxes.
    pub resources: Resources,
    /// Boot settings of its sandboxes.
    pub boot: Boot,
}

/// Registers templates.
#[derive(Debug, Clone)]
pub struct Templates {
    app: Arc<App>,
}

impl Templates {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app }
    }

    /// The finished build of a template of the first team, if there is one.
    pub async fn build_of(&self, alias: &str) -> Result<Option<BuildId>, Error> {
        let team = first_team();
        let template = self.app.store.template_by_alias(&team, None, alias).await?;
        let build = template.and_then(|t| t.build).filter(|b| b.status == BuildStatus::Ready);
        Ok(build.map(|b| b.id))
    }

    /// Registers a template of the first team that every team may use. With `ready: false` it is still being built, and
    /// creations fail with a message to wait. Such a build never replaces a finished one.
    pub async fn ensure(&self, spec: TemplateSpec) -> Result<TemplateId, Error> {
        let given = ProvidedTemplate {
            id: TemplateId::from_random(rand::random()),
            team: first_team(),
            alias: spec.alias,
            public: true,
            build: spec.build,
            ready: spec.ready,
            resources: spec.resources,
            boot: spec.boot,
            at: Timestamp::now(),
        };
        Ok(self.app.store.ensure_template(given).await?)
    }
}

/// Makes links that sign in to the console.
#[derive(Debug, Clone)]
pub struct SignInLinks {
    app: Arc<App>,
}

impl SignInLinks {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app }
    }

    /// A link that signs the first admin in, once, within ten minutes.
    pub async fn make(&self) -> Result<Secret, Error> {
        Ok(self.app.sign_in_code().await?.url)
    }
}

/// The team of the templates that the server provides.
pub(crate) fn first_team() -> cabana_types::TeamId {
    FIRST_TEAM.parse().expect("the first team's id is a valid one")
}
