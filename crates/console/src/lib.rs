//! The files of the web console, embedded: what `console/` builds, each with its compressed forms beside it.

#![forbid(unsafe_code)]

/// Paths below `console/dist` and their contents, sorted by path.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A file by its path, such as `index.html` or `assets/x.js.br`.
pub fn file(path: &str) -> Option<&'static [u8]> {
    let at = FILES.binary_search_by_key(&path, |(name, _)| name).ok()?;
    FILES.get(at).map(|(_, content)| *content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_page() {
        assert!(FILES.is_sorted_by_key(|(name, _)| name));
        assert!(file("index.html").is_some_and(|page| page.starts_with(b"<!doctype html>")));
        assert!(file("index.htm").is_none() && file("").is_none());
    }
}
