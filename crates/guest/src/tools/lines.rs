//! Splits bytes into lines of text that arrive in pieces, with bounded memory: a line of any length takes no more than what is kept of it.

use cabana_types::guest::tools::Line;

/// Replaces bytes that are not UTF-8.
const REPLACEMENT: char = '\u{fffd}';

/// One line, as its bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct LineText {
    text: String,
    kept: u64,
    cut: u64,
    /// A character that is not complete yet.
    partial: Vec<u8>,
    /// A carriage return that may belong to the line's end.
    carriage_return: bool,
}

impl LineText {
    /// Adds bytes, none of which is a newline. Keeps at most `max` characters.
    pub(crate) fn push(&mut self, mut bytes: &[u8], max: u64) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.carriage_return) {
            self.add(b"\r", max);
        }
        if let Some((b'\r', rest)) = bytes.split_last() {
            self.carriage_return = true;
            bytes = rest;
        }
        self.add(bytes, max);
    }

    /// Ends the line. Without a newline, at the end of the file, a carriage return is part of its text.
    pub(crate) fn end(&mut self, newline: bool, max: u64) -> Line {
        if std::mem::take(&mut self.carriage_return) && !newline {
            self.add(b"\r", max);
        }
        if !std::mem::take(&mut self.partial).is_empty() {
            self.put(&REPLACEMENT.to_string(), max);
        }
        self.kept = 0;
        Line { text: std::mem::take(&mut self.text), cut: std::mem::take(&mut self.cut) }
    }

    fn add(&mut self, mut bytes: &[u8], max: u64) {
        while let (false, Some((first, rest))) = (self.partial.is_empty(), bytes.split_first()) {
            self.partial.push(*first);
            match std::str::from_utf8(&self.partial).map(str::to_owned) {
                Ok(text) => {
                    self.partial.clear();
                    self.put(&text, max);
                }
                Err(cause) if cause.error_len().is_none() => {}
                Err(_) => {
                    // What came before is invalid without this byte, which is looked at again.
                    self.partial.clear();
                    self.put(&REPLACEMENT.to_string(), max);
                    break;
                }
            }
            bytes = rest;
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.put(chunk.valid(), max);
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none()) {
                self.partial.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                self.put(&REPLACEMENT.to_string(), max);
            }
        }
    }

    fn put(&mut self, text: &str, max: u64) {
        let room = usize::try_from(max - self.kept.min(max)).unwrap_or(usize::MAX);
        // A character has at least one byte.
        let fits = if text.len() <= room {
            text.len()
        } else {
            text.char_indices().nth(room).map_or(text.len(), |(at, _)| at)
        };
        let (kept, rest) = text.split_at(fits);
        self.text.push_str(kept);
        self.kept += kept.chars().count() as u64;
        self.cut += rest.chars().count() as u64;
    }
}

/// Which lines are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The first line, from 1.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) max_lines: u64,
    /// Bytes of all kept lines; one line is always kept.
    pub(crate) max_bytes: u64,
    /// Characters of a line.
    pub(crate) max_line: u64,
}

/// Lines of a file within a range, and the number of all lines.
#[derive(Debug)]
pub(crate) struct Splitter {
    range: Range,
    pub(crate) lines: Vec<Line>,
    pub(crate) truncated: bool,
    bytes: u64,
    /// Newlines so far.
    newlines: u64,
    current: LineText,
    /// Whether the line after the last newline has bytes.
    open: bool,
}

impl Splitter {
    pub(crate) fn new(range: Range) -> Self {
        Self {
            range,
            lines: Vec::new(),
            truncated: false,
            bytes: 0,
            newlines: 0,
            current: LineText::default(),
            open: false,
        }
    }

    /// Number of lines so far.
    pub(crate) fn total(&self) -> u64 {
        self.newlines + u64::from(self.open)
    }

    /// Adds the next bytes of the file.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let number = self.newlines + 1;
            if number > self.range.end || self.truncated {
                return self.count(bytes);
            }
            if number < self.range.start {
                let skipped = usize::try_from(self.range.start - number - 1).unwrap_or(usize::MAX);
                let Some(last) = memchr::memchr_iter(b'\n', bytes).nth(skipped) else { return self.count(bytes) };
                self.newlines = self.range.start - 1;
                self.open = false;
                bytes = bytes.get(last + 1..).unwrap_or_default();
                continue;
            }
            let newline = memchr::memchr(b'\n', bytes);
            self.current.push(bytes.get(..newline.unwrap_or(bytes.len())).unwrap_or_default(), self.range.max_line);
            self.open = true;
            let Some(newline) = newline else { return };
            bytes = bytes.get(newline + 1..).unwrap_or_default();
            self.finish_line(true);
            self.newlines += 1;
            self.open = false;
        }
    }

    /// Ends the file.
    pub(crate) fn end(&mut self) {
        let number = self.newlines + 1;
        if self.open && (self.range.start..=self.range.end).contains(&number) && !self.truncated {
            self.finish_line(false);
        }
    }

    fn finish_line(&mut self, newline: bool) {
        let line = self.current.end(newline, self.range.max_line);
        let size = line.text.len() as u64 + 1;
        let full = self.lines.len() as u64 >= self.range.max_lines;
        if full || (!self.lines.is_empty() && self.bytes + size > self.range.max_bytes) {
            self.truncated = true;
            return;
        }
        self.bytes += size;
        self.lines.push(line);
    }

    fn count(&mut self, bytes: &[u8]) {
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.open = bytes.last().is_some_and(|last| *last != b'\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Range = Range { start: 1, end: u64::MAX, max_lines: u64::MAX, max_bytes: u64::MAX, max_line: u64::MAX };

    fn split(bytes: &[u8], range: Range, piece: usize) -> Splitter {
        let mut splitter = Splitter::new(range);
        bytes.chunks(piece.max(1)).for_each(|piece| splitter.push(piece));
        splitter.end();
        splitter
    }

    /// What the whole file has, by the plainest means.
    fn model(bytes: &[u8]) -> Vec<String> {
        let mut parts: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
        let last = parts.pop().filter(|last| !last.is_empty());
        let ended = parts.into_iter().map(|part| part.strip_suffix(b"\r").unwrap_or(part));
        ended.chain(last).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    }

    #[test]
    fn line_ends() {
        let texts = |bytes: &[u8]| split(bytes, ALL, 2).lines.into_iter().map(|l| l.text).collect::<Vec<_>>();
        assert_eq!(texts(b"a\r\nb\rc\n\n\r\r\nd\r"), ["a", "b\rc", "", "\r", "d\r"]);
        assert_eq!(texts(b""), [""; 0]);
        assert_eq!(split(b"a\n", ALL, 1).total(), 1);
    }

    #[test]
    fn limits() {
        let file = b"1\n22\n333\n4444\n55555";
        let of = |range| {
            let splitter = split(file, range, 3);
            assert_eq!(splitter.total(), 5);
            (splitter.lines.into_iter().map(|l| l.text).collect::<Vec<_>>().join(" "), splitter.truncated)
        };
        assert_eq!(of(Range { start: 2, end: 3, ..ALL }), ("22 333".to_owned(), false));
        assert_eq!(of(Range { start: 4, ..ALL }), ("4444 55555".to_owned(), false));
        assert_eq!(of(Range { start: 9, ..ALL }), (String::new(), false));
        assert_eq!(of(Range { max_lines: 2, ..ALL }), ("1 22".to_owned(), true));
        assert!(!of(Range { max_lines: 5, ..ALL }).1);
        assert_eq!(of(Range { max_bytes: 5, ..ALL }), ("1 22".to_owned(), true));
        assert_eq!(of(Range { max_bytes: 1, start: 5, ..ALL }), ("55555".to_owned(), false));
        let cut = split("äöü\nab".as_bytes(), Range { max_line: 2, ..ALL }, 1);
        assert_eq!(cut.lines, [Line { text: "äö".to_owned(), cut: 1 }, Line { text: "ab".to_owned(), cut: 0 }]);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces(
            bytes in prop::collection::vec(prop::sample::select(&b"ab\r\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff"[..]), 0..60),
            piece in 1usize..9, start in 1usize..6, length in 0usize..6, max_line in 0usize..5,
        ) {
            let lines = model(&bytes);
            let whole = split(&bytes, ALL, piece);
            prop_assert_eq!(whole.total(), lines.len() as u64);
            prop_assert_eq!(whole.lines.into_iter().map(|l| l.text).collect::<Vec<_>>(), lines.clone());
            let part = split(&bytes, Range { start: start as u64, end: (start + length) as u64, max_line: max_line as u64, ..ALL }, piece);
            let wanted: Vec<_> = lines.iter().skip(start - 1).take(length + 1).map(|line| Line {
                text: line.chars().take(max_line).collect(),
                cut: (line.chars().count() as u64).saturating_sub(max_line as u64),
            }).collect();
            prop_assert_eq!(part.lines, wanted);
            prop_assert_eq!(part.newlines + u64::from(part.open), lines.len() as u64);
        }
    }
}
