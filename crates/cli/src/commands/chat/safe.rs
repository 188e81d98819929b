//! Neutralises the output of tools for a terminal. Of all sequences only those that set colours are kept.

use crate::output::is_control;

/// Longest sequence that is waited for.
const MAX_SEQUENCE: usize = 64;

/// Cleans output that comes in pieces: a sequence may be split anywhere.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Whether colours are kept.
    colours: bool,
    /// The beginning of something whose end has not come.
    held: String,
}

impl Cleaner {
    pub(super) fn new(colours: bool) -> Self {
        Self { colours, held: String::new() }
    }

    /// What may be shown now.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut input = std::mem::take(&mut self.held);
        input.push_str(text);
        let mut shown = String::with_capacity(input.len());
        let mut rest = input.as_str();
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            rest = match c {
                '\u{1b}' => match sequence(after) {
                    Sequence::Cut if after.len() < MAX_SEQUENCE => {
                        rest.clone_into(&mut self.held);
                        return shown;
                    }
                    Sequence::Control { length, colour } => {
                        if colour && self.colours {
                            shown.push('\u{1b}');
                            shown.push_str(&after[..length]);
                        }
                        &after[length..]
                    }
                    Sequence::Cut | Sequence::Other => {
                        shown.push('\u{fffd}');
                        after
                    }
                },
                // A line that is written over is shown as another line.
                '\r' if after.is_empty() => {
                    self.held.push('\r');
                    return shown;
                }
                '\r' => {
                    shown.push('\n');
                    after.strip_prefix('\n').unwrap_or(after)
                }
                c => {
                    shown.push(if is_control(c) { '\u{fffd}' } else { c });
                    after
                }
            };
        }
        shown
    }
}

enum Sequence {
    /// `[ … final`, all of it.
    Control {
        length: usize,
        colour: bool,
    },
    /// Its end is missing.
    Cut,
    Other,
}

/// What follows an escape character.
fn sequence(text: &str) -> Sequence {
    let bytes = text.as_bytes();
    match bytes.first() {
        None => return Sequence::Cut,
        Some(b'[') => {}
        Some(_) => return Sequence::Other,
    }
    for (index, byte) in bytes.iter().enumerate().skip(1).take(MAX_SEQUENCE) {
        match byte {
            0x20..=0x3f => {}
            0x40..=0x7e => {
                let colour = *byte == b'm' && is_colour(&text[1..index]);
                return Sequence::Control { length: index + 1, colour };
            }
            _ => return Sequence::Other,
        }
    }
    if bytes.len() > MAX_SEQUENCE { Sequence::Other } else { Sequence::Cut }
}

/// Whether parameters set colours and weights, and hide nothing.
fn is_colour(parameters: &str) -> bool {
    let mut numbers = parameters.split(';');
    while let Some(number) = numbers.next() {
        match number {
            // A colour by its index or by its parts.
            "38" | "48" => match numbers.next() {
                Some("5") => drop(numbers.next()),
                Some("2") => drop((numbers.next(), numbers.next(), numbers.next())),
                _ => return false,
            },
            "" => {}
            number => match number.parse::<u8>() {
                // 5 and 6 blink, 8 hides.
                Ok(5 | 6 | 8) | Err(_) => return false,
                Ok(_) => {}
            },
        }
    }
    parameters.bytes().all(|b| b.is_ascii_digit() || b == b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(colours: bool, pieces: &[&str]) -> String {
        let mut cleaner = Cleaner::new(colours);
        pieces.iter().map(|piece| cleaner.push(piece)).collect()
    }

    #[test]
    fn only_colours_are_kept() {
        for (text, expected) in [
            ("plain ü\n\ttext", "plain ü\n\ttext"),
            ("\u{1b}[1;31mred\u{1b}[0m\u{1b}[m", "\u{1b}[1;31mred\u{1b}[0m\u{1b}[m"),
            ("\u{1b}[38;5;8mgrey \u{1b}[48;2;8;8;8m", "\u{1b}[38;5;8mgrey \u{1b}[48;2;8;8;8m"),
            ("\u{1b}[8mhidden", "hidden"),
            ("\u{1b}[1;8mhidden", "hidden"),
            ("\u{1b}[38;8mhidden", "hidden"),
            ("a\u{1b}[2J\u{1b}[H\u{1b}[?25lb", "ab"),
            ("\u{1b}]0;title\u{7}x", "\u{fffd}]0;title\u{fffd}x"),
            ("\u{1b}P1$r\u{1b}\\", "\u{fffd}P1$r\u{fffd}\\"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("\u{202e}evil\u{200f}\u{61c}", "\u{fffd}evil\u{fffd}\u{fffd}"),
            ("10 %\r20 %\r\nend\u{8}", "10 %\n20 %\nend\u{fffd}"),
            ("\u{1b}[ü", "\u{fffd}[ü"),
        ] {
            assert_eq!(all(true, &[text]), expected, "{text:?}");
        }
        assert_eq!(all(false, &["\u{1b}[31mred\u{1b}[0m"]), "red");
    }

    #[test]
    fn sequences_may_be_split_anywhere() {
        let text = "a\u{1b}[1;31mb\u{1b}[2Kc\r\nd\u{1b}]0;x\u{7}e";
        let expected = all(true, &[text]);
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            assert_eq!(all(true, &[&text[..at], &text[at..]]), expected, "{at}");
        }
        let endless = format!("\u{1b}[{}", "1;".repeat(100));
        assert!(all(true, &[&endless, "x"]).ends_with('x'), "nothing is held back for ever");
    }
}
