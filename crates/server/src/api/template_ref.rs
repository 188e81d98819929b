//! References to templates: an id or `[namespace/]alias`, optionally with `:tag` or `:` and a build id.

use axum::extract::{FromRequestParts, Path};
use cabana_store::{Build, BuildStatus, Template};
use cabana_types::limits::MAX_TEMPLATE_REF_BYTES;
use cabana_types::{BuildId, ErrorCode, TeamId, TemplateId};
use http::request::Parts;

use super::App;
use crate::auth::{FIRST_TEAM, Reach};
use crate::error::{ApiError, short};

pub(super) use cabana_store::DEFAULT_TAG;

/// The alias of the template that the server provides.
const BASE: &str = "base";
/// Maximum number of names that an error lists.
const MAX_LISTED: usize = 20;

/// The parts of a reference.
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
    let valid = is_plain(alias) && namespace.is_none_or(is_plain) && tag.is_none_or(is_tag);
    valid.then_some(Name { namespace, alias, tag })
}

fn is_plain(part: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    !part.is_empty() && part.bytes().all(fits)
}

/// Whether a text has the form of a tag.
pub(super) fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(|part| part.is_empty() || is_plain(part))
}

/// Whether a text in place of a tag is a build id.
pub(super) fn is_build_id(text: &str) -> bool {
    text.parse::<BuildId>().is_ok()
}

/// A template reference in the path of a request.
#[derive(Debug)]
pub(super) struct PathName(pub(super) String);

/// A template reference in the path of a request, and a second parameter.
#[derive(Debug)]
pub(super) struct PathNames(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(name)| Self(name)).map_err(|_| malformed())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathNames {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        path.map(|Path((name, rest))| Self(name, rest)).map_err(|_| malformed())
    }
}

fn malformed() -> ApiError {
    ApiError::invalid("The path is not well formed")
}

/// Whether an alias is that of the server's own template.
pub(super) fn is_base_template(team: &TeamId, alias: &str) -> bool {
    team.as_str() == FIRST_TEAM && alias == BASE
}

/// The error for changes to the server's own template.
pub(super) fn base_template_error() -> ApiError {
    ApiError::invalid(format!(
        "{BASE} is the server's own template, which others are built from: it is neither built nor deleted by this API; choose another name"
    ))
}

/// There is no such template for the caller.
pub(super) fn no_template(text: &str) -> ApiError {
    let text = format!("Template {:?} was not found; list yours with GET /templates", short(text));
    ApiError::new(ErrorCode::TemplateNotFound, text)
}

impl App {
    /// The template that a reference names for a team, with the build that its tag names.
    pub(super) async fn find_template(&self, reach: &Reach, text: &str) -> Result<Template, ApiError> {
        if text.len() > MAX_TEMPLATE_REF_BYTES {
            return Err(ApiError::invalid(format!("A template's name has at most {MAX_TEMPLATE_REF_BYTES} bytes")));
        }
        let lower = text.trim().to_ascii_lowercase();
        let Some(name) = parse(&lower) else {
            let text =
                format!("{:?} is not the name of a template: write [namespace/]alias[:tag] or an id", short(text));
            return Err(ApiError::invalid(text));
        };
        if let Some(template) = self.find(reach, &name).await? {
            return match name.tag.filter(|tag| *tag != DEFAULT_TAG) {
                None => Ok(template),
                Some(tag) => self.tagged(template, tag).await,
            };
        }
        let mut names: Vec<String> = self.templates(reach).await?.into_iter().flat_map(|t| t.aliases).collect();
        let more = names.len().saturating_sub(MAX_LISTED);
        names.truncate(MAX_LISTED);
        let there = match (names.is_empty(), more) {
            (true, _) => "there are none yet".to_owned(),
            (false, 0) => format!("there are: {}", names.join(", ")),
            (false, more) => format!("there are: {} and {more} more", names.join(", ")),
        };
        let how = "build it with `cabana template build` or an SDK";
        let text = format!("Template {:?} was not found; {there}; {how}", short(text));
        Err(ApiError::new(ErrorCode::TemplateNotFound, text))
    }

    /// The template that a reference names, if it belongs to the team.
    pub(super) async fn find_own_template(&self, reach: &Reach, text: &str) -> Result<Template, ApiError> {
        let template = self.find_template(reach, text).await?;
        if template.team != reach.team {
            let text = format!("Template {:?} belongs to another team, which alone may do this", short(text));
            return Err(ApiError::new(ErrorCode::Forbidden, text));
        }
        reach.check(&template.team, &template.project).map_err(|refused| refused.or(|| no_template(text)))?;
        Ok(template)
    }

    /// The template that a reference names, if it belongs to the team and is not the server's own.
    pub(super) async fn find_changeable_template(&self, reach: &Reach, text: &str) -> Result<Template, ApiError> {
        let template = self.find_own_template(reach, text).await?;
        let is_base = template.aliases.iter().any(|alias| is_base_template(&template.team, alias));
        if is_base { Err(base_template_error()) } else { Ok(template) }
    }

    /// The build that new sandboxes start from. `text` is the reference, for errors.
    pub(super) async fn finished_build(&self, template: &Template, text: &str) -> Result<Build, ApiError> {
        if let Some(build) = template.build.as_ref().filter(|b| b.status == BuildStatus::Ready) {
            return Ok(build.clone());
        }
        let tags: Vec<String> = self.store.tags(&template.id).await?.into_iter().map(|t| t.tag).collect();
        let text = match (template.build.is_none(), tags.is_empty()) {
            (true, false) => format!(
                "Template {:?} has no build with the tag {DEFAULT_TAG}; name one of its tags: {}",
                short(text),
                tags.join(", ")
            ),
            _ => format!("Template {:?} has no finished build yet; wait for it", short(text)),
        };
        Err(ApiError::new(ErrorCode::TemplateNotReady, text))
    }

    /// The templates that a caller may use, own ones first.
    pub(super) async fn templates(&self, reach: &Reach) -> Result<Vec<Template>, ApiError> {
        let mut rows = self.store.templates(&reach.team).await?;
        rows.retain(|row| row.public || reach.sees(&row.team, &row.project));
        Ok(rows)
    }

    async fn find(&self, reach: &Reach, name: &Name<'_>) -> Result<Option<Template>, ApiError> {
        if name.namespace.is_none()
            && let Ok(id) = name.alias.parse::<TemplateId>()
            && let Some(template) = self.store.template(&id).await?
            && (template.public || reach.sees(&template.team, &template.project))
        {
            return Ok(Some(template));
        }
        let found = self.store.template_by_alias(&reach.team, name.namespace, name.alias).await?;
        Ok(found.filter(|template| template.public || reach.sees(&template.team, &template.project)))
    }

    /// The template with the build of a tag other than the default.
    async fn tagged(&self, template: Template, tag: &str) -> Result<Template, ApiError> {
        let build = match tag.parse::<BuildId>() {
            Ok(id) => self.store.build(&id).await?.filter(|b| b.template == template.id),
            Err(_) => self.store.tagged(&template.id, tag).await?,
        };
        if let Some(build) = build {
            return Ok(Template { build: Some(build), ..template });
        }
        let tags: Vec<String> = self.store.tags(&template.id).await?.into_iter().map(|t| t.tag).collect();
        let there = if tags.is_empty() { "none yet".to_owned() } else { tags.join(", ") };
        let name = template.aliases.first().map_or(template.id.as_str(), String::as_str);
        let text = format!("Template {name} with tag {:?} was not found; its tags are: {there}", short(tag));
        Err(ApiError::new(ErrorCode::TemplateNotFound, text))
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
