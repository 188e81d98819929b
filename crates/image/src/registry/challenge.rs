//! Parses `WWW-Authenticate` headers.

use std::collections::BTreeMap;

/// An authentication scheme that a registry offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token from a token server.
    Bearer {
        /// URL of the token server.
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
    /// User name and password.
    Basic,
}

/// The preferred challenge of all headers: tokens before passwords.
pub(super) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = None;
    for header in headers.filter(|header| header.len() <= 4096) {
        for (scheme, mut fields) in challenges(header) {
            match &scheme[..] {
                "bearer" => {
                    if let Some(realm) = fields.remove("realm") {
                        let (service, scope) = (fields.remove("service"), fields.remove("scope"));
                        return Some(Challenge::Bearer { realm, service, scope });
                    }
                }
                "basic" => basic = Some(Challenge::Basic),
                _ => {}
            }
        }
    }
    basic
}

/// `Scheme key="value", key=value, Other key="value"`: a word without `=` begins the next challenge.
fn challenges(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut found: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let word = &rest[..end];
        if word.is_empty() {
            return found;
        }
        rest = &rest[end..];
        let Some(after) = rest.strip_prefix('=') else {
            found.push((word.to_ascii_lowercase(), BTreeMap::new()));
            continue;
        };
        let (value, after) = value(after);
        if let Some((_, fields)) = found.last_mut() {
            fields.insert(word.to_ascii_lowercase(), value);
        }
        rest = after;
    }
}

fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(header: &str) -> Option<Challenge> {
        parse([header].into_iter())
    }

    #[test]
    fn headers_of_real_registries() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/debian:pull""#;
        assert_eq!(
            one(hub),
            Some(Challenge::Bearer {
                realm: "https://auth.docker.io/token".to_owned(),
                service: Some("registry.docker.io".to_owned()),
                scope: Some("repository:library/debian:pull".to_owned()),
            })
        );
        assert_eq!(one(r#"Basic realm="Registry, \"mine\"""#), Some(Challenge::Basic));
        assert_eq!(one("basic"), Some(Challenge::Basic));
        assert_eq!(one("Negotiate"), None);
        assert_eq!(one("Bearer"), None, "a token server must be named");
        let both = r#"Basic realm="a, b", Bearer realm=https://x/t , service = y"#;
        assert!(matches!(one(both), Some(Challenge::Bearer { realm, .. }) if realm == "https://x/t"));
        assert_eq!(parse(std::iter::empty()), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read(header in "[a-zA-Z=\", \\\\\u{e9}\t]{0,80}") {
            let _ = one(&header);
        }
    }
}
