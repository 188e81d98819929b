//! The specification of a build, checked as far as possible before the start.

use std::collections::BTreeMap;

use cabana_image::Reference;
use cabana_image::registry::Credentials;
use cabana_store::{Boot, Snapshot};
use cabana_types::wire::TemplateStep;
use cabana_types::{BuildId, Resources, TeamId, TemplateId};

/// A build to run.
#[derive(Debug)]
pub struct BuildSpec {
    /// The team that owns it.
    pub team: TeamId,
    /// The template.
    pub template: TemplateId,
    /// The build, which waits in the store.
    pub build: BuildId,
    /// Resources of its steps and sandboxes.
    pub resources: Resources,
    /// What to do.
    pub recipe: Recipe,
    /// Archives of uploaded images, by image name.
    pub images: BTreeMap<String, String>,
    /// The start command, for a shell. Absent: the Dockerfile's.
    pub start: Option<String>,
    /// The ready check, for a shell. Absent: the Dockerfile's.
    pub ready: Option<String>,
    /// Whether to ignore the cache.
    pub force: bool,
}

impl BuildSpec {
    /// The snapshot that was made for this build only.
    pub(super) fn lent(&self) -> Option<&Snapshot> {
        match &self.recipe {
            Recipe::Steps { from: Origin::Disk { copy, lent: true }, .. } => Some(copy),
            _ => None,
        }
    }

    /// The archive of an uploaded image, by any spelling of its name.
    pub(super) fn uploaded_image(&self, name: &str) -> Option<&str> {
        let wanted: Reference = name.parse().ok()?;
        let mut images = self.images.iter();
        let (_, archive) = images.find(|(known, _)| known.parse::<Reference>().is_ok_and(|known| known == wanted))?;
        Some(archive)
    }
}

/// What to do.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one value per build")]
pub enum Recipe {
    /// E2B's steps.
    Steps {
        /// The base.
        from: Origin,
        /// In order.
        steps: Vec<TemplateStep>,
    },
    /// A Dockerfile.
    Dockerfile {
        /// Its text.
        text: String,
        /// The uploaded archive of its context, if it has one.
        context: Option<String>,
        /// The stage to build. Absent: the last one.
        target: Option<String>,
        /// `ARG`s.
        arguments: BTreeMap<String, String>,
        /// Credentials for the images that it names.
        credentials: Option<Credentials>,
    },
}

/// The base of the steps.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one value per build")]
pub enum Origin {
    /// An image, by its name.
    Image {
        /// As the client spelled it.
        name: String,
        /// Credentials for its registry.
        credentials: Option<Credentials>,
    },
    /// A finished build of a template.
    Build {
        /// The build.
        build: BuildId,
        /// Its boot configuration.
        boot: Boot,
    },
    /// A snapshot of a sandbox's disk.
    Disk {
        /// The snapshot.
        copy: Snapshot,
        /// Whether it was made for this build only, and is removed afterwards.
        lent: bool,
    },
}
