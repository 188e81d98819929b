//! Streaming parser for `multipart/form-data`. Holds only a small buffer, whatever the client sends.

#![forbid(unsafe_code)]

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use memchr::memmem;

/// Stream of body chunks.
pub type Pieces<E> = BoxStream<'static, Result<Bytes, E>>;

/// The body is not a form, or ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("multipart/form-data without a boundary")]
    NoBoundary,
    #[error("error reading form: unexpected end")]
    End,
    #[error("error reading form: unexpected data after a delimiter")]
    Delimiter,
    #[error("error reading form: the headers of a part are too long")]
    LongHeaders,
}

const MAX_BOUNDARY: usize = 200;
/// Limit on the headers of one part; a file name may be as long as a path.
const MAX_HEADERS: usize = 16 << 10;
const MAX_PADDING: usize = 256;

/// The parsed headers of a part.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Field name.
    pub name: Option<String>,
    /// File name, including its directories.
    pub file_name: Option<String>,
}

/// Parser state.
#[derive(Debug, PartialEq, Eq)]
enum Position {
    /// Before the first part, or inside one.
    Data,
    /// Directly after a delimiter.
    Delimiter,
    /// After the last delimiter.
    End,
}

/// A form being parsed. `E` is the error of the body.
pub struct Form<E> {
    pieces: Pieces<E>,
    buffer: BytesMut,
    delimiter: Vec<u8>,
    position: Position,
}

impl<E> std::fmt::Debug for Form<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Form").field("position", &self.position).finish_non_exhaustive()
    }
}

impl<E: From<Malformed>> Form<E> {
    /// Parses a body with the given `Content-Type`.
    pub fn new(pieces: Pieces<E>, content_type: &str) -> Result<Self, E> {
        let boundary = parameters(content_type).into_iter().find(|(name, _)| name.eq_ignore_ascii_case("boundary"));
        let boundary = boundary.map(|(_, text)| text).filter(|b| (1..=MAX_BOUNDARY).contains(&b.len()));
        let boundary = boundary.ok_or(Malformed::NoBoundary)?;
        // The first delimiter may be at the very start; the others follow a line break.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        Ok(Self { pieces, buffer, delimiter: format!("\r\n--{boundary}").into_bytes(), position: Position::Data })
    }

    /// Advances to the next part; skips the rest of the current one.
    pub async fn part(&mut self) -> Result<Option<Part>, E> {
        while self.data().await?.is_some() {}
        if self.position == Position::End {
            return Ok(None);
        }
        while self.buffer.len() < 2 {
            self.fill().await?;
        }
        if self.buffer.starts_with(b"--") {
            self.position = Position::End;
            return Ok(None);
        }
        let padding = self.take_until(b"\r\n", MAX_PADDING).await?;
        if padding.iter().any(|b| !b" \t".contains(b)) {
            return Err(Malformed::Delimiter.into());
        }
        // Keep the line break, so that a part without headers parses like one with headers.
        let mut headers = BytesMut::from(&b"\r\n"[..]);
        std::mem::swap(&mut headers, &mut self.buffer);
        self.buffer.unsplit(headers);
        let headers = self.take_until(b"\r\n\r\n", MAX_HEADERS).await?;
        self.position = Position::Data;
        Ok(Some(parse_headers(&headers)))
    }

    /// The next chunk of the current part.
    pub async fn data(&mut self) -> Result<Option<Bytes>, E> {
        if self.position != Position::Data {
            return Ok(None);
        }
        loop {
            match memmem::find(&self.buffer, &self.delimiter) {
                Some(0) => {
                    self.buffer.advance(self.delimiter.len());
                    self.position = Position::Delimiter;
                    return Ok(None);
                }
                Some(at) => return Ok(Some(self.buffer.split_to(at).freeze())),
                None => {}
            }
            // The end of the buffer may be the start of a delimiter.
            let safe = self.buffer.len().saturating_sub(self.delimiter.len() - 1);
            if safe > 0 {
                return Ok(Some(self.buffer.split_to(safe).freeze()));
            }
            self.fill().await?;
        }
    }

    /// Takes everything before a mark, and drops the mark.
    async fn take_until(&mut self, mark: &[u8], limit: usize) -> Result<BytesMut, E> {
        loop {
            if let Some(at) = memmem::find(&self.buffer, mark) {
                let before = self.buffer.split_to(at);
                self.buffer.advance(mark.len());
                return Ok(before);
            }
            if self.buffer.len() > limit {
                return Err(Malformed::LongHeaders.into());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), E> {
        match self.pieces.next().await {
            Some(piece) => {
                self.buffer.extend_from_slice(&piece?);
                Ok(())
            }
            None => Err(Malformed::End.into()),
        }
    }
}

fn parse_headers(headers: &[u8]) -> Part {
    let Ok(headers) = std::str::from_utf8(headers) else { return Part::default() };
    let is_disposition = |line: &&str| {
        line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"))
    };
    let Some((_, value)) = headers.split("\r\n").find(is_disposition).and_then(|l| l.split_once(':')) else {
        return Part::default();
    };
    let mut part = Part::default();
    let mut extended = None;
    for (name, text) in parameters(value) {
        match name.to_ascii_lowercase().as_str() {
            "name" if part.name.is_none() => part.name = Some(text),
            // Browsers percent-encode only what cannot be quoted.
            "filename" if part.file_name.is_none() => {
                part.file_name = percent_decoded(&text, |byte| matches!(byte, b'"' | b'\r' | b'\n'));
            }
            "filename*" => extended = text.splitn(3, '\'').nth(2).and_then(|t| percent_decoded(t, |_| true)),
            _ => {}
        }
    }
    part.file_name = extended.or(part.file_name).filter(|n| !n.is_empty());
    part
}

/// The parameters after the first `;`, unquoted. A backslash escapes a quote or a backslash, and is literal otherwise.
fn parameters(value: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        let mut text = String::new();
        let after = after.trim_start();
        if let Some(quoted) = after.strip_prefix('"') {
            let mut end = quoted.len();
            let mut characters = quoted.char_indices().peekable();
            while let Some((at, character)) = characters.next() {
                match (character, characters.peek()) {
                    ('"', _) => {
                        end = at + 1;
                        break;
                    }
                    ('\\', Some((_, next @ ('"' | '\\')))) => {
                        text.push(*next);
                        characters.next();
                    }
                    (other, _) => text.push(other),
                }
            }
            rest = quoted.get(end..).and_then(|r| r.split_once(';')).map_or("", |(_, rest)| rest);
        } else {
            let (plain, left) = after.split_once(';').unwrap_or((after, ""));
            text.push_str(plain.trim());
            rest = left;
        }
        parameters.push((name.trim().to_owned(), text));
    }
    parameters
}

fn percent_decoded(text: &str, accepted: impl Fn(u8) -> bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let code = code.and_then(|c| std::str::from_utf8(c).ok()).and_then(|c| u8::from_str_radix(c, 16).ok());
        match code.filter(|c| accepted(*c)) {
            Some(code) => {
                decoded.push(code);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

/// Fuzz entry point: a form parses the same in any chunking, and the buffer never exceeds a delimiter plus the headers
/// of a part. The first input byte is the chunk size.
#[cfg(any(test, fuzzing))]
pub fn fuzz_one(input: &[u8]) -> String {
    use futures_util::FutureExt as _;
    let Some((size, body)) = input.split_first() else { return "nothing".into() };
    let read = |size: usize| {
        let pieces: Vec<_> = body.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let reading = async {
            let mut form = Form::new(futures_util::stream::iter(pieces).boxed(), "multipart/form-data; boundary=XX")?;
            let mut parts = Vec::new();
            while let Some(part) = form.part().await? {
                let mut data = Vec::new();
                while let Some(bytes) = form.data().await? {
                    data.extend_from_slice(&bytes);
                }
                assert!(
                    form.buffer.len() <= size + MAX_HEADERS + MAX_PADDING + form.delimiter.len(),
                    "the buffer is too large"
                );
                parts.push((part, data));
            }
            Ok::<_, Malformed>(parts)
        };
        reading.now_or_never().map(|read| read.map_err(|problem| problem.to_string()))
    };
    let (whole, pieces) = (read(usize::MAX >> 1), read(usize::from(*size).max(1)));
    match (whole, pieces) {
        (Some(Ok(whole)), Some(Ok(pieces))) => {
            assert_eq!(whole, pieces, "in pieces of {size}");
            format!(
                "{} parts, {} names",
                whole.len(),
                whole.iter().filter(|(part, _)| part.file_name.is_some()).count()
            )
        }
        (Some(Err(whole)), Some(Err(_))) => whole,
        (whole, pieces) => panic!("{whole:?} at once, {pieces:?} in pieces of {size}"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    fn named(value: &str) -> Option<String> {
        parse_headers(format!("\r\nX: y\r\ncontent-disposition: {value}").as_bytes()).file_name
    }

    /// Parses a whole body that arrives in chunks of this size.
    fn read(body: &[u8], size: usize) -> Result<Vec<(Part, Vec<u8>)>, Malformed> {
        let pieces: Vec<_> = body.chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let mut form = Form::new(futures_util::stream::iter(pieces).boxed(), "multipart/form-data; boundary=\"XX\"")?;
        async {
            let mut parts = Vec::new();
            while let Some(part) = form.part().await? {
                let mut data = Vec::new();
                while let Some(bytes) = form.data().await? {
                    data.extend_from_slice(&bytes);
                }
                parts.push((part, data));
            }
            Ok(parts)
        }
        .now_or_never()
        .unwrap()
    }

    #[test]
    fn names_of_parts() {
        for (value, expected) in [
            (r#"form-data; name="file"; filename="/home/user/a.txt""#, Some("/home/user/a.txt")),
            (r#"form-data; name="file"; filename="a;b=\"c\\d""#, Some(r#"a;b="c\d"#)),
            (r#"form-data; filename="a%22b%0A%41"; name="file""#, Some("a\"b\n%41")),
            (r#"form-data; name="file"; filename=plain.txt"#, Some("plain.txt")),
            (r#"form-data; name="file"; filename="é x""#, Some("é x")),
            (r#"form-data; filename="x"; filename*=UTF-8''%C3%A9%2Fy"#, Some("é/y")),
            (r#"form-data; name="file"; filename="""#, None),
            (r#"form-data; name="file""#, None),
            (r#"form-data; filename="C:\dir\f""#, Some(r"C:\dir\f")),
            (r#"form-data; filename="open"#, Some("open")),
        ] {
            assert_eq!(named(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn forms() {
        let body =
            b"preamble\r\n--XX \t\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--X\r\n--XX\r\n\r\ntwo\
                     \r\n--XX--\r\nepilogue";
        let parts = read(body, 3).unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].0.name.as_deref(), parts[0].1.as_slice()), (Some("a"), &b"one\r\n--X"[..]));
        assert_eq!((&parts[1].0, parts[1].1.as_slice()), (&Part::default(), &b"two"[..]));
        assert!(read(b"--XX--", 1).unwrap().is_empty());
        for broken in ["", "--XX", "--XX\r\n", "--XX\r\nA: b\r\n\r\nno end", "--XXy\r\n\r\n\r\n--XX--", "nothing"] {
            assert!(read(broken.as_bytes(), 2).is_err(), "{broken}");
        }
        let endless = format!("--XX\r\n{}", "A: b\r\n".repeat(10_000));
        assert!(read(endless.as_bytes(), 100).is_err());
        assert!(Form::<Malformed>::new(futures_util::stream::empty().boxed(), "multipart/form-data").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(body in prop::collection::vec(prop::sample::select(b"\r\n-Xa: ".to_vec()), 0..80)) {
            let _ = read(&body, 7);
        }

        #[test]
        fn forms_round_trip(
            files in prop::collection::vec(prop::collection::vec(prop::sample::select(b"\r\n-Xab".to_vec()), 0..60), 0..4),
            size in 1usize..40,
        ) {
            let mut body = Vec::new();
            let files: Vec<_> = files
                .into_iter()
                .filter(|f| memmem::find(&[b"\r\n", f.as_slice(), b"\r\n"].concat(), b"\r\n--XX").is_none())
                .collect();
            for file in &files {
                body.extend_from_slice(b"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
                body.extend_from_slice(file);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"--XX--\r\n");
            let read: Vec<_> = read(&body, size).unwrap().into_iter().map(|(_, data)| data).collect();
            prop_assert_eq!(read, files);
        }

        #[test]
        fn any_disposition_never_panics(value in "[ -~]{0,80}") {
            let _ = named(&value);
        }

        #[test]
        fn quoted_names_round_trip(name in "[^\\x00-\\x1f\\x7f%]{1,40}") {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(named(&format!("form-data; name=\"file\"; filename=\"{quoted}\"")), Some(name));
        }
    }

    #[test]
    fn fuzz_forms() {
        let words =
            ["\r\n--XX", "\r\n--XX--", "\r\n\r\n", "content-disposition: form-data; ", "filename=\"", "name=\"", "\""];
        cabana_fuzz_driver::Fuzz::new("multipart").words(&words).run(fuzz_one);
    }
}
