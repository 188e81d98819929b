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
    /// Whose it is.
    pub team: TeamId,
    /// The template.
    pub template: TemplateId,
    /// The build, which waits in the store.
    pub build: BuildId,
    /// What its steps may use, and its sandboxes get.
    pub resources: Resources,
    /// What to do.
    pub recipe: Recipe,
    /// Images that were uploaded, by name: the archive of each.
    pub images: BTreeMap<String, String>,
    /// The start command, for a shell; a Dockerfile's own where it is absent.
    pub start: Option<String>,
    /// The ready check, for a shell; a Dockerfile's own where it is absent.
    pub ready: Option<String>,
    /// Nothing is taken from the cache.
    pub force: bool,
}

impl BuildSpec {
    /// The copy of a disk that was made for this build alone.
    pub(super) fn lent(&self) -> Option<&Snapshot> {
        match &self.recipe {
            Recipe::Steps { from: Origin::Disk { copy, lent: true }, .. } => Some(copy),
            _ => None,
        }
    }

    /// The archive of an image that was uploaded, by any way to write its name.
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
        /// What they begin with.
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
        /// The stage to build; the last one where it is absent.
        target: Option<String>,
        /// `ARG`s.
        arguments: BTreeMap<String, String>,
        /// For the images that it names.
        credentials: Option<Credentials>,
    },
}

/// What steps begin with.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one value per build")]
pub enum Origin {
    /// An image, by its name.
    Image {
        /// As the client spelled it.
        name: String,
        /// For its registry.
        credentials: Option<Credentials>,
    },
    /// A finished build of a template.
    Build {
        /// The build.
        build: BuildId,
        /// What it boots with.
        boot: Boot,
    },
    /// A copy of a sandbox's disk.
    Disk {
        /// The snapshot.
        copy: Snapshot,
        /// It was made for this build alone, and is removed with its end.
        lent: bool,
    },
}
