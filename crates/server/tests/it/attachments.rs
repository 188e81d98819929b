//! Files for chats: what is kept, how it is read, and that what breaks leaves nothing.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

const KIND: &str = "multipart/form-data; boundary=XX";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--XX\r\nContent-Disposition: form-data; {disposition}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    part(&format!("name=\"file\"; filename=\"{name}\""), content)
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), b"--XX--\r\n".to_vec()].concat()
}

fn post(server: &TestServer, body: &[u8]) -> Answer {
    let headers = [("x-api-key", server.key.as_str()), ("content-type", KIND)];
    send(server.address, "POST", "/attachments", &headers, Some(body)).expect("answer")
}

/// Uploads files by name and content.
pub(crate) fn upload(server: &TestServer, files: &[(&str, &[u8])]) -> Vec<Value> {
    let parts: Vec<_> = files.iter().map(|(name, content)| file(name, content)).collect();
    let page = post(server, &form(&parts)).is(201).json();
    page["attachments"].as_array().expect("attachments").clone()
}

/// What is on the disk.
fn kept(server: &TestServer) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(server.data_dir().join("blobs/default")) else { return vec![] };
    entries.map(|entry| entry.expect("entry").path()).collect()
}

fn path(file: &Value) -> String {
    format!("/attachments/{}", file["id"].as_str().expect("id"))
}

#[test]
fn files_are_uploaded_read_and_deleted() {
    let server = TestServer::start();
    let files =
        upload(&server, &[("a.csv", b"a,b\n1,2\n"), ("dir/picture.txt", PNG), ("same", b"a,b\n1,2\n"), ("empty", b"")]);
    let types: Vec<_> = files.iter().map(|f| f["mediaType"].as_str().expect("type")).collect();
    assert_eq!(types, ["text/csv", "image/png", "application/octet-stream", "application/octet-stream"]);
    assert_eq!((&files[0]["name"], &files[1]["name"]), (&json!("a.csv"), &json!("dir/picture.txt")));
    assert_eq!(
        (&files[0]["size"], &files[0]["kind"], &files[0]["status"]),
        (&json!(8), &json!("upload"), &json!("pending"))
    );
    assert_eq!(
        (&files[0]["chatId"], &files[0]["path"], &files[0]["error"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert_eq!(files[0]["sha256"], files[2]["sha256"]);
    assert_eq!(kept(&server).len(), 3, "equal files are kept once");
    for file in &files {
        assert_eq!(server.get(&path(file)).is(200).json(), *file);
    }
    let content = server.get(&format!("{}/content", path(&files[0]))).is(200);
    assert_eq!(content.text, "a,b\n1,2\n");
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-length", "8"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("content-disposition", "attachment; filename=\"a.csv\"; filename*=UTF-8''a.csv"),
    ] {
        assert_eq!(content.header(name), Some(value), "{name}");
    }

    server.call("DELETE", &path(&files[0]), None).is(204);
    server.get(&path(&files[0])).error(404, "attachment_not_found");
    assert_eq!(server.get(&format!("{}/content", path(&files[2]))).is(200).text, "a,b\n1,2\n", "another file has it");
    server.call("DELETE", &path(&files[2]), None).is(204);
    server.call("DELETE", &path(&files[2]), None).error(404, "attachment_not_found");
    assert_eq!(kept(&server).len(), 2, "the last one that had it is gone");
    let server = server.restart();
    assert_eq!(server.get(&path(&files[1])).is(200).json(), files[1]);
}

#[test]
fn ranges_and_images_in_place() {
    let server = TestServer::start();
    let files = upload(&server, &[("a.txt", b"0123456789"), ("p.bin", PNG), ("p.svg", b"<svg/>")]);
    let get =
        |headers: &[(&str, &str)]| server.call_with("GET", &format!("{}/content", path(&files[0])), headers, None);
    let etag = format!("\"{}\"", files[0]["sha256"].as_str().expect("digest"));
    let range = get(&[("range", "bytes=2-4")]).is(206);
    assert_eq!((range.text.as_str(), range.header("content-range")), ("234", Some("bytes 2-4/10")));
    assert_eq!(get(&[("range", "bytes=-3")]).is(206).text, "789");
    assert_eq!(get(&[("range", "bytes=10-")]).is(416).header("content-range"), Some("bytes */10"));
    assert_eq!(get(&[("range", "bytes=2-4"), ("if-range", &etag)]).is(206).text, "234");
    assert_eq!(get(&[("range", "bytes=2-4"), ("if-range", "\"other\"")]).is(200).text, "0123456789");
    assert_eq!(get(&[("if-none-match", &etag)]).is(304).text, "");

    let inline = |file: &Value| server.get(&format!("{}/content?inline=true", path(file))).is(200);
    let picture = inline(&files[1]);
    assert_eq!(picture.header("content-type"), Some("image/png"));
    assert!(picture.header("content-disposition").is_some_and(|text| text.starts_with("inline;")));
    for file in [&files[0], &files[2]] {
        let other = inline(file);
        assert_eq!(other.header("content-type"), Some("application/octet-stream"));
        assert!(other.header("content-disposition").is_some_and(|text| text.starts_with("attachment;")));
    }
}

#[test]
fn a_form_is_taken_whole_or_not_at_all() {
    let server = TestServer::start();
    let good = || file("good.txt", b"good");
    let many: Vec<_> = (0..201).map(|n| file(&format!("{n}"), b"x")).collect();
    let kind = |text: &str| part("name=\"kind\"", text.as_bytes());
    for (body, said) in [
        (form(&[]), "no files"),
        (form(&[good(), file("../up", b"x")]), "contains .."),
        (form(&[good(), file("/etc/passwd", b"x")]), "absolute path"),
        (form(&[good(), part("name=\"file\"", b"x")]), "has no file name"),
        (form(&[good(), kind("artifact")]), "kind must be"),
        (form(&[good(), kind("screenshot")]), "a screenshot is"),
        (form(&many), "At most 200"),
        ([good(), b"--XX\r\nno end".to_vec()].concat(), "could not be read"),
        (
            [good(), b"--XX\r\nContent-Disposition: form-data; filename=\"b\"\r\n\r\nno end".to_vec()].concat(),
            "could not be read",
        ),
    ] {
        let message = post(&server, &body).error(400, "invalid_request");
        assert!(message.contains(said), "{said}: {message}");
        crate::eventually("nothing is left", || kept(&server).is_empty());
    }
    server.post("/attachments", json!({})).error(400, "invalid_request");
    let page = post(&server, &form(&[kind("screenshot"), file("s.png", PNG)])).is(201).json();
    assert_eq!(page["attachments"][0]["kind"], "screenshot");
}

#[test]
fn what_breaks_off_leaves_nothing() {
    let server = TestServer::start();
    let mut stream = TcpStream::connect(server.address).expect("connect");
    let head = format!(
        "POST /attachments HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: {KIND}\r\ncontent-length: 1000000\r\n\r\n",
        server.key
    );
    stream.write_all(head.as_bytes()).expect("write");
    stream.write_all(&file("whole.txt", b"one that is complete")).expect("write");
    stream.write_all(b"--XX\r\nContent-Disposition: form-data; filename=\"half\"\r\n\r\n").expect("write");
    stream.write_all(&[b'x'; 100_000]).expect("write");
    crate::eventually("both have begun", || kept(&server).len() == 2);
    drop(stream);
    crate::eventually("nothing of it is left", || kept(&server).is_empty());
}

#[test]
fn files_have_a_limit_and_so_have_teams() {
    let server = TestServer::with(&[("chat.max_blob_mb", "1")]);
    let large = vec![1; 700 << 10];
    let first = upload(&server, &[("a", &large)]);
    let message = post(&server, &form(&[file("b", &vec![2; 700 << 10])])).error(429, "limit_reached");
    assert!(message.contains("chat.max_blob_mb"), "{message}");
    upload(&server, &[("again", b"small")]);
    server.call("DELETE", &path(&first[0]), None).is(204);
    upload(&server, &[("b", &vec![2; 700 << 10])]);

    let server = TestServer::start();
    let message = post(&server, &form(&[file("huge", &vec![0; (100 << 20) + 1])])).error(413, "body_too_large");
    assert!(message.contains("\"huge\" is larger than the 100 MiB"), "{message}");
    crate::eventually("nothing is left", || kept(&server).is_empty());
}

#[test]
fn the_files_of_another_team_are_not_found() {
    let server = with_another_team();
    let files = upload(&server, &[("mine.txt", b"mine")]);
    for (method, suffix) in [("GET", ""), ("GET", "/content"), ("DELETE", "")] {
        as_other(&server, method, &format!("{}{suffix}", path(&files[0])), None).error(404, "attachment_not_found");
    }
    server.get(&path(&files[0])).is(200);
}
