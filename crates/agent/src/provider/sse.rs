//! Reads server-sent events as they come, in chunks that may end anywhere.

/// Bytes of one line, and of the data of one event.
const MAX_BYTES: usize = 8 << 20;
/// The mark with which some servers begin a text in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Empty if the server gives none.
    pub name: String,
    /// Lines are joined by line feeds; what is not UTF-8 is replaced.
    pub data: String,
}

/// A line or an event is longer than what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_BYTES} bytes")]
pub struct TooLong;

/// A parser of server-sent events.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    /// Whether the event has data, be it empty.
    has_data: bool,
    /// Whether a line feed belongs to the carriage return before it.
    after_return: bool,
    /// Whether the first line has been read.
    begun: bool,
}

impl Sse {
    /// Takes more bytes and adds the events that they complete. After an error, nothing more is read from the stream.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                return self.extend(bytes);
            };
            let (line, rest) = bytes.split_at(end);
            self.extend(line)?;
            self.after_return = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            events.extend(self.end_line()?);
        }
        Ok(())
    }

    /// The event that the stream ended in without the blank line that completes it.
    pub fn finish(&mut self) -> Option<Event> {
        let line_event = self.end_line().ok()?;
        line_event.or_else(|| self.end_event())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > MAX_BYTES {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, TooLong> {
        let line = std::mem::take(&mut self.line);
        let line = match std::mem::replace(&mut self.begun, true) {
            true => line.as_slice(),
            false => line.strip_prefix(MARK).unwrap_or(&line),
        };
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => {
                let (field, value) = line.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.data.len() + value.len() + 1 > MAX_BYTES {
                    return Err(TooLong);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // Comments, ids, times to wait, and what nobody knows yet.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Event> {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        Some(Event { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, TooLong> {
        let (mut sse, mut events) = (Sse::default(), Vec::new());
        for chunk in chunks {
            sse.push(chunk, &mut events)?;
        }
        events.extend(sse.finish());
        Ok(events)
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    #[test]
    fn events_are_read() {
        for (text, expected) in [
            ("", vec![]),
            ("\n\n\n", vec![]),
            ("data: a\n\n", vec![event("", "a")]),
            ("data:a\r\n\r\ndata:  b\r\r", vec![event("", "a"), event("", " b")]),
            ("event: x\ndata: a\ndata\ndata: b\n\n", vec![event("x", "a\n\nb")]),
            (": comment\nid: 1\nretry: 5\nevent: lonely\n\ndata: a\n\n", vec![event("", "a")]),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![event("", "a")]),
            ("data: whole\n\ndata: not ended", vec![event("", "whole"), event("", "not ended")]),
            ("data:\n\n", vec![event("", "")]),
            ("datax: a\nwhat\n\n", vec![]),
        ] {
            assert_eq!(read([text.as_bytes()]).unwrap(), expected, "{text:?}");
        }
        assert_eq!(read([&b"data: \xff\n\n"[..]]).unwrap(), [event("", "\u{fffd}")]);
    }

    #[test]
    fn size_is_bounded() {
        let block = vec![b'x'; 1 << 20];
        let mut sse = Sse::default();
        let mut events = Vec::new();
        let failed = (0..9).find(|_| sse.push(&block, &mut events).is_err());
        assert_eq!(failed, Some(8));
        let mut sse = Sse::default();
        let line = [b"data: ".as_slice(), &block, b"\n"].concat();
        let failed = (0..9).find(|_| sse.push(&line, &mut events).is_err());
        assert_eq!(failed, Some(7));
        assert!(sse.data.len() <= MAX_BYTES && events.is_empty());
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let words: Vec<&[u8]> = vec![
            b"data",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"event",
            b"x",
            b"\xef\xbb\xbf",
            b"\xc3\xa4",
            b"\xff",
            b"id",
        ];
        prop::collection::vec(prop::sample::select(words), 0..60).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes in text(), size in 1..9usize) {
            let whole = read([bytes.as_slice()]).unwrap();
            prop_assert_eq!(read(bytes.chunks(size)).unwrap(), whole);
        }
    }
}
