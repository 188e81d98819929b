//! Uploads for builds: links, what they allow, and that a broken upload leaves nothing.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::json;

use crate::build_world::requested;
use crate::http::{Answer, send};
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn tar(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[257..262].copy_from_slice(b"ustar");
    bytes
}

/// The path of a link, which begins with the address that the client used.
fn link(server: &TestServer, template: &str, present: bool) -> String {
    let answer = server.get(&format!("/templates/{template}/files/{HASH}")).is(201).json();
    assert_eq!(answer["present"], present);
    let url = answer["url"].as_str().expect("url");
    let base = format!("http://{}", server.address);
    url.strip_prefix(&base).unwrap_or_else(|| panic!("{url} does not begin with {base}")).to_owned()
}

fn put(server: &TestServer, path: &str, body: &[u8]) -> Answer {
    send(server.address, "PUT", path, &[], Some(body)).expect("answer")
}

/// Everything that is in the directory of uploads.
fn kept(server: &TestServer) -> Vec<PathBuf> {
    let team = server.data_dir().join("files/default");
    let Ok(entries) = std::fs::read_dir(team) else { return vec![] };
    entries.map(|entry| entry.expect("entry").path()).collect()
}

#[test]
fn an_archive_is_uploaded_by_its_link() {
    let server = TestServer::with(&[("connections.hosts", "cabana.example")]);
    let build = requested(&server, json!({"name": "mine"}));
    let path = link(&server, &build.template, false);
    put(&server, &path, &tar(4096)).is(200);
    assert_eq!(std::fs::read(&kept(&server)[0]).expect("read"), tar(4096));
    // By any name of the template; and again, for `forceUpload`.
    let path = link(&server, "mine", true);
    put(&server, &path, b"\x1f\x8b packed").is(200);
    assert_eq!(std::fs::read(&kept(&server)[0]).expect("read"), b"\x1f\x8b packed");
    assert_eq!(kept(&server).len(), 1);

    // The link has the address that the client used.
    let ask = |headers: &[(&str, &str)]| {
        let mut head =
            format!("GET /templates/mine/files/{HASH} HTTP/1.1\r\nx-api-key: {}\r\nconnection: close\r\n", server.key);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(server.address).expect("connect");
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("write");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).expect("read");
        text
    };
    assert!(ask(&[("host", "cabana.example:8080")]).contains("\"url\":\"http://cabana.example:8080/templates/"));
    let proxied = ask(&[("host", "cabana.example"), ("x-forwarded-proto", "https")]);
    assert!(proxied.contains("\"url\":\"https://cabana.example/templates/"), "{proxied}");

    // A link stays valid after a restart.
    let path = link(&server, "mine", true);
    let server = server.restart();
    put(&server, &path, &tar(1024)).is(200);
}

#[test]
fn a_link_is_valid_only_for_its_archive() {
    let server = TestServer::start();
    let build = requested(&server, json!({"name": "mine"}));
    let other = requested(&server, json!({"name": "other"}));
    let path = link(&server, &build.template, false);
    let (_, query) = path.split_once('?').expect("query");
    let expires = query.split_once('&').expect("two").0;
    let later = path.replace(expires, "expires=99999999999");
    let earlier = path.replace(expires, "expires=1");
    for wrong in [
        path.replace(&build.template, &other.template),
        path.replace(HASH, "abc"),
        path.replace("token=", "token=A"),
        path.split_once("&token").expect("token").0.to_owned(),
        format!("/templates/{}/files/{HASH}", build.template),
        later,
        earlier,
    ] {
        let message = put(&server, &wrong, &tar(1024)).error(401, "unauthorized");
        assert!(message.contains("ask for a new link"), "{message}");
    }
    assert_eq!(kept(&server), Vec::<PathBuf>::new());
    for hash in ["", "a%20b", "..", "a%2Fb", &"x".repeat(129)] {
        let answer = server.get(&format!("/templates/mine/files/{hash}"));
        assert!(answer.status == 400 || (hash.is_empty() && answer.status == 404), "{hash}: {}", answer.text);
    }
    server.get(&format!("/templates/none/files/{HASH}")).error(404, "template_not_found");
    server.call("DELETE", "/templates/mine", None).is(204);
    put(&server, &path, &tar(1024)).error(404, "template_not_found");
}

#[test]
fn invalid_uploads_leave_nothing() {
    let server = TestServer::with(&[("builds.max_upload_mb", "1")]);
    let build = requested(&server, json!({"name": "mine"}));
    let path = link(&server, &build.template, false);
    put(&server, &path, b"hello").error(400, "invalid_request");
    put(&server, &path, b"").error(400, "invalid_request");
    let message = put(&server, &path, &tar(1024 * 1024 + 1)).error(413, "body_too_large");
    assert!(message.contains("builds.max_upload_mb"), "{message}");
    // Chunked, without a content length.
    let chunked = |whole: &[u8]| {
        let mut body = vec![];
        for chunk in whole.chunks(50_000) {
            body.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let mut stream = TcpStream::connect(server.address).expect("connect");
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("write");
        let _ = stream.write_all(&body);
        let mut bytes = vec![];
        let _ = std::io::Read::read_to_end(&mut stream, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let answer = chunked(&tar(1024 * 1024 + 1));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(kept(&server), Vec::<PathBuf>::new());
    // A client that disconnects in the middle.
    let mut stream = TcpStream::connect(server.address).expect("connect");
    let head = format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("write");
    stream.write_all(&tar(50_000)).expect("write");
    crate::eventually("the upload has begun", || !kept(&server).is_empty());
    drop(stream);
    crate::eventually("nothing of it is left", || kept(&server).is_empty());
    link(&server, &build.template, false);
    let answer = chunked(&tar(1024 * 1024));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    link(&server, &build.template, true);
}

#[test]
fn archives_belong_to_a_team() {
    let server = with_another_team();
    let build = requested(&server, json!({"name": "mine"}));
    put(&server, &link(&server, &build.template, false), &tar(1024)).is(200);
    as_other(&server, "POST", "/v3/templates", Some(r#"{"name":"theirs"}"#)).is(202);
    let answer = as_other(&server, "GET", &format!("/templates/theirs/files/{HASH}"), None).is(201).json();
    assert_eq!(answer["present"], false);
}
