//! `POST /files`: one file as the raw body, or many as a form whose parts are named by their full paths.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Serialize;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::error::Problem;
use crate::metadata::{self, Metadata};
use crate::reply::{self, Body};
use crate::sink::{self, Target};
use crate::users::Account;
use crate::{blocking, path};

/// An upload that sends nothing for so long is given up.
const STALLED: Duration = Duration::from_secs(300);
/// Files of one form.
const MAX_FILES: usize = 10_000;

/// For whom, and where to.
pub(crate) struct Upload {
    /// The files' owner.
    pub(crate) account: Account,
    /// What relative paths and empty ones mean.
    pub(crate) workdir: Option<String>,
    /// The query's path.
    pub(crate) path: Option<String>,
}

/// What the client hears about each file.
#[derive(Serialize)]
pub(crate) struct Written {
    name: String,
    path: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

impl Written {
    /// A file that was written.
    pub(crate) fn new(path: &Path, metadata: Metadata) -> Self {
        let (name, path) = (path::name(path), path.to_string_lossy().into_owned());
        Self { name, path, r#type: "file", metadata }
    }
}

type Pieces = BoxStream<'static, Result<Bytes, Problem>>;

impl Upload {
    /// Answers an upload.
    pub(crate) async fn receive(self, headers: &HeaderMap, body: Incoming) -> Result<Response<Body>, Problem> {
        let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default().trim().to_owned();
        let media = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let metadata = metadata::from_headers(headers)?;
        let length = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
        let pieces = decoded(headers, body)?;
        let written = if media == "application/octet-stream" {
            self.receive_raw(pieces, metadata, length).await?
        } else if media.starts_with("multipart/") {
            let boundary = multer::parse_boundary(&kind)
                .map_err(|_| Problem::bad_request("multipart/form-data without a boundary"))?;
            self.receive_form(pieces, boundary, metadata).await?
        } else {
            return Err(Problem::bad_request(format!(
                "unsupported content type: {}, expected multipart/form-data or application/octet-stream",
                crate::auth::shown(&kind)
            )));
        };
        Ok(reply::json(StatusCode::OK, &written))
    }

    async fn receive_raw(
        self,
        pieces: Pieces,
        metadata: Metadata,
        length: Option<u64>,
    ) -> Result<Vec<Written>, Problem> {
        let text = self.path.as_deref();
        let text = text.ok_or_else(|| Problem::bad_request("path query parameter is required for raw body upload"))?;
        let path = self.resolve(text)?;
        if let Some(length) = length {
            let directory = path.clone();
            blocking::run(move || check_space(&directory, length)).await?;
        }
        let target = Target { path: path.clone(), account: self.account, metadata: metadata.clone() };
        sink::receive(target, pieces).await?;
        Ok(vec![Written::new(&path, metadata)])
    }

    async fn receive_form(self, pieces: Pieces, boundary: String, metadata: Metadata) -> Result<Vec<Written>, Problem> {
        let mut form = multer::Multipart::new(pieces, boundary);
        let mut written: Vec<Written> = Vec::new();
        while let Some(field) = form.next_field().await.map_err(malformed)? {
            if field.name() != Some("file") {
                continue;
            }
            let text = match &self.path {
                Some(path) => path.clone(),
                None => file_name(field.headers())
                    .ok_or_else(|| Problem::bad_request("a file of the form has no file name"))?,
            };
            let path = self.resolve(&text)?;
            let shown = path.to_string_lossy();
            if written.iter().any(|w| w.path == shown) {
                return Err(Problem::bad_request(format!(
                    "you cannot upload multiple files to the same path '{shown}' in one upload request, \
                     only the first specified file was uploaded"
                )));
            }
            if written.len() == MAX_FILES {
                return Err(Problem::bad_request(format!("a form may have at most {MAX_FILES} files")));
            }
            let target = Target { path: path.clone(), account: self.account.clone(), metadata: metadata.clone() };
            sink::receive(target, field.map_err(malformed)).await?;
            written.push(Written::new(&path, metadata.clone()));
        }
        Ok(written)
    }

    fn resolve(&self, text: &str) -> Result<PathBuf, Problem> {
        path::resolve(text, &self.account, self.workdir.as_deref()).map_err(|e| Problem::bad_request(e.to_string()))
    }
}

/// The body as its sender meant it.
fn decoded(headers: &HeaderMap, body: Incoming) -> Result<Pieces, Problem> {
    let encoding = headers.get(CONTENT_ENCODING).map(|v| v.as_bytes().trim_ascii().to_ascii_lowercase());
    let pieces = pieces(body);
    match encoding.as_deref() {
        None | Some(b"" | b"identity") => Ok(pieces),
        Some(b"gzip") => {
            let mut decoder = GzipDecoder::new(StreamReader::new(pieces.map_err(std::io::Error::other)));
            decoder.multiple_members(true);
            let decoded = ReaderStream::with_capacity(decoder, 64 << 10);
            Ok(decoded
                .map_err(|cause| match cause.downcast::<Problem>() {
                    Ok(problem) => problem,
                    Err(cause) => Problem::bad_request(format!("error decompressing request body: {cause}")),
                })
                .boxed())
        }
        Some(_) => Err(Problem::bad_request("unsupported Content-Encoding: send identity or gzip")),
    }
}

fn pieces(body: Incoming) -> Pieces {
    futures_util::stream::try_unfold(body, |mut body| async move {
        loop {
            let frame = tokio::time::timeout(STALLED, body.frame()).await;
            let frame = frame.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the upload stalled"))?;
            match frame {
                None => return Ok(None),
                Some(Err(cause)) => return Err(Problem::bad_request(format!("the upload broke off: {cause}"))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some((data, body)));
                    }
                }
            }
        }
    })
    .boxed()
}

fn malformed(cause: multer::Error) -> Problem {
    // A refusal of the body itself went through the form's reader.
    if let multer::Error::StreamReadFailed(inner) = cause {
        return match inner.downcast::<Problem>() {
            Ok(problem) => *problem,
            Err(cause) => Problem::bad_request(format!("error reading form: {cause}")),
        };
    }
    Problem::bad_request(format!("error reading form: {cause}"))
}

/// Refuses at once what cannot fit. Quotas show only when writing.
fn check_space(path: &Path, length: u64) -> Result<(), Problem> {
    let existing = path.ancestors().skip(1).find_map(|directory| rustix::fs::statvfs(directory).ok());
    match existing {
        // Pseudo file systems have no blocks at all.
        Some(fs) if fs.f_blocks > 0 && fs.f_bavail.saturating_mul(fs.f_frsize) < length => Err(Problem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            format!("not enough disk space available: {length} bytes required"),
        )),
        _ => Ok(()),
    }
}

/// The full file name of a form's part: quoted as browsers do it, with `%22`, `%0D` and `%0A` for what quotes cannot hold, or in
/// the extended form.
fn file_name(headers: &HeaderMap) -> Option<String> {
    let value = std::str::from_utf8(headers.get(CONTENT_DISPOSITION)?.as_bytes()).ok()?;
    let mut plain = None;
    for (name, text) in parameters(value) {
        if name.eq_ignore_ascii_case("filename*") {
            let encoded = text.splitn(3, '\'').nth(2)?;
            return percent_decoded(encoded, |_| true).filter(|n| !n.is_empty());
        }
        if name.eq_ignore_ascii_case("filename") && plain.is_none() {
            plain = percent_decoded(&text, |byte| matches!(byte, b'"' | b'\r' | b'\n'));
        }
    }
    plain.filter(|n| !n.is_empty())
}

/// The parameters after the first `;`, unquoted. A backslash escapes a quote or itself and is otherwise kept.
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

fn percent_decoded(text: &str, wanted: impl Fn(u8) -> bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let code = code.and_then(|c| std::str::from_utf8(c).ok()).and_then(|c| u8::from_str_radix(c, 16).ok());
        match code.filter(|c| wanted(*c)) {
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn named(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        file_name(&headers)
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

    proptest! {
        #[test]
        fn any_disposition_is_survived(value in "[ -~]{0,80}") {
            let _ = named(&value);
        }

        #[test]
        fn quoted_names_come_back(name in "[^\\x00-\\x1f\\x7f%]{1,40}") {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(named(&format!("form-data; name=\"file\"; filename=\"{quoted}\"")), Some(name));
        }
    }
}
