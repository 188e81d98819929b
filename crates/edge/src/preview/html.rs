//! Finds the place for a script at the beginning of an HTML document: right after `<head>`, so that it runs before all
//! others.
//!
//! It reads as browsers do, but only what can stand before `<head>`: white space, comments, the doctype and `<html>`.
//! Anything else begins the head implicitly, so the place is known at once and nothing is held back.

/// Bytes in which the place must be found.
pub(super) const MAX_SCANNED: usize = 4096;

/// Finds the place in the beginning of a document; `None` if it depends on what follows. Is never `None` if `complete`.
pub(super) fn place(beginning: &[u8], complete: bool) -> Option<usize> {
    let complete = complete || beginning.len() >= MAX_SCANNED;
    let text = &beginning[..beginning.len().min(MAX_SCANNED)];
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if text.len() < MARK.len() && MARK.starts_with(text) && !complete {
        return None;
    }
    let mut at = if text.starts_with(MARK) { MARK.len() } else { 0 };
    // The best place so far.
    let mut place = at;
    loop {
        at += text[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        match next(&text[at..]) {
            Next::Skip(length) => at += length,
            Next::After(length) => {
                at += length;
                place = at;
            }
            Next::Head(length) => return Some(at + length),
            Next::Other => return Some(place),
            Next::Unfinished if complete => return Some(place),
            Next::Unfinished => return None,
        }
    }
}

/// What stands at a place, with its length.
enum Next {
    /// A comment.
    Skip(usize),
    /// A doctype or `<html>`.
    After(usize),
    Head(usize),
    Other,
    /// It cannot be told yet.
    Unfinished,
}

fn next(text: &[u8]) -> Next {
    let begins = |word: &str| begins(text, word);
    let could = |word: &str| text.len() < word.len() && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text);
    if begins("<!--") {
        return comment(text).map_or(Next::Unfinished, Next::Skip);
    }
    if begins("<!doctype") {
        return until_bracket(text).map_or(Next::Unfinished, Next::After);
    }
    if ["<!--", "<!doctype", "<html", "<head", "<?"].iter().any(|word| could(word)) {
        return Next::Unfinished;
    }
    if begins("<!") || begins("<?") {
        // Browsers take these for comments.
        return until_bracket(text).map_or(Next::Unfinished, Next::Skip);
    }
    for word in ["<html", "<head"] {
        if begins(word) {
            return match text.get(word.len()) {
                None => Next::Unfinished,
                Some(b) if b.is_ascii_whitespace() || matches!(b, b'/' | b'>') => match tag(text) {
                    None => Next::Unfinished,
                    Some(length) if word == "<head" => Next::Head(length),
                    Some(length) => Next::After(length),
                },
                Some(_) => Next::Other,
            };
        }
    }
    Next::Other
}

fn begins(text: &[u8], word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// Length up to and with the next `>`, which ends a doctype also in the middle of a quoted part.
fn until_bracket(text: &[u8]) -> Option<usize> {
    text.iter().position(|b| *b == b'>').map(|at| at + 1)
}

/// Length of a comment. `<!-->` and `<!--->` are whole ones.
fn comment(text: &[u8]) -> Option<usize> {
    let inside = &text[4..];
    for short in ["->", ">"] {
        if inside.starts_with(short.as_bytes()) {
            return Some(4 + short.len());
        }
    }
    if inside.is_empty() || inside == b"-" {
        return None;
    }
    (0..inside.len()).find_map(|at| {
        let rest = &inside[at..];
        let end = ["-->", "--!>"].iter().find(|end| rest.starts_with(end.as_bytes()))?;
        Some(4 + at + end.len())
    })
}

/// Length of a start tag: a `>` in a quoted value does not end it, and quotation marks elsewhere mean nothing.
fn tag(text: &[u8]) -> Option<usize> {
    enum State {
        Name,
        BeforeValue,
        Unquoted,
        Quoted(u8),
    }
    // Whether an attribute has a name by now, so that `=` begins its value.
    let mut named = false;
    let mut state = State::Name;
    for (at, b) in text.iter().enumerate().skip("<html".len()) {
        state = match (state, b) {
            (State::Quoted(mark), b) if *b == mark => {
                named = false;
                State::Name
            }
            (State::Quoted(mark), _) => State::Quoted(mark),
            (_, b'>') => return Some(at + 1),
            (State::Name, b'=') if named => State::BeforeValue,
            (State::Name, b'/') => {
                named = false;
                State::Name
            }
            (State::Name, b) => {
                named |= !b.is_ascii_whitespace();
                State::Name
            }
            (State::BeforeValue, b) if b.is_ascii_whitespace() => State::BeforeValue,
            (State::BeforeValue, b'"' | b'\'') => State::Quoted(*b),
            (State::BeforeValue, _) => State::Unquoted,
            (State::Unquoted, b) if b.is_ascii_whitespace() => {
                named = false;
                State::Name
            }
            (State::Unquoted, _) => State::Unquoted,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Marks the place with `|`.
    fn marked(text: &str) -> String {
        let at = place(text.as_bytes(), true).expect("a place");
        format!("{}|{}", &text[..at], &text[at..])
    }

    #[test]
    fn places() {
        for expected in [
            "<!doctype html><html><head>|<title>x</title></head>",
            "\u{feff}\n<!DOCTYPE html>\n<HTML lang=en>\n<HEAD data-x='a>b' y=\"<head>\">|<meta>",
            "<!-- <head> --><!doctype html><!-- > --><head>|",
            "<!--><head>|--><head>",
            "<!---><head>|",
            "<!-- a --!><head>|",
            "<?xml version=\"1.0\"?><head>|",
            "<!doctype html public \">|\"><head>",
            "<!doctype html>|<title>x</title><head>",
            "<html a=b/c>|<p>",
            "<html>|<body><head>",
            "<html =\"a>|\"><head>",
            "<html a\"b>|x",
            "<html a =\n'>' b=>|x",
            "<head/>|x",
            "<head\n>|x",
            "|<header><head>",
            "|<htmlx><head>",
            "|text <head>",
            "|</html><head>",
            "|<script>'<head>'</script>",
            "\u{feff}|x",
            "|",
            "<html>|<!-- unfinished",
            "<html>|<head unfinished='>",
        ] {
            assert_eq!(marked(&expected.replace('|', "")), expected);
        }
    }

    #[test]
    fn it_is_known_as_soon_as_possible() {
        for (text, expected) in
            [("<!doctype html><t", Some(15)), ("<p", Some(0)), ("x", Some(0)), ("<he", None), ("<!", None)]
        {
            assert_eq!(place(text.as_bytes(), false), expected, "{text}");
        }
        assert_eq!(place(&[0xef, 0xbb], false), None);
        assert_eq!(place(b"", false), None);
    }

    #[test]
    fn the_search_is_bounded() {
        let long = format!("<html><!--{}--><head>", "x".repeat(MAX_SCANNED));
        assert_eq!(place(long.as_bytes(), false), Some(6));
        let spaces = vec![b' '; 10 * MAX_SCANNED];
        assert_eq!(place(&spaces, false), Some(0));
    }

    proptest! {
        /// More bytes never change a place that was known.
        #[test]
        fn a_place_is_final(parts in prop::collection::vec(prop::sample::select(vec![
            "<!--", "-->", "--!>", "<!doctype html>", "<html", "<head", ">", "\"", "'", "=", " ", "a", "/", "<", "!",
            "<title>", "\u{feff}", "-",
        ]), 0..30)) {
            let text = parts.concat();
            let last = place(text.as_bytes(), true).expect("a place");
            for end in 0..=text.len() {
                if let Some(at) = place(&text.as_bytes()[..end], false) {
                    prop_assert_eq!(at, last, "{:?} after {}", text, end);
                    prop_assert!(at <= end);
                }
            }
        }
    }
}
