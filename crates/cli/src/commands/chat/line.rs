//! A line that a person edits: what keys do to it, and what is shown of it.

/// A key, or several at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Paste(String),
    Backspace,
    Delete,
    Left,
    Right,
    Home,
    End,
    Up,
    Down,
    Enter,
    /// Removes everything before the cursor.
    Cut,
    /// Removes the word before the cursor.
    CutWord,
    /// Ctrl-C: removes everything, and leaves an empty line.
    Interrupt,
    /// Ctrl-D.
    EndOfInput,
}

/// What a key led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// The line goes on.
    More,
    Done(String),
    Interrupt,
    End,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    text: Vec<char>,
    cursor: usize,
    /// Which earlier line is shown, counted from the end.
    back: usize,
    /// What was typed before an earlier line was shown.
    draft: Vec<char>,
}

impl Line {
    pub(super) fn press(&mut self, key: Key, history: &[String]) -> Edit {
        match key {
            Key::Char(c) => self.insert(&[c]),
            Key::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                self.insert(&text.chars().collect::<Vec<_>>());
            }
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.text.remove(self.cursor);
            }
            Key::Delete | Key::EndOfInput if self.cursor < self.text.len() => {
                self.text.remove(self.cursor);
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.text.len(),
            Key::Up => self.recall(history, self.back + 1),
            Key::Down if self.back > 0 => self.recall(history, self.back - 1),
            Key::Cut => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            Key::CutWord => {
                let before = self.text.get(..self.cursor).unwrap_or_default();
                let end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
                let word = before.get(..end).unwrap_or_default();
                let start = word.iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            Key::Enter => return Edit::Done(self.text.iter().collect()),
            Key::Interrupt if self.text.is_empty() => return Edit::Interrupt,
            Key::Interrupt => *self = Self::default(),
            Key::EndOfInput if self.text.is_empty() => return Edit::End,
            Key::Backspace | Key::Delete | Key::Down | Key::EndOfInput => {}
        }
        Edit::More
    }

    fn insert(&mut self, text: &[char]) {
        self.text.splice(self.cursor..self.cursor, text.iter().copied());
        self.cursor += text.len();
    }

    /// Shows an earlier line; 0 is the one that is being written.
    fn recall(&mut self, history: &[String], back: usize) {
        let line = match history.len().checked_sub(back) {
            None => return,
            Some(_) if back == 0 => std::mem::take(&mut self.draft),
            Some(index) => history.get(index).map(|line| line.chars().collect()).unwrap_or_default(),
        };
        if self.back == 0 {
            self.draft = std::mem::take(&mut self.text);
        }
        (self.text, self.back) = (line, back);
        self.cursor = self.text.len();
    }

    /// The part of the line that fits in so many columns, and the column of the cursor in it.
    pub(super) fn view(&self, columns: usize) -> (String, usize) {
        let before = self.text.get(..self.cursor).unwrap_or_default();
        let mut start = before.len();
        let mut used = 0;
        // One column is left for the cursor itself.
        while start > 0 {
            let width = before.get(start - 1).copied().map_or(0, width);
            if used + width >= columns {
                break;
            }
            used += width;
            start -= 1;
        }
        let column = used;
        let mut shown: String = before.get(start..).unwrap_or_default().iter().copied().map(visible).collect();
        for c in self.text.get(self.cursor..).unwrap_or_default() {
            used += width(*c);
            if used >= columns {
                break;
            }
            shown.push(visible(*c));
        }
        (shown, column)
    }
}

/// What stands for a character in the line.
fn visible(c: char) -> char {
    match c {
        '\n' => '⏎',
        '\t' => ' ',
        c if crate::output::is_control(c) => '\u{fffd}',
        c => c,
    }
}

/// Columns of a character: two for those of East Asia and pictures, none for marks that join the one before.
fn width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut Line, text: &str) {
        for c in text.chars() {
            assert_eq!(line.press(Key::Char(c), &[]), Edit::More);
        }
    }

    fn after(text: &str, keys: &[Key]) -> String {
        let mut line = Line::default();
        typed(&mut line, text);
        for key in keys {
            line.press(key.clone(), &[]);
        }
        match line.press(Key::Enter, &[]) {
            Edit::Done(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_edit() {
        assert_eq!(after("helo", &[Key::Left, Key::Char('l')]), "hello");
        assert_eq!(after("ab", &[Key::Home, Key::Delete, Key::End, Key::Char('c')]), "bc");
        assert_eq!(after("ab", &[Key::Backspace, Key::Backspace, Key::Backspace]), "");
        assert_eq!(after("run the  tests ", &[Key::CutWord]), "run the  ");
        assert_eq!(after("abc", &[Key::Left, Key::Cut]), "c");
        assert_eq!(after("x", &[Key::Paste("a\r\nb".into())]), "xa\nb");
        assert_eq!(after("ab", &[Key::Home, Key::EndOfInput]), "b");
        let mut line = Line::default();
        assert_eq!(line.press(Key::EndOfInput, &[]), Edit::End);
        typed(&mut line, "x");
        assert_eq!(line.press(Key::Interrupt, &[]), Edit::More);
        assert_eq!(line.press(Key::Interrupt, &[]), Edit::Interrupt);
    }

    #[test]
    fn earlier_lines_come_back() {
        let history = ["one".to_owned(), "two".to_owned()];
        let mut line = Line::default();
        typed(&mut line, "draft");
        let mut press = |key| {
            line.press(key, &history);
            line.view(80).0
        };
        assert_eq!(press(Key::Up), "two");
        assert_eq!(press(Key::Up), "one");
        assert_eq!(press(Key::Up), "one");
        assert_eq!(press(Key::Down), "two");
        assert_eq!(press(Key::Down), "draft");
        assert_eq!(press(Key::Down), "draft");
    }

    #[test]
    fn a_part_of_a_long_line_is_shown() {
        let mut line = Line::default();
        typed(&mut line, "abcdefgh");
        assert_eq!(line.view(5), ("efgh".to_owned(), 4));
        line.press(Key::Home, &[]);
        assert_eq!(line.view(5), ("abcd".to_owned(), 0));
        let mut wide = Line::default();
        typed(&mut wide, "日本\u{1b}\n");
        assert_eq!(wide.view(20), ("日本\u{fffd}⏎".to_owned(), 6));
        assert_eq!(wide.view(4), ("\u{fffd}⏎".to_owned(), 2));
    }
}
