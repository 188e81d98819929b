//! Patterns for paths: `*` and `?` stay within a directory, `**` crosses them, `[a-z]` and `\` as usual. Matching takes
//! time in proportion to pattern and path, whatever they say.

const MAX_PATTERN: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    Any,
    /// `*`
    Star,
    /// `**`
    Deep,
    /// `**/`: any number of directories, also none.
    Directories,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A pattern for paths without a slash at the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

/// Whether a text means more than itself.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_PATTERN {
            return Err("the pattern is too long".to_owned());
        }
        let chars: Vec<char> = text.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                '*' if chars.get(at + 1) == Some(&'*') => {
                    while chars.get(at + 1) == Some(&'*') {
                        at += 1;
                    }
                    let begins = matches!(tokens.last(), None | Some(Token::Char('/') | Token::Directories));
                    if begins && chars.get(at + 1) == Some(&'/') {
                        at += 1;
                        tokens.push(Token::Directories);
                    } else {
                        tokens.push(Token::Deep);
                    }
                }
                '*' => tokens.push(Token::Star),
                '?' => tokens.push(Token::Any),
                '[' => tokens.push(class(&chars, &mut at).ok_or_else(|| format!("{text:?}: [ without ]"))?),
                '\\' => {
                    at += 1;
                    let escaped = chars.get(at).ok_or_else(|| format!("{text:?} ends with \\"))?;
                    tokens.push(Token::Char(*escaped));
                }
                c => tokens.push(Token::Char(c)),
            }
            at += 1;
        }
        Ok(Self { tokens })
    }

    /// Whether the whole path is meant.
    pub(super) fn matches(&self, path: &str) -> bool {
        let count = self.tokens.len();
        let mut here = vec![false; count + 1];
        self.enter(&mut here, 0);
        for c in path.chars() {
            let mut next = vec![false; count + 1];
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| here[*at]) {
                match token {
                    Token::Char(wanted) if *wanted == c => self.enter(&mut next, at + 1),
                    Token::Any if c != '/' => self.enter(&mut next, at + 1),
                    Token::Star if c != '/' => self.enter(&mut next, at),
                    Token::Deep => self.enter(&mut next, at),
                    Token::Directories => {
                        // Stays inside without the right to leave, until a directory ends.
                        next[at] = true;
                        if c == '/' {
                            self.enter(&mut next, at + 1);
                        }
                    }
                    Token::Class { negated, ranges }
                        if c != '/' && ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated =>
                    {
                        self.enter(&mut next, at + 1);
                    }
                    _ => {}
                }
            }
            here = next;
        }
        here[count]
    }

    /// Marks a place, and those that follow without a character.
    fn enter(&self, places: &mut [bool], at: usize) {
        let mut at = at;
        loop {
            places[at] = true;
            match self.tokens.get(at) {
                Some(Token::Star | Token::Deep | Token::Directories) => at += 1,
                _ => return,
            }
        }
    }
}

/// At `[`; ends at `]`.
fn class(chars: &[char], at: &mut usize) -> Option<Token> {
    let mut ranges = Vec::new();
    let mut i = *at + 1;
    let negated = matches!(chars.get(i), Some('^' | '!'));
    if negated {
        i += 1;
    }
    let one = |i: &mut usize| -> Option<char> {
        if chars.get(*i) == Some(&'\\') {
            *i += 1;
        }
        let c = *chars.get(*i)?;
        *i += 1;
        Some(c)
    };
    loop {
        if chars.get(i) == Some(&']') && !ranges.is_empty() {
            *at = i;
            return Some(Token::Class { negated, ranges });
        }
        let low = one(&mut i)?;
        let high = if chars.get(i) == Some(&'-') && chars.get(i + 1) != Some(&']') {
            i += 1;
            one(&mut i)?
        } else {
            low
        };
        ranges.push((low, high));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_mean_what_people_know() {
        for (pattern, yes, no) in [
            ("*.rs", &["a.rs", ".rs"][..], &["a.r", "d/a.rs", "a.rsx"][..]),
            ("a?c", &["abc"], &["ac", "a/c", "abbc"]),
            ("**/a", &["a", "x/a", "x/y/a"], &["xa", "x/ya", "a/x"]),
            ("a/**", &["a/", "a/b", "a/b/c"], &["a", "b/a"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb"]),
            ("**", &["a", "a/b", ""], &[]),
            ("**/*.log", &["a.log", "x/y/a.log"], &["a.log/x"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x"]),
            ("[^a-c]x", &["dx"], &["ax", "/x"]),
            ("a\\*b", &["a*b"], &["axb"]),
            ("x[]]y", &["x]y"], &["xy"]),
            ("f**o", &["fo", "fxo", "fx/o"], &["f"]),
            ("", &[""], &["a"]),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            yes.iter().for_each(|path| assert!(parsed.matches(path), "{pattern} {path}"));
            no.iter().for_each(|path| assert!(!parsed.matches(path), "{pattern} {path}"));
        }
        for bad in ["[", "[a", "a\\", "[a-"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = Pattern::parse(&"*a".repeat(1000)).unwrap();
        let begin = std::time::Instant::now();
        assert!(!pattern.matches(&format!("{}b", "a".repeat(4000))));
        assert!(begin.elapsed() < std::time::Duration::from_secs(5));
    }

    proptest! {
        #[test]
        fn a_plain_text_means_itself(text in "[a-z/._-]{0,20}", other in "[a-z/._-]{0,20}") {
            let pattern = Pattern::parse(&text).unwrap();
            prop_assert!(pattern.matches(&text));
            prop_assert_eq!(pattern.matches(&other), text == other);
        }

        #[test]
        fn any_pattern_is_read_or_refused(pattern in "[a*?\\[\\]^!\\\\/-]{0,12}", path in "[a/]{0,12}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let _ = pattern.matches(&path);
            }
        }
    }
}
