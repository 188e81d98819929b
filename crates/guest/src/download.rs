//! `GET /files`: the contents of a file, whole or as a range. Small text is compressed if the client accepts it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use cabana_types::guest::tools::MEDIA_TYPE_HEADER;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt as _};
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};
use tokio::task::JoinHandle;

use crate::blocking;
use crate::error::Problem;
use crate::open::{self, NotReadable, Readable};
use crate::range::{self, Part};
use crate::reply::{self, Body};
use crate::tools::{media, sha256};

/// Files up to this size are read at once; for pseudo files this is the only way to get their length.
const SMALL: u64 = 64 << 10;
const CHUNK: usize = 256 << 10;
/// Files that are read at once for their digest.
const MAX_DIGEST: u64 = 8 << 20;
/// Below this, compressing costs more than it saves. Above, it is slower than sending on all but slow links.
const LEAST_PACKED: usize = 1 << 10;
const MOST_PACKED: usize = 256 << 10;
/// How much of a file is compressed to find out whether it gains.
const SAMPLE: usize = 8 << 10;

/// An opened file and its first bytes.
struct Opened {
    file: File,
    head: Vec<u8>,
    /// Whether `head` is the whole file.
    complete: bool,
    size: u64,
    modified: i64,
    /// The SHA-256 of the whole file, in quotes.
    etag: Option<String>,
    image: Option<&'static str>,
    /// The whole file compressed, if that is worth it.
    packed: Option<Vec<u8>>,
}

/// Handles a download.
pub(crate) async fn serve(path: PathBuf, headers: &HeaderMap) -> Result<Response<Body>, Problem> {
    let name = path.clone();
    let readable = blocking::run(move || open_file(&path)).await?;
    serve_opened(readable, name, headers, None).await
}

/// Handles the download of a file that is open already. One of up to `digest` bytes gets an `ETag`.
pub(crate) async fn serve_opened(
    readable: Readable,
    path: PathBuf,
    headers: &HeaderMap,
    digest: Option<u64>,
) -> Result<Response<Body>, Problem> {
    let name = path.clone();
    let packs = range::accepts_gzip(headers);
    let mut opened = blocking::run(move || start(readable, &path, digest, packs)).await?;
    if opened.complete {
        opened.size = opened.head.len() as u64;
    }
    let mut response = reply::empty(StatusCode::OK);
    describe(response.headers_mut(), &name, opened.modified);
    if let Some(etag) = &opened.etag {
        set(response.headers_mut(), ETAG, etag);
    }
    if let Some(image) = opened.image {
        response.headers_mut().insert(MEDIA_TYPE_HEADER, HeaderValue::from_static(image));
    }
    if range::is_unmodified(headers, opened.modified) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    // Ranges do not apply to a pseudo file that is longer than its reported size.
    let endless = !opened.complete && opened.size <= SMALL;
    if let Some(packed) = opened.packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        set(response.headers_mut(), CONTENT_LENGTH, &packed.len().to_string());
        *response.body_mut() = reply::bytes(packed);
        return Ok(response);
    }
    if endless {
        *response.body_mut() = reply::stream(pieces(opened, u64::MAX));
        return Ok(response);
    }
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let (first, length) = match range::part(headers, opened.size, opened.modified, opened.etag.as_deref()) {
        Part::Whole => (0, opened.size),
        Part::Range(first, last) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(response.headers_mut(), CONTENT_RANGE, &format!("bytes {first}-{last}/{}", opened.size));
            (first, last - first + 1)
        }
        Part::Unsatisfiable => {
            let mut refusal = reply::problem(&Problem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                format!("the file has {} bytes", opened.size),
            ));
            set(refusal.headers_mut(), CONTENT_RANGE, &format!("bytes */{}", opened.size));
            return Ok(refusal);
        }
    };
    set(response.headers_mut(), CONTENT_LENGTH, &length.to_string());
    *response.body_mut() = if opened.complete {
        let from = usize::try_from(first).unwrap_or(usize::MAX);
        let to = usize::try_from(first + length).unwrap_or(usize::MAX);
        reply::bytes(Bytes::from(opened.head).slice(from..to))
    } else {
        opened = seek(opened, first).await?;
        reply::stream(pieces(opened, length))
    };
    Ok(response)
}

fn open_file(path: &Path) -> Result<Readable, Problem> {
    open::readable(path).map_err(|refusal| match refusal {
        NotReadable::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
            Problem::not_found(format!("path '{}' does not exist", path.display()))
        }
        NotReadable::Io(cause) => Problem::io("open", path, &cause),
        other => Problem::bad_request(format!("path '{}' {other}", path.display())),
    })
}

/// `packs`: the client takes a compressed response.
fn start(readable: Readable, path: &Path, digest: Option<u64>, packs: bool) -> Result<Opened, Problem> {
    let Readable { mut file, size, modified } = readable;
    let failed = |e: io::Error| Problem::io("read", path, &e);
    // Read before the digest is known, so that it is that of the bytes that are sent.
    let small = digest.unwrap_or_default().clamp(if packs { MOST_PACKED as u64 } else { SMALL }, MAX_DIGEST);
    let mut head = Vec::new();
    if size <= small {
        (&mut file).take(small + 1).read_to_end(&mut head).map_err(failed)?;
    }
    let complete = size <= small && head.len() as u64 <= small;
    let mut first = [0; 512];
    let image = match digest {
        None => None,
        Some(_) if !head.is_empty() => media::image(head.get(..512).unwrap_or(&head)),
        Some(_) => {
            let count = file.read_at(&mut first, 0).map_err(failed)?;
            media::image(first.get(..count).unwrap_or_default())
        }
    };
    let etag = (complete && digest.is_some()).then(|| format!("\"{}\"", sha256(&head)));
    let packed = if packs && complete { pack(&head) } else { None };
    Ok(Opened { file, head, complete, size, modified, etag, image, packed })
}

/// The compressed form of a file for which it is worth it.
fn pack(content: &[u8]) -> Option<Vec<u8>> {
    if !(LEAST_PACKED..=MOST_PACKED).contains(&content.len()) {
        return None;
    }
    let sample = content.get(..SAMPLE).unwrap_or(content);
    if gzip(sample)?.len() > sample.len() / 8 * 7 {
        return None;
    }
    gzip(content)
}

fn gzip(content: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).ok()?;
    encoder.finish().ok()
}

async fn seek(opened: Opened, to: u64) -> Result<Opened, Problem> {
    if to == 0 {
        return Ok(opened);
    }
    blocking::run(move || {
        let mut opened = opened;
        let moved = opened.file.seek(SeekFrom::Start(to));
        moved.map_err(|e| Problem::internal(format!("cannot read from byte {to}: {e}")))?;
        Ok(opened)
    })
    .await
}

/// The rest of a file, at most `length` bytes. A truncated file is an error, because its length was already sent.
fn pieces(opened: Opened, length: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let promised = length != u64::MAX;
    let mut head = opened.head;
    // It has more than was promised if the file has grown since.
    head.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    let left = length - head.len() as u64;
    let head = (!head.is_empty()).then(|| Bytes::from(head)).map(Ok);
    let rest =
        futures_util::stream::try_unfold((read_ahead(opened.file, left), left), move |(next, left)| async move {
            if left == 0 {
                return Ok(None);
            }
            let (file, chunk) = next.await.map_err(io::Error::other)??;
            match (chunk.is_empty(), promised) {
                (true, true) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                (true, false) => Ok(None),
                (false, _) => {
                    let left = left - chunk.len() as u64;
                    Ok(Some((Bytes::from(chunk), (read_ahead(file, left), left))))
                }
            }
        });
    futures_util::stream::iter(head).chain(rest)
}

/// Reads the next chunk of a file while the one before is being sent.
fn read_ahead(mut file: File, left: u64) -> JoinHandle<io::Result<(File, Vec<u8>)>> {
    let limit = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
    tokio::task::spawn_blocking(move || {
        let mut chunk = vec![0; limit];
        let count = file.read(&mut chunk)?;
        chunk.truncate(count);
        Ok((file, chunk))
    })
}

fn describe(headers: &mut HeaderMap, path: &Path, modified: i64) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(path)));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    set(headers, CONTENT_DISPOSITION, &disposition(&crate::path::name(path)));
    // HTTP dates have four-digit years.
    if let Some(time) = u64::try_from(modified).ok().filter(|m| *m < 253_402_300_800) {
        set(headers, LAST_MODIFIED, &httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(time)));
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// `inline` with the file name: quoted, and also percent-encoded if the quoted form cannot represent it.
fn disposition(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if (' '..='~').contains(&c) && !matches!(c, '"' | '\\') { c } else { '_' }).collect();
    let mut text = format!("inline; filename=\"{plain}\"");
    if plain != name {
        text.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}

fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "txt" | "log" | "md" | "py" | "rs" | "c" | "h" | "sh" | "toml" | "yaml" | "yml" | "ini" | "conf" => {
            "text/plain; charset=utf-8"
        }
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "xml" => "text/xml; charset=utf-8",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "wasm" => "application/wasm",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "ico" => "image/x-icon",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispositions_are_headers() {
        assert_eq!(disposition("a b.txt"), "inline; filename=\"a b.txt\"");
        assert_eq!(disposition("a\"b\n"), "inline; filename=\"a_b_\"; filename*=UTF-8''a%22b%0A");
        assert_eq!(disposition("é"), "inline; filename=\"_\"; filename*=UTF-8''%C3%A9");
        for name in ["\u{202e}x", "a\0b", "\\", "x\r\ny: z"] {
            assert!(HeaderValue::from_str(&disposition(name)).is_ok());
        }
    }
}
