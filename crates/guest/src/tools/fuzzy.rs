//! Fuzzy matching of paths: the letters of a query must occur in a path in their order. Letters that stand together, begin a word or are
//! part of the file's name count more.

const MATCH: i32 = 16;
const CONSECUTIVE: i32 = 8;
const GAP: i32 = 4;
const LONGER_GAP: i32 = 1;
const IN_NAME: i32 = 2;
const WHOLE_NAME: i32 = 40;
/// Characters of a path that are compared letter by letter; the end of longer ones.
const MAX_COMPARED: usize = 1024;
const NEVER: i32 = i32::MIN / 2;

/// A query: words that must all match. It is case-sensitive if it has an upper-case letter.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    words: Vec<Vec<char>>,
    sensitive: bool,
}

/// Buffers, which are used again for every path.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    letters: Vec<char>,
    bonus: Vec<i32>,
    ends: Vec<i32>,
    previous: Vec<i32>,
}

impl Query {
    pub(crate) fn new(text: &str) -> Self {
        let sensitive = text.chars().any(char::is_uppercase);
        let words = text.split_whitespace().map(|word| word.chars().map(|c| fold(c, sensitive)).collect());
        Self { words: words.collect(), sensitive }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How well a path matches; more is better.
    pub(crate) fn score(&self, path: &str, scratch: &mut Scratch) -> Option<i32> {
        scratch.letters.clear();
        scratch.letters.extend(path.chars().map(|c| fold(c, self.sensitive)));
        if !self.words.iter().all(|word| occurs(word, &scratch.letters)) {
            return None;
        }
        let skipped = scratch.letters.len().saturating_sub(MAX_COMPARED);
        scratch.letters.drain(..skipped);
        scratch.rate_places(path, skipped);
        let name: Vec<char> =
            path.rsplit('/').next().unwrap_or(path).chars().map(|c| fold(c, self.sensitive)).collect();
        let mut total = 0;
        for word in &self.words {
            // Not within the compared end: the least that a match is worth.
            total += scratch.best(word).unwrap_or(1);
            if *word == name {
                total += WHOLE_NAME;
            }
        }
        Some(total)
    }
}

impl Scratch {
    /// What a match at each place is worth in addition.
    fn rate_places(&mut self, path: &str, skipped: usize) {
        self.bonus.clear();
        let mut before = '/';
        let mut name_at = 0;
        for (at, letter) in path.chars().skip(skipped).enumerate() {
            self.bonus.push(match (before, letter) {
                ('/' | '\\', _) => 10,
                ('_' | '-' | '.' | ' ', _) => 8,
                (before, letter) if before.is_lowercase() && letter.is_uppercase() => 7,
                (before, letter) if !before.is_numeric() && letter.is_numeric() => 7,
                _ => 0,
            });
            before = letter;
            if letter == '/' {
                name_at = at + 1;
            }
        }
        self.bonus.iter_mut().skip(name_at).for_each(|bonus| *bonus += IN_NAME);
    }

    /// The best way to place a word: for each of its letters in turn, the best score of a match that ends at each place.
    fn best(&mut self, word: &[char]) -> Option<i32> {
        let Self { letters, bonus, ends, previous } = self;
        for (number, wanted) in word.iter().enumerate() {
            std::mem::swap(ends, previous);
            ends.clear();
            // The best match of the letters before that ends before the previous place, less what the gap costs.
            let mut after_gap = NEVER;
            let mut adjacent = NEVER;
            for (at, (letter, bonus)) in letters.iter().zip(&*bonus).enumerate() {
                let score = match (letter == wanted, number) {
                    (false, _) => NEVER,
                    (true, 0) => MATCH + 2 * bonus,
                    (true, _) => {
                        let best = (adjacent + (*bonus).max(CONSECUTIVE)).max(after_gap + bonus);
                        if best > NEVER / 2 { best + MATCH } else { NEVER }
                    }
                };
                ends.push(score);
                if number > 0 {
                    after_gap = (after_gap - LONGER_GAP).max(adjacent - GAP);
                    adjacent = previous.get(at).copied().unwrap_or(NEVER);
                }
            }
        }
        ends.iter().copied().max().filter(|best| *best > NEVER / 2)
    }
}

fn fold(letter: char, sensitive: bool) -> char {
    match () {
        () if sensitive => letter,
        () if letter.is_ascii() => letter.to_ascii_lowercase(),
        () => letter.to_lowercase().next().unwrap_or(letter),
    }
}

fn occurs(word: &[char], letters: &[char]) -> bool {
    let mut letters = letters.iter();
    word.iter().all(|wanted| letters.any(|letter| letter == wanted))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranked(query: &str, paths: &[&str]) -> Vec<String> {
        let (query, mut scratch) = (Query::new(query), Scratch::default());
        let mut found: Vec<_> = paths.iter().filter_map(|p| Some((query.score(p, &mut scratch)?, *p))).collect();
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.len().cmp(&b.1.len())).then(a.1.cmp(b.1)));
        found.into_iter().map(|(_, p)| p.to_owned()).collect()
    }

    #[test]
    fn the_obvious_comes_first() {
        assert_eq!(ranked("main.rs", &["src/domain.rs", "src/main.rs", "m/a/i/n.rs", "main.py"])[0], "src/main.rs");
        assert_eq!(ranked("usrctl", &["src/user_control.rs", "src/unusual_structural.rs"])[0], "src/user_control.rs");
        assert_eq!(ranked("fb", &["xfxb", "src/FooBar.ts"])[0], "src/FooBar.ts");
        assert_eq!(ranked("test route", &["src/route.rs", "tests/route.rs", "tests/x.rs"]), ["tests/route.rs"]);
        assert_eq!(ranked("README", &["readme", "README"]), ["README"]);
        assert_eq!(ranked("ä", &["x/Ä.txt", "a"]), ["x/Ä.txt"]);
        assert_eq!(ranked("config", &["configuration/x/y", "a/config"])[0], "a/config");
    }

    proptest! {
        #[test]
        fn matches_exactly_the_subsequences(query in "[abA/]{1,5}", path in "[abA/._]{0,12}") {
            let sensitive = query.contains('A');
            let fold = |text: &str| if sensitive { text.to_owned() } else { text.to_lowercase() };
            let (wanted, within) = (fold(&query), fold(&path));
            let mut letters = within.chars();
            let expected = wanted.chars().all(|c| letters.any(|l| l == c));
            let score = Query::new(&query).score(&path, &mut Scratch::default());
            prop_assert_eq!(score.is_some(), expected);
            if let Some(score) = score {
                prop_assert!(score > 1, "the best placement was found: {}", score);
            }
        }
    }
}
