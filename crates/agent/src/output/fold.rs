//! Text as a terminal would show it in the end, with repeated lines folded.

use std::iter::Peekable;
use std::str::Chars;

/// Equal lines in a row that are folded, at least.
const RUN: usize = 4;
/// Characters of one escape sequence; a longer one is not one.
const MAX_SEQUENCE: usize = 4096;

/// Removes escape sequences and control characters, applies carriage returns, backspaces and erased lines, and folds equal lines in a row.
/// A progress bar is left with its last state.
pub fn fold(text: &str) -> String {
    let mut folded = Folder { text: String::with_capacity(text.len()), last: None, run: 0 };
    for line in text.split_inclusive('\n') {
        let (line, newline) = line.strip_suffix('\n').map_or((line, false), |line| (line, true));
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.contains(|c: char| c.is_control() && c != '\t') {
            folded.line(&Screen::show(line), newline);
        } else {
            folded.line(line, newline);
        }
    }
    folded.end_run();
    folded.text
}

/// Folds equal lines.
#[derive(Debug)]
struct Folder {
    text: String,
    /// The line before, and where its second copy begins.
    last: Option<(String, usize)>,
    /// Copies of it after the first.
    run: usize,
}

impl Folder {
    fn line(&mut self, line: &str, newline: bool) {
        let repeats = newline && self.last.as_ref().is_some_and(|(last, _)| last == line);
        if repeats {
            self.run += 1;
            // More copies are not kept: they will be folded.
            if self.run >= RUN {
                return;
            }
        } else {
            self.end_run();
        }
        self.text.push_str(line);
        if newline {
            self.text.push('\n');
        }
        if !repeats {
            self.last = newline.then(|| (line.to_owned(), self.text.len()));
        }
    }

    fn end_run(&mut self) {
        if let Some((_, second)) = self.last.take()
            && self.run + 1 >= RUN
        {
            self.text.truncate(second);
            self.text.push_str(&format!("[… repeated {} more times …]\n", self.run));
        }
        self.run = 0;
    }
}

/// One line of a terminal.
#[derive(Debug, Default)]
struct Screen {
    line: Vec<char>,
    cursor: usize,
}

impl Screen {
    fn show(text: &str) -> String {
        let mut screen = Self::default();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\r' => screen.cursor = 0,
                '\u{8}' => screen.cursor = screen.cursor.saturating_sub(1),
                '\u{1b}' => screen.escape(&mut chars),
                '\u{9b}' => screen.control(&mut chars),
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
                '\t' => screen.put(c),
                c if c.is_control() => {}
                c => screen.put(c),
            }
        }
        screen.line.into_iter().collect()
    }

    fn put(&mut self, c: char) {
        if let Some(there) = self.line.get_mut(self.cursor) {
            *there = c;
        } else {
            self.line.push(c);
        }
        self.cursor += 1;
    }

    /// What follows an escape character.
    fn escape(&mut self, chars: &mut Peekable<Chars<'_>>) {
        match chars.peek() {
            Some('[') => {
                chars.next();
                self.control(chars);
            }
            Some(']' | 'P' | 'X' | '^' | '_') => {
                chars.next();
                skip_string(chars);
            }
            _ => {
                while chars.next_if(|c| (' '..='/').contains(c)).is_some() {}
                chars.next_if(|c| ('0'..='~').contains(c));
            }
        }
    }

    /// A control sequence: parameters, and a letter that says what it does.
    fn control(&mut self, chars: &mut Peekable<Chars<'_>>) {
        let mut parameters = String::new();
        while let Some(c) = chars.next_if(|c| (' '..='?').contains(c)) {
            if parameters.len() < MAX_SEQUENCE {
                parameters.push(c);
            }
        }
        let number: usize = parameters.parse().unwrap_or(0);
        match chars.next_if(|c| ('@'..='~').contains(c)) {
            // Erases to the end, from the beginning, or the whole line.
            Some('K') => match number {
                0 => self.line.truncate(self.cursor),
                1 => self.line.iter_mut().take(self.cursor + 1).for_each(|c| *c = ' '),
                _ => {
                    self.line.clear();
                    self.cursor = 0;
                }
            },
            Some('G') => self.cursor = number.saturating_sub(1).min(self.line.len()),
            Some('D') => self.cursor = self.cursor.saturating_sub(number.max(1)),
            Some('C') => self.cursor = (self.cursor + number.clamp(1, MAX_SEQUENCE)).min(self.line.len()),
            _ => {}
        }
    }
}

/// Skips a string for the terminal, such as a title or a link, up to its end or the end of the line.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    let mut skipped = 0;
    while let Some(c) = chars.peek().copied() {
        match c {
            '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}' => {
                chars.next();
                return;
            }
            '\u{1b}' => {
                chars.next();
                chars.next_if_eq(&'\\');
                return;
            }
            _ if skipped == MAX_SEQUENCE => return,
            _ => {
                chars.next();
                skipped += 1;
            }
        }
    }
}
