//! The curated templates that this program contains: a card, a Dockerfile and files for each. They are in `templates/`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use cabana_archive::{Entry, Kind, Time, Writer};
use cabana_image::{Digest, debian};
use serde::Deserialize;

/// The program that the code interpreter's template gets from `cabana`.
pub(super) const INTERPRETER: &str = "cabana-interpreter";
/// Time of all files, so that the archive is the same for the same files.
const TIME: i64 = 946_684_800;

/// A curated template.
#[derive(Debug)]
pub(crate) struct Curated {
    pub(crate) name: &'static str,
    pub(crate) dockerfile: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Whether its context contains [`INTERPRETER`].
    pub(crate) interprets: bool,
    pub(crate) card: Card,
}

/// What people read about a curated template, and the sizes of its sandboxes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Card {
    pub(crate) title: String,
    pub(crate) category: String,
    pub(crate) description: String,
    pub(crate) licence: String,
    pub(crate) size_mb: u32,
    #[serde(default)]
    pub(crate) ports: Vec<u16>,
    pub(crate) cpu_count: u32,
    pub(crate) memory_mb: u32,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
}

/// One of the directories of `templates/`: its Dockerfile, its card, and the files that the Dockerfile copies.
macro_rules! curated {
    ($name:literal, $interprets:literal $(, $file:literal)*) => {
        (
            $name,
            include_str!(concat!("../../../../templates/", $name, "/Dockerfile")),
            include_str!(concat!("../../../../templates/", $name, "/card.toml")),
            &[$(($file, include_str!(concat!("../../../../templates/", $name, "/", $file)))),*],
            $interprets,
        )
    };
}

type Source = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)], bool);

const SOURCES: &[Source] = &[
    curated!("claude-code", false),
    curated!("code-interpreter-v1", true, "requirements.txt"),
    curated!("codex", false),
    curated!("go", false),
    curated!("java", false),
    curated!("node", false),
    curated!("opencode", false),
    curated!("postgres", false),
    curated!("python-data", false),
    curated!("redis", false),
    curated!("rust", false),
];

/// All of them, by name.
pub(crate) fn all() -> &'static [Curated] {
    static ALL: LazyLock<Vec<Curated>> = LazyLock::new(|| {
        let curated = |(name, dockerfile, card, files, interprets): &Source| {
            // A card that is wrong fails the tests below.
            let card = toml::from_str(card).ok()?;
            Some(Curated { name, dockerfile, files, interprets: *interprets, card })
        };
        SOURCES.iter().filter_map(curated).collect()
    });
    &ALL
}

impl Curated {
    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        all().iter().find(|curated| curated.name == name)
    }

    /// The archive of the files that its Dockerfile copies.
    pub(crate) fn context(&self, interpreter: &[u8]) -> std::io::Result<Vec<u8>> {
        let texts = self.files.iter().map(|(name, text)| (*name, text.as_bytes(), 0o644));
        let program = self.interprets.then_some((INTERPRETER, interpreter, 0o755));
        let mut writer = Writer::new(Vec::new());
        for (name, mut bytes, mode) in texts.chain(program) {
            let entry = Entry {
                size: bytes.len() as u64,
                mtime: Time::from_seconds(TIME),
                ..Entry::new(Kind::File, name, mode)
            };
            writer.append(&entry, &mut bytes)?;
        }
        writer.finish()
    }

    /// What a build of it is made from, as one hash.
    pub(crate) fn recipe(&self, context: &[u8]) -> String {
        let text = format!(
            "{} {} {} {} {}",
            debian::RECIPE,
            self.card.cpu_count,
            self.card.memory_mb,
            Digest::of(self.dockerfile.as_bytes()).hex(),
            Digest::of(context).hex(),
        );
        Digest::of(text.as_bytes()).hex()
    }

    /// Its context and recipe, with the program if it needs one. `None` if this program does not contain that.
    pub(crate) fn prepared(
        &self,
        interpreter: Option<&Cow<'static, [u8]>>,
    ) -> std::io::Result<Option<(Vec<u8>, String)>> {
        let program: &[u8] = match interpreter {
            Some(program) => program,
            None if self.interprets => return Ok(None),
            None => &[],
        };
        let context = self.context(program)?;
        let recipe = self.recipe(&context);
        Ok(Some((context, recipe)))
    }
}

#[cfg(test)]
mod tests {
    use cabana_image::dockerfile::Dockerfile;

    use super::*;

    #[test]
    fn cards_and_dockerfiles_are_valid() {
        assert_eq!(all().len(), SOURCES.len());
        for curated in all() {
            let card = &curated.card;
            let file = Dockerfile::parse(curated.dockerfile).expect(curated.name);
            file.plan(None, &BTreeMap::new()).expect(curated.name);
            assert!(curated.dockerfile.contains("FROM base"), "{}: no registry of images is needed", curated.name);
            assert!(["Agents", "Data", "Languages"].contains(&card.category.as_str()), "{}", curated.name);
            for text in [&card.title, &card.description, &card.licence] {
                assert!(!text.is_empty() && text.len() < 400, "{}", curated.name);
            }
            assert!(card.cpu_count > 0 && card.memory_mb >= 256 && card.size_mb > 0);
        }
        let mut names: Vec<_> = all().iter().map(|curated| curated.name).collect();
        names.dedup();
        assert!(names.is_sorted() && names.len() == SOURCES.len());
    }

    #[test]
    fn a_recipe_changes_with_what_it_is_made_from() {
        let curated = Curated::named("code-interpreter-v1").expect("curated");
        let [one, same, other] = ["a", "a", "b"].map(|program| {
            let program = Cow::Borrowed(program.as_bytes());
            curated.prepared(Some(&program)).expect("pack").expect("prepared")
        });
        assert_eq!(one, same);
        assert_ne!(one.1, other.1);
        assert!(curated.prepared(None).expect("pack").is_none());
        assert!(Curated::named("nothing").is_none());
    }
}
