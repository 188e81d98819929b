//! Documents in pieces: whatever the pieces, the result is the same, and it is the document with the tag in it.

use futures_util::stream;
use http_body_util::BodyExt;
use proptest::prelude::*;

use super::*;

const CONSOLE: &str = "https://console.test";

fn response(headers: &[(&str, &str)], pieces: Vec<Vec<u8>>) -> Response<Body> {
    let mut builder = Response::builder();
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let pieces = pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
    builder.body(Body::from_stream(stream::iter(pieces))).expect("response")
}

async fn text(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.expect("body").to_bytes().to_vec()
}

async fn inserted(pieces: Vec<Vec<u8>>) -> Vec<u8> {
    text(insert(response(&[("content-type", "text/html")], pieces), CONSOLE)).await
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(future)
}

/// Cuts a document into pieces of these lengths, again and again.
fn cut(document: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = document;
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

fn document() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "<!doctype html>",
            "<html lang='a>b'>",
            "<head>",
            "<HEAD x=\">\">",
            "<!-- <head> -->",
            "<!--",
            "-->",
            "<title>",
            " \n",
            "text",
            "<script>'<head>'</script>",
            "\u{feff}",
            "<",
            "<h",
            "<!",
        ])
        .prop_map(|part| part.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
        (0usize..5000).prop_map(|length| vec![b' '; length]),
    ];
    prop::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn pieces_do_not_matter(document in document(), lengths in prop::collection::vec(1usize..2000, 1..6)) {
        let whole = run(inserted(vec![document.clone()]));
        prop_assert_eq!(&run(inserted(cut(&document, &lengths))), &whole);
        prop_assert_eq!(&run(inserted(cut(&document[..document.len().min(300)], &[1]))),
            &run(inserted(vec![document[..document.len().min(300)].to_vec()])));
        let tag = tag(CONSOLE, None);
        if document.starts_with(b"\xfe\xff") || document.starts_with(b"\xff\xfe") {
            prop_assert_eq!(whole, document);
        } else {
            let at = whole.windows(tag.len()).position(|window| window == tag).expect("a tag");
            let without = [&whole[..at], &whole[at + tag.len()..]].concat();
            prop_assert_eq!(without, document);
        }
    }
}

#[tokio::test]
async fn headers_say_what_was_changed() {
    let headers = [
        ("content-type", "Text/HTML; charset=utf-8"),
        ("content-length", "12"),
        ("etag", "\"x\""),
        ("last-modified", "y"),
        ("vary", "Accept"),
        ("content-security-policy", "script-src 'nonce-theirs'"),
    ];
    let page = || insert(response(&headers, vec![b"<head></head".to_vec()]), "https://a\"b.test");
    let first = page();
    let map = first.headers();
    for gone in ["content-length", "etag", "last-modified"] {
        assert!(!map.contains_key(gone), "{gone}");
    }
    assert_eq!(map["cache-control"], "private, no-cache");
    assert!(map.get_all("vary").iter().any(|value| value == "Sec-Fetch-Dest"));
    let policy = map["content-security-policy"].to_str().expect("text").to_owned();
    let nonce = policy.rsplit_once("'nonce-").expect("a nonce").1.trim_end_matches('\'').to_owned();
    assert!(nonce.len() >= 22, "{policy}");
    let text = String::from_utf8(text(first).await).expect("text");
    assert_eq!(
        text,
        format!(
            "<head><script src=\"/.cabana/bridge.js\" data-origin=\"https://a&quot;b.test\" nonce=\"{nonce}\"></script></head"
        )
    );
    assert_ne!(page().headers()["content-security-policy"], policy, "every response has its own");
}

#[tokio::test]
async fn what_is_no_readable_document_stays() {
    for headers in [
        &[("content-type", "application/json")][..],
        &[],
        &[("content-type", "text/html; charset=utf-16")],
        &[("content-type", "text/html"), ("content-encoding", "gzip")],
        &[("content-type", "text/html"), ("content-disposition", "Attachment; filename=x")],
        &[("content-type", "text/html"), ("content-type", "text/plain")],
        &[("content-type", "text/html5")],
        &[("content-type", "text/html"), ("content-range", "bytes 0-1/2")],
    ] {
        let untouched = insert(response(headers, vec![b"<head>".to_vec()]), CONSOLE);
        assert_eq!(untouched.headers().len(), headers.len());
        assert_eq!(text(untouched).await, b"<head>");
    }
}

#[tokio::test]
async fn trailers_follow_and_errors_are_not_hidden() {
    use http_body_util::StreamBody;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", HeaderValue::from_static("1"));
    let frames = vec![
        Ok(Frame::data(Bytes::from_static(b"<html"))),
        Ok(Frame::trailers(trailers)),
        Err(std::io::Error::other("broken")),
    ];
    let body = Body::new(StreamBody::new(stream::iter(frames)));
    let page = Response::builder().header("content-type", "text/html").body(body).expect("response");
    let mut body = insert(page, CONSOLE).into_body();
    let mut data = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        match frame.into_data() {
            Ok(piece) => data.extend_from_slice(&piece),
            Err(frame) => {
                assert!(frame.is_trailers());
                assert!(data.ends_with(b"<html"));
                assert!(body.frame().await.expect("an error").is_err());
                return;
            }
        }
    }
    panic!("no trailers");
}
