//! Output of services as lines. It is untrusted: bounded, without escape sequences and control characters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cabana_types::service::{LAST_LINES, MAX_LINE};

/// Characters of a name or status.
const MAX_SHOWN: usize = 200;

/// The bytes of an answer of the guest.
pub(super) fn decode(data: &str) -> Vec<u8> {
    STANDARD.decode(data).unwrap_or_default()
}

/// The last lines of some output.
pub(super) fn last(data: &[u8], most: usize) -> Vec<String> {
    let text = plain(&String::from_utf8_lossy(data));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| cut(line)).collect()
}

/// Without escape sequences, and of a line that was written over, its last form.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.next() {
                // Until its final letter.
                Some('[') => while letters.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                // Until its terminator.
                Some(']') => {
                    while let Some(c) = letters.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' if letters.peek() == Some(&'\n') => {}
            '\r' => out.truncate(out.rfind('\n').map_or(0, |end| end + 1)),
            letter => out.push(letter),
        }
    }
    out
}

/// Those that a description has.
pub(super) fn described(data: &[u8]) -> Vec<String> {
    last(data, LAST_LINES)
}

/// A line without control characters, cut to its bound.
pub(super) fn cut(line: &str) -> String {
    let clean = |c: &char| *c == '\t' || !c.is_control();
    let mut text: String = line.chars().filter(clean).take(MAX_LINE).collect();
    if line.chars().filter(clean).nth(MAX_LINE).is_some() {
        text.push('…');
    }
    text
}

/// A short text of the guest.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cleaned_and_cut() {
        let data = b"one\n\x1b[31mtwo\x1b[0m\nthr\xffee\x07\n";
        assert_eq!(last(data, 2), ["two", "thr\u{fffd}ee"]);
        assert_eq!(last(b"", 5), Vec::<String>::new());
        assert_eq!(last(b"10 %\r20 %\r\nsame\nsame\n\x1b]0;title\x07end\x1b[", 9), ["20 %", "same", "same", "end"]);
        assert_eq!(cut(&"x".repeat(MAX_LINE + 1)).chars().count(), MAX_LINE + 1);
        assert!(cut(&"x".repeat(MAX_LINE + 1)).ends_with('…'));
        assert_eq!(cut("a\tb\u{1b}"), "a\tb");
    }
}
