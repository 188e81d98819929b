//! The template `base`: made on the first start, and made anew when its recipe has changed.
//!
//! Which build it is stands in a file of the data directory before it is made. So a start that was cut off anywhere is gone on with: the
//! build either is in the pool, whole, or is not.

use std::path::PathBuf;

use cabana_image::debian::{self, Progress};
use cabana_server::{Boot, Config, TemplateSpec, Templates};
use cabana_storage::Pool;
use cabana_types::limits::PIDS;
use cabana_types::{BuildId, Resources};

use crate::failure::Failure;
use crate::output::Output;

const ALIAS: &str = "base";
const DEFAULT_USER: &str = "user";
/// Names the recipe and the build.
const FILE: &str = "base-build";

pub(super) struct Base {
    pool: Pool,
    templates: Templates,
    spec: TemplateSpec,
    /// Whether new sandboxes have an earlier build to start from.
    has_earlier: bool,
}

impl Base {
    /// Finds out what is there, and announces or registers the template.
    pub(super) async fn find(config: &Config, pool: &Pool, templates: Templates) -> Result<Self, Failure> {
        let build = chosen(config.data_dir.join(FILE))?;
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

    /// Makes it, if it is not there. Fails only if there is no earlier one to go on with.
    pub(super) async fn prepare(self, out: &Output) -> Result<(), Failure> {
        if self.spec.ready {
            return Ok(());
        }
        match self.build(out).await {
            Err(failure) if self.has_earlier => {
                let causes: Vec<_> = failure.chain().collect();
                tracing::warn!(
                    error = causes.join(": "),
                    "the template base could not be renewed; the earlier one stays"
                );
                Ok(())
            }
            result => result,
        }
    }

    async fn build(&self, out: &Output) -> Result<(), Failure> {
        out.say("preparing the template base from Debian packages; this takes some minutes, once");
        let bar = out.share_bar("template base");
        let show = |progress: Progress| {
            bar.show(thousandths(progress.fraction), &progress.phase.to_string());
        };
        let built = self.install(show).await;
        bar.finish();
        built.map_err(|failure| {
            failure
                .context("the template base could not be made")
                .hint("it needs mmdebstrap, a Debian mirror and a Python package index: `cabana doctor` checks the first, `apt-get update` the second; PIP_INDEX_URL names another index")
        })?;
        self.templates.ensure(TemplateSpec { ready: true, ..self.spec.clone() }).await?;
        Ok(())
    }

    async fn install(&self, show: impl Fn(Progress) + Send) -> Result<(), Failure> {
        let new = self.pool.begin_build(&self.spec.build).await?;
        let new = debian::Base::default().install(new.rootfs().to_owned(), new, show).await?;
        Ok(new.commit().await?)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
fn thousandths(fraction: f32) -> u64 {
    (fraction.clamp(0.0, 1.0) * 1000.0) as u64
}

/// The build of the current recipe: the one that was chosen before, or a new one.
fn chosen(path: PathBuf) -> Result<BuildId, Failure> {
    let describe = |e: std::io::Error| Failure::from(e).context(format!("cannot use {}", path.display()));
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(describe(e)),
    };
    if let Some((recipe, build)) = before.trim().split_once(' ')
        && recipe == debian::RECIPE.to_string()
        && let Ok(build) = build.parse()
    {
        return Ok(build);
    }
    let build = BuildId::from_random(rand::random());
    let line = format!("{} {build}\n", debian::RECIPE);
    cabana_fs::atomic::write(&path, line.as_bytes(), 0o644).map_err(describe)?;
    Ok(build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_chosen_once_for_each_recipe() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("base-build");
        let first = chosen(path.clone()).expect("first");
        assert_eq!(chosen(path.clone()).expect("again"), first);
        for other in [format!("{} {first}", debian::RECIPE + 1), "nonsense".to_owned(), String::new()] {
            std::fs::write(&path, other).expect("write");
            assert_ne!(chosen(path.clone()).expect("new"), first);
        }
    }

    #[test]
    fn shares() {
        assert_eq!(thousandths(0.0), 0);
        assert_eq!(thousandths(0.5), 500);
        assert_eq!(thousandths(7.0), 1000);
        assert_eq!(thousandths(f32::NAN), 0);
    }
}
