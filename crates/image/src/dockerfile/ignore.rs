//! `.dockerignore`: which files of a build context are not there.

use super::glob::Pattern;

const MAX_LINES: usize = 10_000;

/// The rules of a `.dockerignore` file; the last one that fits counts.
#[derive(Debug, Clone, Default)]
pub struct Ignore {
    rules: Vec<(Pattern, bool)>,
}

impl Ignore {
    /// Reads the file. The error says the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            // Only at the beginning of a line is this a comment.
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let line = line.trim();
            let (keeps, pattern) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest.trim()));
            let pattern = clean(pattern);
            if pattern.is_empty() {
                continue;
            }
            let parsed =
                Pattern::parse(&pattern).map_err(|error| format!(".dockerignore line {}: {error}", number + 1))?;
            rules.push((parsed, keeps));
            if rules.len() > MAX_LINES {
                return Err(format!(".dockerignore has more than {MAX_LINES} lines"));
            }
        }
        Ok(Self { rules })
    }

    /// Whether the file of this path (relative, no slash at its ends) is not there. A rule for a directory is one for all
    /// in it.
    pub fn excludes(&self, path: &str) -> bool {
        let mut excluded = false;
        for (pattern, keeps) in &self.rules {
            // A rule that would change nothing need not be tried.
            if excluded == *keeps && parents(path).any(|part| pattern.matches(part)) {
                excluded = !keeps;
            }
        }
        excluded
    }

    /// Whether a directory can be left out without looking into it: no later rule could bring something back.
    pub(super) fn excludes_all(&self, path: &str) -> bool {
        self.excludes(path) && !self.rules.iter().any(|(_, keeps)| *keeps)
    }
}

/// `a/b/c` → `a`, `a/b`, `a/b/c`.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain(std::iter::once(path))
}

/// Without `.`, `..` and slashes at the ends.
fn clean(pattern: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_fits_counts() {
        let ignore = Ignore::parse(
            "# comment\n\n/target/\n*.log\n!keep.log\n**/node_modules\ndocs/*\n!docs/README.md\n  spaced  \n./dot/./x\n#hash",
        )
        .unwrap();
        for gone in [
            "target",
            "target/a/b",
            "a.log",
            "x/node_modules/y",
            "node_modules",
            "docs/a",
            "docs/a/b",
            "spaced",
            "dot/x",
        ] {
            assert!(ignore.excludes(gone), "{gone}");
        }
        for there in ["targets", "x/target", "keep.log", "d/a.log", "docs", "docs/README.md", "#hash"] {
            assert!(!ignore.excludes(there), "{there}");
        }
        assert!(Ignore::parse("a\n[").unwrap_err().contains("line 2"));
        assert!(!Ignore::default().excludes("x"));
        let all = Ignore::parse("**\n!src\n!*.toml").unwrap();
        assert!(all.excludes("a/b") && !all.excludes("src/x.rs") && !all.excludes("Cargo.toml"));
    }
}
