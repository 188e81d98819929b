//! Names of templates: an id, or `[namespace/]alias[:tag]`.

use cabana_store::Template;
use cabana_types::limits::MAX_TEMPLATE_REF_BYTES;
use cabana_types::{ErrorCode, TeamId, TemplateId};

use super::App;
use crate::error::{Refusal, short};

/// The tag that is meant when none is named.
pub(super) const DEFAULT_TAG: &str = "default";
/// Names that a refusal lists.
const LISTED: usize = 20;

/// A name, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) alias: &'a str,
    pub(super) tag: Option<&'a str>,
}

pub(super) fn parse(text: &str) -> Option<Name<'_>> {
    let (path, tag) = match text.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (text, None),
    };
    let (namespace, alias) = match path.split_once('/') {
        Some((namespace, alias)) => (Some(namespace), alias),
        None => (None, path),
    };
    let plain = |part: &str, dots: bool| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_' || (dots && b == b'.'))
    };
    let valid = plain(alias, false) && namespace.is_none_or(|n| plain(n, false)) && tag.is_none_or(|t| plain(t, true));
    valid.then_some(Name { namespace, alias, tag })
}

impl App {
    /// The template that a team means by a name.
    pub(super) async fn find_template(&self, team: &TeamId, text: &str) -> Result<Template, Refusal> {
        if text.len() > MAX_TEMPLATE_REF_BYTES {
            return Err(Refusal::invalid(format!("A template's name has at most {MAX_TEMPLATE_REF_BYTES} bytes")));
        }
        let lower = text.trim().to_ascii_lowercase();
        let Some(name) = parse(&lower) else {
            let text =
                format!("{:?} is not the name of a template: write [namespace/]alias[:tag] or an id", short(text));
            return Err(Refusal::invalid(text));
        };
        if name.tag.is_none_or(|tag| tag == DEFAULT_TAG) {
            if name.namespace.is_none()
                && let Ok(id) = name.alias.parse::<TemplateId>()
                && let Some(template) = self.store.template(&id).await?
                && (template.public || template.team == *team)
            {
                return Ok(template);
            }
            if let Some(template) = self.store.template_by_alias(team, name.namespace, name.alias).await? {
                return Ok(template);
            }
        }
        let mut names: Vec<String> = self.store.templates(team).await?.into_iter().flat_map(|t| t.aliases).collect();
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        let there = match (names.is_empty(), more) {
            (true, _) => "there are none yet".to_owned(),
            (false, 0) => format!("there are: {}", names.join(", ")),
            (false, more) => format!("there are: {} and {more} more", names.join(", ")),
        };
        Err(Refusal::new(ErrorCode::TemplateNotFound, format!("Template {:?} was not found; {there}", short(text))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        let name = |namespace, alias, tag| Some(Name { namespace, alias, tag });
        assert_eq!(parse("base"), name(None, "base", None));
        assert_eq!(parse("a/b:v1.2"), name(Some("a"), "b", Some("v1.2")));
        assert_eq!(parse("a:b"), name(None, "a", Some("b")));
        for wrong in ["", ":", "a:", "/a", "a/", ":v1", "a/b/c", "a b", "ä", "a:b:c", "../etc", "a.b"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
