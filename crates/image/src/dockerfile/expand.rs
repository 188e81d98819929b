//! Quotes and variables in the words of instructions: `$x`, `${x}`, `${x:-y}`, `${x:+y}`, `${x:?y}`.

use std::collections::BTreeMap;

/// Values grow by each use: a few lines could ask for gigabytes.
const MAX_RESULT: usize = 1 << 20;
const MAX_DEPTH: usize = 16;
/// Stands for empty quotes, which are a word of their own. Dockerfiles have no NUL.
const EMPTY: char = '\0';

/// Reads words with the values of variables.
pub(super) struct Expansion<'a> {
    pub(super) values: &'a BTreeMap<String, String>,
    pub(super) escape: char,
}

/// A character, and whether quotes kept it together with its neighbours.
type Marked = (char, bool);

impl Expansion<'_> {
    /// One word: quotes go, variables become their values.
    pub(super) fn word(&self, text: &str) -> Result<String, String> {
        Ok(self.marked(text)?.into_iter().map(|(c, _)| c).filter(|c| *c != EMPTY).collect())
    }

    /// Several words: spaces that are not quoted divide, also those in values.
    pub(super) fn words(&self, text: &str) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        for (c, quoted) in self.marked(text)? {
            match (c, quoted) {
                (EMPTY, true) => {
                    word.get_or_insert_default();
                }
                (c, false) if c.is_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        Ok(words)
    }

    /// A text in which only variables mean something (heredocs).
    pub(super) fn text(&self, text: &str) -> Result<String, String> {
        let chars: Vec<char> = text.chars().collect();
        let mut out = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                c if c == self.escape && matches!(chars.get(at + 1), Some('$')) => {
                    out.push(('$', true));
                    at += 2;
                }
                '$' => self.variable(&chars, &mut at, true, &mut out, 0)?,
                c => {
                    out.push((c, true));
                    at += 1;
                }
            }
            check(&out)?;
        }
        Ok(out.into_iter().map(|(c, _)| c).collect())
    }

    fn marked(&self, text: &str) -> Result<Vec<Marked>, String> {
        let chars: Vec<char> = text.chars().collect();
        let mut out = Vec::new();
        self.read(&chars, &mut out, 0)?;
        Ok(out)
    }

    fn read(&self, chars: &[char], out: &mut Vec<Marked>, depth: usize) -> Result<(), String> {
        let mut quote: Option<char> = None;
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            match quote {
                Some('\'') if c == '\'' => quote = None,
                Some('\'') => out.push((c, true)),
                Some(_) if c == '"' => quote = None,
                None if c == '\'' || c == '"' => {
                    quote = Some(c);
                    if chars.get(at + 1) == Some(&c) && depth == 0 {
                        out.push((EMPTY, true));
                    }
                }
                _ if c == self.escape => {
                    match (quote, chars.get(at + 1)) {
                        // In double quotes it only escapes what would mean something there.
                        (Some(_), Some(next)) if !matches!(next, '"' | '$') && *next != self.escape => {
                            out.push((c, true));
                        }
                        (_, Some(next)) => {
                            out.push((*next, true));
                            at += 1;
                        }
                        (_, None) => out.push((c, true)),
                    }
                }
                _ if c == '$' => {
                    self.variable(chars, &mut at, quote.is_some(), out, depth)?;
                    check(out)?;
                    continue;
                }
                _ => out.push((c, quote.is_some())),
            }
            at += 1;
            check(out)?;
        }
        match quote {
            Some(open) => Err(format!("the quote {open} does not end")),
            None => Ok(()),
        }
    }

    /// At a `$`; moves behind what belongs to it.
    fn variable(
        &self,
        chars: &[char],
        at: &mut usize,
        quoted: bool,
        out: &mut Vec<Marked>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("variables are nested too deep".to_owned());
        }
        *at += 1;
        let mut put = |text: &str| out.extend(text.chars().map(|c| (c, quoted)));
        match chars.get(*at) {
            Some('{') => {}
            Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
                let name: String =
                    chars[*at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
                *at += name.len();
                put(self.value(&name).unwrap_or_default());
                return Ok(());
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '$') => {
                *at += 1;
                return Ok(());
            }
            _ => {
                put("$");
                return Ok(());
            }
        }
        let end = closing(chars, *at, self.escape).ok_or("${ without }")?;
        let inner = &chars[*at + 1..end];
        *at = end + 1;
        let name: String = inner.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("${{{}}} names no variable", inner.iter().take(40).collect::<String>()));
        }
        let rest = &inner[name.len()..];
        let value = self.value(&name);
        let (colon, rest) =
            rest.split_first().filter(|(c, _)| **c == ':').map_or((false, rest), |(_, rest)| (true, rest));
        let there = value.is_some_and(|value| !colon || !value.is_empty());
        let Some((operator, word)) = rest.split_first() else {
            if colon {
                return Err(format!("${{{name}:}} is not understood"));
            }
            put(value.unwrap_or_default());
            return Ok(());
        };
        match operator {
            '-' if there => put(value.unwrap_or_default()),
            '-' => self.nested(word, quoted, out, depth)?,
            '+' if there => self.nested(word, quoted, out, depth)?,
            '+' => {}
            '?' if there => put(value.unwrap_or_default()),
            '?' => {
                let said: String = word.iter().take(200).collect();
                return Err(format!("{name} is not set{}{said}", if said.is_empty() { "" } else { ": " }));
            }
            _ => return Err(format!("${{{name}…}}: of the forms of variables only :- :+ :? - + ? are known")),
        }
        Ok(())
    }

    fn nested(&self, word: &[char], quoted: bool, out: &mut Vec<Marked>, depth: usize) -> Result<(), String> {
        let mut inner = Vec::new();
        self.read(word, &mut inner, depth + 1)?;
        out.extend(inner.into_iter().map(|(c, q)| (c, q || quoted)));
        check(out)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
}

fn check(out: &[Marked]) -> Result<(), String> {
    if out.len() > MAX_RESULT { Err("the value becomes too long".to_owned()) } else { Ok(()) }
}

/// The `}` that belongs to the `{` at `open`.
fn closing(chars: &[char], open: usize, escape: char) -> Option<usize> {
    let mut depth = 0;
    let mut at = open;
    while at < chars.len() {
        match chars[at] {
            c if c == escape => at += 1,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> BTreeMap<String, String> {
        [("A", "one two"), ("E", ""), ("B_1", "x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    fn words(text: &str) -> Result<Vec<String>, String> {
        Expansion { values: &values(), escape: '\\' }.words(text)
    }

    #[test]
    fn variables_and_quotes() {
        for (text, expected) in [
            ("$A", &["one", "two"][..]),
            ("\"$A\"", &["one two"]),
            ("'$A'", &["$A"]),
            ("\\$A", &["$A"]),
            ("x${B_1}y", &["xxy"]),
            ("$B_1.z $NONE end", &["x.z", "end"]),
            ("${NONE:-d} ${E:-d} ${E-d} ${NONE-d}", &["d", "d", "d"]),
            ("${A:+yes}${E:+no}${E+yes}${NONE+no}", &["yesyes"]),
            ("${NONE:-${ALSO:-${B_1}}}", &["x"]),
            ("${NONE:-\"a b\"} c", &["a b", "c"]),
            ("a\\ b", &["a b"]),
            ("\"a\\\"b\\n\"", &["a\"b\\n"]),
            ("'' \"\" a\"\"b", &["", "", "ab"]),
            ("$ 5$", &["$", "5$"]),
            ("", &[]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        for bad in ["'a", "\"a", "${A", "${}", "${A:}", "${A%x}", "${NONE:?must be set}", "${1x}"] {
            assert!(words(bad).is_err(), "{bad}");
        }
        assert!(words("${NONE:?must be set}").unwrap_err().contains("must be set"));
    }

    #[test]
    fn growth_is_bounded() {
        let values = BTreeMap::from([("A".to_owned(), "x".repeat(400_000))]);
        let expansion = Expansion { values: &values, escape: '\\' };
        assert!(
            expansion.word("$A$A").is_ok() && expansion.word("$A$A$A").is_err() && expansion.text("$A$A$A").is_err()
        );
        let deep = format!("{}x{}", "${N:-".repeat(5000), "}".repeat(5000));
        assert!(expansion.word(&deep).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[$AE{}:\\-+?'\"\\\\ x`\u{e9}]{0,40}") {
            for escape in ['\\', '`'] {
                let values = values();
                let expansion = Expansion { values: &values, escape };
                let _ = (expansion.word(&text), expansion.words(&text), expansion.text(&text));
            }
        }

        #[test]
        fn single_quotes_keep_everything(text in "[^'\\x00]{1,40}") {
            prop_assert_eq!(words(&format!("'{text}'")).unwrap(), [text]);
        }
    }
}
