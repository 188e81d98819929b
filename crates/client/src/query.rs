//! Queries of the listings, and their encoding.

use std::collections::BTreeMap;

use cabana_types::wire::SandboxState;
use url::form_urlencoded::Serializer;

/// Which sandboxes to list.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only these states; empty means all.
    pub states: Vec<SandboxState>,
    /// Also those that failed; with no states, only those.
    pub failed: bool,
    /// Those that have ended, which are listed alone.
    pub ended: bool,
    /// Only those that have all of these metadata entries.
    pub metadata: BTreeMap<String, String>,
    /// Only those of this template (id or alias).
    pub template: Option<String>,
    pub limit: Option<u32>,
    /// Token of the next page, from [`Page`].
    pub next_token: Option<String>,
}

/// One page of a listing.
#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next_token: Option<String>,
}

/// Which events to list.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Rows to skip.
    pub offset: Option<u32>,
    pub limit: Option<u32>,
    /// Oldest first.
    pub oldest_first: bool,
    /// Only these types.
    pub types: Vec<String>,
}

impl ListQuery {
    pub(crate) fn encode(&self) -> String {
        let mut pairs = Vec::new();
        let mut states: Vec<_> = self.states.iter().map(|s| state_name(*s)).collect();
        states.extend(self.failed.then_some("failed"));
        states.extend(self.ended.then_some("ended"));
        if !states.is_empty() {
            pairs.push(("state", states.join(",")));
        }
        if !self.metadata.is_empty() {
            // The API expects names and values to be encoded once more inside the parameter.
            let inner = self.metadata.iter().map(|(k, v)| format!("{}={}", twice(k), twice(v)));
            pairs.push(("metadata", inner.collect::<Vec<_>>().join("&")));
        }
        pairs.extend(self.template.iter().map(|t| ("template", t.clone())));
        pairs.extend(self.limit.iter().map(|l| ("limit", l.to_string())));
        pairs.extend(self.next_token.iter().map(|t| ("nextToken", t.clone())));
        encode(&pairs)
    }
}

impl EventQuery {
    pub(crate) fn encode(&self) -> String {
        let mut pairs = Vec::new();
        pairs.extend(self.offset.iter().map(|n| ("offset", n.to_string())));
        pairs.extend(self.limit.iter().map(|n| ("limit", n.to_string())));
        if self.oldest_first {
            pairs.push(("orderAsc", "true".to_owned()));
        }
        pairs.extend(self.types.iter().map(|t| ("types", t.clone())));
        encode(&pairs)
    }
}

fn state_name(state: SandboxState) -> &'static str {
    match state {
        SandboxState::Running => "running",
        SandboxState::Paused => "paused",
    }
}

fn twice(text: &str) -> String {
    quote(&quote(text))
}

/// Percent-encodes everything that is not a letter, a digit or one of `*-._`.
pub(crate) fn quote(text: &str) -> String {
    // A literal plus has become %2B, so each plus that is left is a space.
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// `?a=b&c=d`, or nothing.
pub(crate) fn encode(pairs: &[(&str, String)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let query = Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("?{}", query.replace('+', "%20"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn metadata_is_encoded_as_the_sdks_do() {
        let query = ListQuery { metadata: [("a b".to_owned(), "c&d".to_owned())].into(), ..Default::default() };
        assert_eq!(query.encode(), "?metadata=a%252520b%3Dc%252526d");
        assert_eq!(ListQuery::default().encode(), "");
    }

    proptest! {
        #[test]
        fn metadata_decodes_back(pairs in proptest::collection::btree_map("\\PC{1,8}", "\\PC{0,8}", 1..4)) {
            let query = ListQuery { metadata: pairs.clone(), ..Default::default() }.encode();
            let outer: BTreeMap<_, _> = url::form_urlencoded::parse(&query.as_bytes()[1..]).into_owned().collect();
            let decode = |t: &str| {
                url::form_urlencoded::parse(format!("x={t}").as_bytes()).next().expect("pair").1.into_owned()
            };
            let inner: BTreeMap<_, _> = url::form_urlencoded::parse(outer["metadata"].as_bytes())
                .map(|(k, v)| (decode(&k), decode(&v)))
                .collect();
            prop_assert_eq!(inner, pairs);
        }
    }
}
