//! Which stages a target needs, in the order they are built, and what each begins with.

use std::collections::BTreeMap;

use super::evaluate::Evaluated;
use super::expand::Expansion;
use super::instruction::{Instruction, ParsedStage};
use super::{Dockerfile, DockerfileError, Note, fail};
use crate::manifest::{Defaults, Platform};

/// Arguments that count without being declared.
const PROXIES: [&str; 5] = ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"];

/// What a stage begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageBase {
    /// An image, by the name in the Dockerfile.
    Image(String),
    /// Another stage, by its place in [`Plan::stages`].
    Stage(usize),
    /// Nothing.
    Scratch,
}

/// One stage to build.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The line of its `FROM`.
    pub line: usize,
    /// What it begins with.
    pub base: StageBase,
    /// Images that it copies from, by the names in the Dockerfile.
    pub images: Vec<String>,
    pub(super) parsed: ParsedStage,
}

/// What is to be built. The last stage is the target.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order of building: a stage comes after those it uses.
    pub stages: Vec<Stage>,
    /// What the author should know.
    pub notes: Vec<Note>,
    pub(super) settings: Settings,
}

/// What all stages share.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Arguments of the request.
    pub(super) given: BTreeMap<String, String>,
    /// `ARG`s before the first `FROM`, and those that are always there.
    pub(super) global: BTreeMap<String, String>,
    /// Names and numbers of stages in the file, by their place in the plan.
    pub(super) places: BTreeMap<String, usize>,
    pub(super) escape: char,
}

impl Dockerfile {
    /// Plans the stage of this name or number, or the last one.
    pub fn plan(&self, target: Option<&str>, arguments: &BTreeMap<String, String>) -> Result<Plan, DockerfileError> {
        let global = self.global(arguments)?;
        let expansion = Expansion { values: &global, escape: self.escape };
        let target = match target {
            None => self.stages.len() - 1,
            Some(name) => match self.find(name, self.stages.len()) {
                Some(found) => found,
                None => return fail(1, format!("there is no stage {name:.60}")),
            },
        };
        // What each stage uses lies before it, so one walk backwards finds all.
        let mut needed = vec![false; self.stages.len()];
        needed[target] = true;
        let mut found = Vec::new();
        for index in (0..=target).rev() {
            if !needed[index] {
                continue;
            }
            let stage = &self.stages[index];
            check_platform(stage, &expansion)?;
            let image = expansion.word(&stage.image).or_else(|reason| fail(stage.line, reason))?;
            if image.is_empty() {
                return fail(stage.line, format!("FROM {:.60} is empty: give the argument or a default", stage.image));
            }
            let base = match self.stages[..index]
                .iter()
                .position(|known| known.name.as_deref() == Some(&image.to_lowercase()))
            {
                Some(base) => {
                    needed[base] = true;
                    StageBase::Stage(base)
                }
                None if image == "scratch" => StageBase::Scratch,
                None => StageBase::Image(image),
            };
            let mut images = Vec::new();
            for placed in &stage.instructions {
                let froms: Vec<&String> = match &placed.instruction {
                    Instruction::Copy(copy) => copy.from.iter().collect(),
                    Instruction::Run(_, binds) => binds.iter().filter_map(|bind| bind.from.as_ref()).collect(),
                    _ => continue,
                };
                for from in froms {
                    let from = expansion.word(from).or_else(|reason| fail(placed.line, reason))?;
                    match self.find(&from, index) {
                        Some(used) => needed[used] = true,
                        None if from.parse::<usize>().is_ok() => {
                            return fail(placed.line, format!("from={from}: only earlier stages have a number here"));
                        }
                        None if from.is_empty() => return fail(placed.line, "from= is empty"),
                        None => images.push(from),
                    }
                }
            }
            found.push((
                index,
                Stage { name: stage.name.clone(), line: stage.line, base, images, parsed: stage.clone() },
            ));
        }
        found.reverse();
        let order: Vec<usize> = found.iter().map(|(index, _)| *index).collect();
        let place = |index: usize| order.iter().position(|known| *known == index);
        let mut places = BTreeMap::new();
        for (index, stage) in &found {
            if let Some(at) = place(*index) {
                places.insert(index.to_string(), at);
                places.extend(stage.name.clone().map(|name| (name, at)));
            }
        }
        let mut stages = Vec::new();
        for (_, mut stage) in found {
            if let StageBase::Stage(index) = stage.base {
                stage.base = StageBase::Stage(place(index).unwrap_or_default());
            }
            stages.push(stage);
        }
        let mut notes = self.notes.clone();
        notes.extend(self.unused(arguments));
        let settings = Settings { given: arguments.clone(), global, places, escape: self.escape };
        Ok(Plan { stages, notes, settings })
    }

    fn global(&self, arguments: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, DockerfileError> {
        let here = Platform::here();
        let mut global = BTreeMap::new();
        for side in ["TARGET", "BUILD"] {
            global.insert(format!("{side}PLATFORM"), here.to_string());
            global.insert(format!("{side}OS"), here.os.clone());
            global.insert(format!("{side}ARCH"), here.architecture.clone());
            global.insert(format!("{side}VARIANT"), String::new());
        }
        for (line, name, default) in &self.arguments {
            let value = match (arguments.get(name), default) {
                (Some(given), _) => Some(given.clone()),
                (None, Some(default)) => {
                    let expansion = Expansion { values: &global, escape: self.escape };
                    Some(expansion.word(default).or_else(|reason| fail(*line, reason))?)
                }
                (None, None) => None,
            };
            if let Some(value) = value {
                global.insert(name.clone(), value);
            }
        }
        Ok(global)
    }

    /// A stage before `before`, by name or number.
    fn find(&self, name: &str, before: usize) -> Option<usize> {
        let lower = name.to_lowercase();
        let by_name = self.stages[..before].iter().position(|stage| stage.name.as_deref() == Some(&lower));
        by_name.or_else(|| name.parse().ok().filter(|index| *index < before))
    }

    fn unused(&self, arguments: &BTreeMap<String, String>) -> Vec<Note> {
        let in_stages =
            self.stages.iter().flat_map(|stage| &stage.instructions).flat_map(|placed| match &placed.instruction {
                Instruction::Arg(list) => &list[..],
                _ => &[],
            });
        let declared: Vec<&str> =
            in_stages.map(|(name, _)| &name[..]).chain(self.arguments.iter().map(|(_, name, _)| &name[..])).collect();
        let unused = arguments.keys().filter(|name| !declared.contains(&&name[..]) && !is_proxy(name));
        unused.map(|name| Note { line: 1, text: format!("no ARG takes the argument {name:.60}") }).collect()
    }
}

pub(super) fn is_proxy(name: &str) -> bool {
    PROXIES.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
}

fn check_platform(stage: &ParsedStage, expansion: &Expansion<'_>) -> Result<(), DockerfileError> {
    let Some(platform) = &stage.platform else { return Ok(()) };
    let platform = expansion.word(platform).or_else(|reason| fail(stage.line, reason))?;
    let mut parts = platform.split('/');
    let asked = Platform {
        os: parts.next().unwrap_or_default().to_owned(),
        architecture: parts.next().unwrap_or_default().to_owned(),
        variant: parts.next().map(str::to_owned),
    };
    if asked.fits_here() || platform == Platform::here().os {
        return Ok(());
    }
    fail(stage.line, format!("FROM --platform={platform:.40}: this machine runs {}", Platform::here()))
}

impl Plan {
    /// What the stages' steps are, given how the base wants to be run: see [`Evaluated::of_image`] for an image, and
    /// pass on what another stage gave where that is the base.
    pub fn evaluate(&self, stage: usize, base: &Evaluated) -> Result<Evaluated, DockerfileError> {
        match self.stages.get(stage) {
            Some(found) => super::evaluate::evaluate(found, stage, &self.settings, base),
            None => fail(1, "there is no such stage"),
        }
    }

    /// All stages in order; `image` says how the image of that name wants to be run.
    pub fn evaluate_all<E: From<DockerfileError>>(
        &self,
        mut image: impl FnMut(&str) -> Result<Defaults, E>,
    ) -> Result<Vec<Evaluated>, E> {
        let mut done: Vec<Evaluated> = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            let base = match &stage.base {
                StageBase::Image(name) => Evaluated::of_image(image(name)?),
                StageBase::Scratch => Evaluated::of_image(Defaults::default()),
                StageBase::Stage(place) => done.get(*place).cloned().unwrap_or_default(),
            };
            done.push(self.evaluate(number, &base)?);
        }
        Ok(done)
    }
}
