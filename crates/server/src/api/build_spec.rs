//! Validates a request to start a build and turns it into a [`BuildSpec`].

use std::collections::BTreeMap;

use cabana_image::reference::Reference;
use cabana_image::registry::Credentials;
use cabana_store::Build;
use cabana_types::TeamId;
use cabana_types::limits::{MAX_DOCKERFILE_BYTES, MAX_NAME_BYTES, MAX_STEP_ARGS, MAX_STEP_BYTES, MAX_STEPS};
use cabana_types::wire::{BuildStart, RegistryCredentials, TemplateStep};

use super::App;
use super::build_files::check_hash;
use super::new_sandbox::check_map;
use crate::auth::Reach;
use crate::builds::{BuildSpec, Origin, Recipe};
use crate::error::{ApiError, short};

/// The base image of a build that names none.
const BASE_IMAGE: &str = "e2bdev/base";
/// Maximum number of images uploaded for one build.
const MAX_IMAGES: usize = 16;

/// A kind of step: how many arguments it takes.
const KINDS: [(&str, usize, usize); 5] = [
    ("COPY", 2, 4),
    ("RUN", 1, 2),
    // Pairs.
    ("ENV", 2, MAX_STEP_ARGS),
    ("WORKDIR", 1, 1),
    ("USER", 1, 1),
];

impl App {
    /// Validates a request to start a build.
    pub(super) async fn build_spec(
        &self,
        reach: &Reach,
        build: Build,
        request: BuildStart,
    ) -> Result<BuildSpec, ApiError> {
        let start = command("startCmd", request.start_cmd.as_deref())?;
        let ready = command("readyCmd", request.ready_cmd.as_deref())?;
        let force = request.force.unwrap_or(false);
        let images = self.images(&reach.team, &request).await?;
        let recipe = self.recipe(reach, request).await?;
        Ok(BuildSpec {
            team: reach.team.clone(),
            template: build.template,
            build: build.id,
            resources: build.resources,
            recipe,
            images,
            start,
            ready,
            force,
        })
    }

    /// Images that were uploaded for the build, by name, instead of pulled from a registry.
    async fn images(&self, team: &TeamId, request: &BuildStart) -> Result<BTreeMap<String, String>, ApiError> {
        let images = request.images.clone().unwrap_or_default();
        if images.len() > MAX_IMAGES {
            return Err(ApiError::invalid(format!(
                "There are {} images; at most {MAX_IMAGES} are taken",
                images.len()
            )));
        }
        for (name, hash) in &images {
            check_text("images: a name", name, MAX_STEP_BYTES)?;
            name.parse::<Reference>().map_err(|e| ApiError::invalid(format!("images: {e}")))?;
            self.check_uploaded(team, &format!("images: {}", short(name)), hash).await?;
        }
        Ok(images)
    }

    async fn recipe(&self, reach: &Reach, request: BuildStart) -> Result<Recipe, ApiError> {
        let team = &reach.team;
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (image, template) = (non_empty(request.from_image), non_empty(request.from_template));
        let dockerfile = non_empty(request.dockerfile);
        if [image.is_some(), template.is_some(), dockerfile.is_some()].into_iter().filter(|given| *given).count() > 1 {
            return Err(ApiError::invalid("Give exactly one of fromImage, fromTemplate and dockerfile"));
        }
        if template.is_some() && request.from_image_registry.is_some() {
            return Err(ApiError::invalid(
                "fromImageRegistry goes with fromImage or dockerfile, not with fromTemplate",
            ));
        }
        if template.is_some() && request.images.is_some_and(|images| !images.is_empty()) {
            return Err(ApiError::invalid("images goes with fromImage or dockerfile, not with fromTemplate"));
        }
        let credentials = request.from_image_registry.map(credentials).transpose()?;
        let (context, target) = (non_empty(request.context), non_empty(request.target));
        let arguments = request.build_args.unwrap_or_default();
        let steps = request.steps.unwrap_or_default();
        if let Some(text) = dockerfile {
            if !steps.is_empty() {
                return Err(ApiError::invalid("steps do not go with dockerfile: a Dockerfile has its own"));
            }
            return self.dockerfile(team, text, context, target, arguments, credentials).await;
        }
        if context.is_some() || target.is_some() || !arguments.is_empty() {
            return Err(ApiError::invalid("context, target and buildArgs go with dockerfile only"));
        }
        let steps = self.steps(team, steps).await?;
        let from = match template {
            Some(name) => match self.find_snapshot(reach, &name).await? {
                Some(copy) => Origin::Disk { copy, lent: false },
                None => {
                    let template = self.find_template(reach, &name).await?;
                    let build = self.finished_build(&template, &name).await?;
                    Origin::Build { build: build.id, boot: build.boot }
                }
            },
            None => {
                let name = image.unwrap_or_else(|| BASE_IMAGE.to_owned());
                check_text("fromImage", &name, MAX_STEP_BYTES)?;
                name.parse::<Reference>().map_err(|e| ApiError::invalid(format!("fromImage: {e}")))?;
                Origin::Image { name, credentials }
            }
        };
        Ok(Recipe::Steps { from, steps })
    }

    async fn dockerfile(
        &self,
        team: &TeamId,
        text: String,
        context: Option<String>,
        target: Option<String>,
        arguments: BTreeMap<String, String>,
        credentials: Option<Credentials>,
    ) -> Result<Recipe, ApiError> {
        check_text("dockerfile", &text, MAX_DOCKERFILE_BYTES)?;
        check_map("buildArgs", &arguments)?;
        if let Some(target) = &target {
            check_text("target", target, MAX_NAME_BYTES)?;
        }
        if let Some(hash) = &context {
            self.check_uploaded(team, "context", hash).await?;
        }
        Ok(Recipe::Dockerfile { text, context, target, arguments, credentials })
    }

    async fn steps(&self, team: &TeamId, steps: Vec<TemplateStep>) -> Result<Vec<TemplateStep>, ApiError> {
        if steps.len() > MAX_STEPS {
            return Err(ApiError::invalid(format!("There are {} steps; at most {MAX_STEPS} are taken", steps.len())));
        }
        let mut checked = Vec::with_capacity(steps.len());
        for (index, step) in steps.into_iter().enumerate() {
            checked.push(self.step(team, index + 1, step).await?);
        }
        Ok(checked)
    }

    /// Validates one step.
    async fn step(&self, team: &TeamId, number: usize, mut step: TemplateStep) -> Result<TemplateStep, ApiError> {
        let Some((kind, least, most)) = KINDS.into_iter().find(|(kind, ..)| *kind == step.kind) else {
            let text = format!("Step {number}: {:?} is not one of COPY, RUN, ENV, WORKDIR and USER", short(&step.kind));
            return Err(ApiError::invalid(text));
        };
        let count = step.args.len();
        if count < least || count > most || (kind == "ENV" && !count.is_multiple_of(2)) {
            let wanted = match kind {
                "ENV" => "names and values in pairs".to_owned(),
                _ if least == most => format!("{least} argument"),
                _ => format!("{least} to {most} arguments"),
            };
            return Err(ApiError::invalid(format!("Step {number}: {kind} takes {wanted}, not {count}")));
        }
        for argument in &step.args {
            check_text(&format!("Step {number}: an argument"), argument, MAX_STEP_BYTES)?;
        }
        match (kind, &step.files_hash) {
            ("COPY", Some(hash)) => self.check_uploaded(team, &format!("Step {number}: filesHash"), hash).await?,
            ("COPY", None) => {
                return Err(ApiError::invalid(format!(
                    "Step {number}: COPY needs filesHash, the archive of its files"
                )));
            }
            _ => step.files_hash = None,
        }
        Ok(step)
    }

    /// Checks that an archive was uploaded.
    async fn check_uploaded(&self, team: &TeamId, what: &str, hash: &str) -> Result<(), ApiError> {
        check_hash(hash)?;
        let (files, team, name) = (self.builds.files().clone(), team.clone(), hash.to_owned());
        let has = tokio::task::spawn_blocking(move || files.has(&team, &name)).await;
        if has.is_ok_and(|has| has) {
            return Ok(());
        }
        let text = format!(
            "{what}: the files {} are not uploaded; GET /templates/{{id}}/files/{{hash}} says where to put them",
            short(hash)
        );
        Err(ApiError::invalid(text))
    }
}

/// Validates a shell command; `None` if it is empty.
fn command(field: &str, text: Option<&str>) -> Result<Option<String>, ApiError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    check_text(field, text, MAX_STEP_BYTES)?;
    Ok(Some(text.to_owned()))
}

fn check_text(what: &str, text: &str, most: usize) -> Result<(), ApiError> {
    if text.len() > most {
        return Err(ApiError::invalid(format!("{what} has {} bytes; at most {most} are taken", text.len())));
    }
    if text.contains('\0') {
        return Err(ApiError::invalid(format!("{what} must not contain NUL")));
    }
    Ok(())
}

/// Registry credentials. An error does not repeat them: they are secret.
fn credentials(sent: RegistryCredentials) -> Result<Credentials, ApiError> {
    let wrong = || {
        ApiError::invalid(
            "fromImageRegistry is {type: \"registry\", username, password}, {type: \"aws\", awsAccessKeyId, awsSecretAccessKey, \
             awsRegion} or {type: \"gcp\", serviceAccountJson}",
        )
    };
    let value = serde_json::to_value(&sent).map_err(|_| wrong())?;
    serde_json::from_value(value).map_err(|_| wrong())
}
