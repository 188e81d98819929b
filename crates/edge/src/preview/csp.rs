//! Edits the content security policies of services. Only the directive that must change does; every other byte stays.

use http::header::CONTENT_SECURITY_POLICY;
use http::{HeaderMap, HeaderValue};

/// Removes `frame-ancestors` from all policies.
pub(super) fn remove_frame_ancestors(headers: &mut HeaderMap) {
    edit(headers, |policy| {
        let kept: Vec<&[u8]> = directives(policy).filter(|directive| !is(directive, "frame-ancestors")).collect();
        (kept.len() < directives(policy).count()).then(|| kept.join(&b';'))
    });
}

/// Lets all policies allow a script of the page's own origin that carries `nonce`; returns whether the nonce is needed for that.
pub(super) fn allow_own_script(headers: &mut HeaderMap, nonce: &str) -> bool {
    let mut needed = false;
    edit(headers, |policy| {
        let all: Vec<&[u8]> = directives(policy).collect();
        let find = |name: &str| all.iter().position(|directive| is(directive, name));
        let at = find("script-src-elem").or_else(|| find("script-src")).or_else(|| find("default-src"))?;
        let mut sources = tokens(all[at]).skip(1);
        let source = if sources.any(is_exclusive) {
            needed = true;
            format!("'nonce-{nonce}'")
        } else if tokens(all[at]).skip(1).any(|source| source.eq_ignore_ascii_case(b"'self'") || source == b"*") {
            return None;
        } else {
            "'self'".to_owned()
        };
        let extended = extend(all[at], source.as_bytes());
        let edited: Vec<&[u8]> =
            all.iter().enumerate().map(|(i, old)| if i == at { extended.as_slice() } else { old }).collect();
        Some(edited.join(&b';'))
    });
    needed
}

/// Changes each policy that `change` has another text for. A policy without directives is none.
fn edit(headers: &mut HeaderMap, mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
    let mut changed = false;
    let mut values = Vec::new();
    for value in headers.get_all(CONTENT_SECURITY_POLICY) {
        let mut policies = Vec::new();
        for policy in value.as_bytes().split(|b| *b == b',') {
            match change(policy) {
                Some(other) => {
                    changed = true;
                    if other.iter().any(|b| !b.is_ascii_whitespace() && *b != b';') {
                        policies.push(other);
                    }
                }
                None => policies.push(policy.to_vec()),
            }
        }
        // It was a value before, and what was added is visible ASCII.
        values.extend(HeaderValue::from_bytes(&policies.join(&b',')).ok().filter(|value| !value.is_empty()));
    }
    if changed {
        headers.remove(CONTENT_SECURITY_POLICY);
        for value in values {
            headers.append(CONTENT_SECURITY_POLICY, value);
        }
    }
}

fn directives(policy: &[u8]) -> impl Iterator<Item = &[u8]> {
    policy.split(|b| *b == b';')
}

/// The name of a directive and its values.
fn tokens(directive: &[u8]) -> impl Iterator<Item = &[u8]> {
    directive.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty())
}

fn is(directive: &[u8], name: &str) -> bool {
    tokens(directive).next().is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether a source makes browsers ignore others, as `'self'`: scripts then need a nonce.
fn is_exclusive(source: &[u8]) -> bool {
    let starts =
        |prefix: &str| source.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()));
    ["'nonce-", "'sha256-", "'sha384-", "'sha512-"].iter().any(|prefix| starts(prefix))
        || source.eq_ignore_ascii_case(b"'strict-dynamic'")
}

/// A directive with one more source, without `'none'`, which means something only where it is alone.
fn extend(directive: &[u8], source: &[u8]) -> Vec<u8> {
    let is_none = |token: &&[u8]| token.eq_ignore_ascii_case(b"'none'");
    let mut extended = if tokens(directive).any(|token| is_none(&token)) {
        let leading = directive.len() - directive.trim_ascii_start().len();
        let kept: Vec<&[u8]> = tokens(directive).filter(|token| !is_none(token)).collect();
        [&directive[..leading], &kept.join(&b' ')].concat()
    } else {
        directive.trim_ascii_end().to_vec()
    };
    extended.push(b' ');
    extended.extend_from_slice(source);
    extended
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_SECURITY_POLICY, HeaderValue::from_str(value).expect("value"));
        }
        headers
    }

    fn texts(headers: &HeaderMap) -> Vec<&str> {
        headers.get_all(CONTENT_SECURITY_POLICY).iter().map(|value| value.to_str().expect("text")).collect()
    }

    #[test]
    fn only_the_deciding_directive_is_extended() {
        for (before, after, nonce) in [
            ("default-src 'none'", "default-src 'self'", false),
            ("img-src *", "img-src *", false),
            ("script-src https://cdn.test ; img-src *", "script-src https://cdn.test 'self'; img-src *", false),
            ("script-src 'SELF'", "script-src 'SELF'", false),
            ("default-src *", "default-src *", false),
            ("script-src", "script-src 'self'", false),
            ("script-src ;", "script-src 'self';", false),
            ("default-src 'none'; SCRIPT-SRC 'nonce-a'", "default-src 'none'; SCRIPT-SRC 'nonce-a' 'nonce-N'", true),
            ("script-src 'self' 'sha256-x'", "script-src 'self' 'sha256-x' 'nonce-N'", true),
            ("script-src 'Strict-Dynamic'", "script-src 'Strict-Dynamic' 'nonce-N'", true),
            (
                "script-src 'nonce-a'; script-src-elem  'none' ; script-src-elem *",
                "script-src 'nonce-a';  script-src-elem 'self'; script-src-elem *",
                false,
            ),
            ("default-src 'self', script-src x.test", "default-src 'self', script-src x.test 'self'", false),
            ("script-src-elem-x a; default-src b", "script-src-elem-x a; default-src b 'self'", false),
        ] {
            let mut headers = headers(&[before]);
            assert_eq!(allow_own_script(&mut headers, "N"), nonce, "{before}");
            assert_eq!(texts(&headers).concat().replace("  ", " "), after.replace("  ", " "), "{before}");
        }
    }

    #[test]
    fn frame_ancestors_go_and_nothing_else() {
        let mut headers = headers(&[
            "frame-ancestors 'none'",
            "default-src 'self'; Frame-Ancestors 'self' ; img-src *;",
            " img-src  x.test, frame-ancestors https://a.test,frame-src frame-ancestors",
        ]);
        remove_frame_ancestors(&mut headers);
        assert_eq!(texts(&headers), ["default-src 'self'; img-src *;", " img-src  x.test,frame-src frame-ancestors"]);
    }

    /// What a browser decides, written from the specification and not from the code above.
    fn allows(policy: &str, nonce: &str) -> bool {
        let mut seen: Vec<(String, Vec<String>)> = Vec::new();
        for directive in policy.split(';') {
            let mut words = directive.split_ascii_whitespace().map(str::to_owned);
            let Some(name) = words.next().map(|name| name.to_ascii_lowercase()) else { continue };
            if !seen.iter().any(|(known, _)| *known == name) {
                seen.push((name, words.collect()));
            }
        }
        let named = |name: &str| seen.iter().find(|(known, _)| known == name).map(|(_, sources)| sources);
        let Some(sources) = named("script-src-elem").or_else(|| named("script-src")).or_else(|| named("default-src"))
        else {
            return true;
        };
        let has = |wanted: &str| sources.iter().any(|source| source.eq_ignore_ascii_case(wanted));
        let by_nonce = sources.iter().any(|source| *source == format!("'nonce-{nonce}'"));
        by_nonce || ((has("'self'") || has("*")) && !has("'strict-dynamic'"))
    }

    fn policy() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "script-src-elem",
            "Script-Src",
            "script-src",
            "default-src",
            "img-src",
            "frame-ancestors",
            "sandbox",
            "",
        ]);
        let source = prop::sample::select(vec![
            "'none'",
            "'NONE'",
            "'self'",
            "'Self'",
            "*",
            "'unsafe-inline'",
            "'nonce-abc'",
            "'sha256-AAAA='",
            "'strict-dynamic'",
            "https://cdn.test",
            "data:",
            "",
        ]);
        let directive = (name, prop::collection::vec(source, 0..4), prop::sample::select(vec!["", " ", "  ", "\t"]))
            .prop_map(|(name, sources, space)| format!("{space}{name} {}{space}", sources.join(" ")));
        prop::collection::vec(directive, 0..6).prop_map(|directives| directives.join(";"))
    }

    proptest! {
        #[test]
        fn the_script_is_allowed_and_other_directives_stay(policies in prop::collection::vec(policy(), 1..4), one_header: bool) {
            let texts_before: Vec<&str> = policies.iter().map(|policy| policy.trim()).collect();
            let joined = texts_before.join(",");
            let mut map = if one_header { headers(&[&joined]) } else { headers(&texts_before) };
            let used = allow_own_script(&mut map, "N0");
            let after: Vec<String> = texts(&map).join(",").split(',').map(str::to_owned).collect();
            for policy in &after {
                prop_assert!(allows(policy, "N0"), "{:?} -> {:?}", policies, policy);
                prop_assert!(used || !policy.contains("N0"));
            }
            if used {
                prop_assert!(after.iter().any(|policy| policy.contains("'nonce-N0'")));
            }
            // What is not about scripts is the same, in the same order.
            let rest = |policies: &[String]| -> Vec<String> {
                let all = policies.iter().flat_map(|policy| policy.split(';'));
                let others = all.filter(|d| {
                    let name = d.split_ascii_whitespace().next().unwrap_or_default().to_ascii_lowercase();
                    !name.is_empty() && !["script-src-elem", "script-src", "default-src"].contains(&name.as_str())
                });
                others.map(|d| d.trim().to_owned()).collect()
            };
            let before: Vec<String> = joined.split(',').map(str::to_owned).collect();
            prop_assert_eq!(rest(&before), rest(&after));
        }

        #[test]
        fn any_value_is_edited_without_a_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            headers.append(CONTENT_SECURITY_POLICY, value);
            remove_frame_ancestors(&mut headers);
            allow_own_script(&mut headers, "N0");
            let mut twice = headers.clone();
            remove_frame_ancestors(&mut twice);
            prop_assert_eq!(twice, headers);
        }
    }
}
