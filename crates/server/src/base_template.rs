//! The template `base`: built at the first start, and rebuilt when its recipe has changed.
//!
//! A file in the data directory names its build before it is built. So a start that was interrupted is continued by the
//! next one: the build is complete in the pool, or it is not there.

use std::path::Path;

use cabana_image::debian;
use cabana_storage::Pool;
use cabana_store::Boot;
use cabana_types::limits::PIDS;
use cabana_types::{BuildId, Resources};

use crate::config::Config;
use crate::error::Error;
use crate::server::{TemplateSpec, Templates};

pub use cabana_image::debian::Progress;

const ALIAS: &str = "base";
const DEFAULT_USER: &str = "user";
/// The file that names the recipe and the build.
const FILE: &str = "base-build";

/// The template `base` of one server.
#[derive(Debug)]
pub(crate) struct BaseTemplate {
    pool: Pool,
    templates: Templates,
    spec: TemplateSpec,
    /// Whether new sandboxes have an earlier build to start from.
    has_earlier: bool,
}

impl BaseTemplate {
    /// Finds out which build it is and whether it exists, and registers or announces the template.
    pub(crate) async fn open(config: &Config, pool: &Pool, templates: Templates) -> Result<Self, Error> {
        let build = chosen_build(&config.data_dir.join(FILE))?;
        let ready = pool.open_build(&build)?.is_some();
        let has_earlier = match templates.build_of(ALIAS).await? {
            Some(earlier) => pool.open_build(&earlier)?.is_some(),
            None => false,
        };
        let limits = &config.limits;
        let spec = TemplateSpec {
            alias: ALIAS.to_owned(),
            build,
            ready,
            resources: Resources {
                cpu_count: limits.cpu_count,
                memory_mb: limits.memory_mb,
                disk_mb: limits.disk_mb,
                pids: PIDS,
            },
            boot: Boot {
                default_user: DEFAULT_USER.to_owned(),
                env: debian::ENVIRONMENT
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                ..Boot::default()
            },
        };
        templates.ensure(spec.clone()).await?;
        Ok(Self { pool: pool.clone(), templates, spec, has_earlier })
    }

    /// Whether there is nothing to build.
    pub(crate) fn is_ready(&self) -> bool {
        self.spec.ready
    }

    /// Builds it. Fails only if there is no earlier build to use instead.
    pub(crate) async fn build(&self, progress: impl Fn(Progress) + Send) -> Result<(), Error> {
        match self.install(progress).await {
            Ok(()) => {
                self.templates.ensure(TemplateSpec { ready: true, ..self.spec.clone() }).await?;
                Ok(())
            }
            Err(error) if self.has_earlier => {
                let error = cabana_types::error::chain(&*error);
                tracing::warn!(error, "the template base could not be rebuilt; the earlier build stays");
                Ok(())
            }
            Err(error) => Err(Error::BaseTemplate(error)),
        }
    }

    async fn install(
        &self,
        progress: impl Fn(Progress) + Send,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let new = self.pool.begin_build(&self.spec.build).await?;
        let new = debian::Base::default().install(new.rootfs().to_owned(), new, progress).await?;
        Ok(new.commit().await?)
    }
}

/// The build of the current recipe: the one that was chosen before, or a new one.
fn chosen_build(path: &Path) -> Result<BuildId, Error> {
    let failed = |action| move |source| Error::Path { action, path: path.to_owned(), source };
    let before = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(failed("read")(e)),
    };
    if let Some((recipe, build)) = before.trim().split_once(' ')
        && recipe == debian::RECIPE.to_string()
        && let Ok(build) = build.parse()
    {
        return Ok(build);
    }
    let build = BuildId::from_random(rand::random());
    let line = format!("{} {build}\n", debian::RECIPE);
    cabana_fs::atomic::write(path, line.as_bytes(), 0o644).map_err(failed("write"))?;
    Ok(build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_chosen_once_for_each_recipe() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("base-build");
        let first = chosen_build(&path).expect("first");
        assert_eq!(chosen_build(&path).expect("again"), first);
        for other in [format!("{} {first}", debian::RECIPE + 1), "nonsense".to_owned(), String::new()] {
            std::fs::write(&path, other).expect("write");
            assert_ne!(chosen_build(&path).expect("new"), first);
        }
    }
}
