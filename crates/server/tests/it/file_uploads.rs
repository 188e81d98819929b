//! Files for sandboxes as forms: names, limits, and that what fails leaves nothing.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::server::TestServer;

const KIND: &str = "multipart/form-data; boundary=XX";
const DIRECTORY: &str = "/home/user/user-uploads";

/// A server whose sandboxes have guests.
fn with_guests(settings: &[(&str, &str)]) -> (TestServer, tempfile::TempDir) {
    let server = TestServer::with(settings);
    let dir = tempfile::tempdir().expect("directory");
    server.world.serve_guests(dir.path().to_owned());
    (server, dir)
}

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

fn post(server: &TestServer, path: &str, body: &[u8]) -> Answer {
    post_with(server, path, &[], body)
}

fn post_with(server: &TestServer, path: &str, more: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut headers = vec![("x-api-key", server.key.as_str()), ("content-type", KIND)];
    headers.extend_from_slice(more);
    send(server.address, "POST", path, &headers, Some(body)).expect("answer")
}

fn upload(server: &TestServer, id: &str, parts: &[Vec<u8>]) -> Vec<Value> {
    let manifest = post(server, &format!("/sandboxes/{id}/uploads"), &form(parts)).is(200).json();
    assert_eq!(manifest["directory"], DIRECTORY);
    manifest["files"].as_array().expect("files").clone()
}

fn description() -> Vec<u8> {
    part("name=\"sandbox\"", br#"{"templateID": "base"}"#)
}

#[test]
fn files_keep_their_paths_and_never_replace_each_other() {
    let (server, _dir) = with_guests(&[]);
    let id = server.create();
    let parts = [
        file("a.txt", b"one"),
        file("dir/a.txt", b"two"),
        file("a.txt", b"three"),
        file("empty", b""),
        part("name=\"x\"; filename*=UTF-8''%C3%BC%20%22.tar.gz", b"four"),
    ];
    let files = upload(&server, &id, &parts);
    let paths: Vec<_> = files.iter().map(|f| f["path"].as_str().expect("path")).collect();
    let below = |name: &str| format!("{DIRECTORY}/{name}");
    assert_eq!(paths, ["a.txt", "dir/a.txt", "a (2).txt", "empty", "ü \".tar.gz"].map(below));
    assert!(files.iter().all(|f| f["status"] == "uploaded" && f.get("error").is_none()), "{files:?}");
    assert_eq!(files[0]["size"], 3);
    // Of "one".
    assert_eq!(files[0]["sha256"], "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    let again = upload(&server, &id, &parts[4..]);
    assert_eq!(again[0]["path"], below("ü \" (2).tar.gz"));
    let found = server.world.files(&id);
    assert_eq!(found.len(), 6, "no temporary file is left: {:?}", found.keys());
    assert_eq!(found[&below("a (2).txt")], b"three");
}

#[test]
fn invalid_names_fail_alone() {
    let (server, _dir) = with_guests(&[]);
    let id = server.create();
    let long = "x".repeat(256);
    let names = ["/etc/passwd", "../up", "a/../b", "a//b", "a/", ".", "%0Aline", long.as_str()];
    let mut parts: Vec<_> = names.iter().map(|name| file(name, b"no")).collect();
    parts.push(part("name=\"field\"", b"no file name"));
    parts.push(file("good", b"yes"));
    let files = upload(&server, &id, &parts);
    for (file, name) in files.iter().zip(names) {
        assert_eq!(file["status"], "failed", "{name}");
        assert!(file["error"].as_str().is_some_and(|e| e.contains("name")) && file.get("path").is_none(), "{file}");
    }
    assert_eq!((&files[8]["status"], &files[9]["status"]), (&json!("failed"), &json!("uploaded")));
    assert_eq!(server.world.files(&id).len(), 1);
}

#[test]
fn uploads_are_bounded() {
    let (server, _dir) = with_guests(&[("tools.max_upload_mb", "1")]);
    let id = server.create();
    let exact = vec![1; 1 << 20];
    let files = upload(&server, &id, &[file("large", &[&exact[..], b"x"].concat()), file("exact", &exact)]);
    assert!(
        files[0]["error"].as_str().is_some_and(|e| e.contains("1 MiB") && e.contains("max_upload_mb")),
        "{files:?}"
    );
    assert_eq!(files[1]["status"], "uploaded");
    assert_eq!(server.world.files(&id).into_keys().collect::<Vec<_>>(), [format!("{DIRECTORY}/exact")]);
    // The rest of a file that is far too large is not read.
    let files = upload(&server, &id, &[file("huge", &vec![1; 3 << 20]), file("next", b"x")]);
    assert_eq!((files.len(), &files[0]["status"]), (1, &json!("failed")));

    let many: Vec<_> = (0..202).map(|n| file(&format!("many/{n}"), b"x")).collect();
    let files = upload(&server, &id, &many);
    assert_eq!((files.len(), &files[199]["status"]), (201, &json!("uploaded")));
    assert!(files[200]["error"].as_str().is_some_and(|e| e.contains("200 files")), "{}", files[200]);

    let path = format!("/sandboxes/{id}/uploads");
    let refused = |body: &[u8]| post(&server, &path, body).error(400, "invalid_request");
    assert!(refused(b"--XX--\r\n").contains("no files"));
    assert!(refused(b"nonsense").contains("unexpected end"));
    let message = server.call("POST", &path, Some(json!({}))).error(400, "invalid_request");
    assert!(message.contains("multipart/form-data"), "{message}");
    let files = post(&server, &path, &[file("whole", b"1"), file("cut", b"2")].concat()[..]).is(200).json();
    assert_eq!(files["files"][0]["status"], "uploaded");
    assert!(files["files"][1]["error"].as_str().is_some_and(|e| e.contains("unexpected end")), "{files}");
    assert!(!server.world.files(&id).keys().any(|name| name.contains("cut") || name.contains(".upload")));
}

#[test]
fn a_full_disk_is_said() {
    let (server, _dir) = with_guests(&[]);
    let id = server.create_with(json!({"diskSizeMB": 64}));
    let files = upload(&server, &id, &[file("large", &vec![0; 65 << 20]), file("small", b"x")]);
    assert!(files[0]["error"].as_str().is_some_and(|e| e.contains("disk is full")), "{files:?}");
    assert_eq!(files[1]["status"], "uploaded");
}

#[test]
fn a_paused_sandbox_is_resumed() {
    let (server, _dir) = with_guests(&[]);
    let id = server.create();
    server.post(&format!("/sandboxes/{id}/pause"), json!({})).is(204);
    assert_eq!(upload(&server, &id, &[file("a", b"x")])[0]["status"], "uploaded");
    assert_eq!(server.get(&format!("/sandboxes/{id}")).is(200).json()["state"], "running");
}

#[test]
fn a_sandbox_is_created_with_files() {
    let (server, _dir) = with_guests(&[]);
    for path in ["/sandboxes", "/v2/sandboxes"] {
        let body = form(&[description(), file("a.txt", b"one"), file("d/b", b"two")]);
        let made = post(&server, path, &body).is(201);
        assert_eq!(made.json()["uploads"][1]["path"], format!("{DIRECTORY}/d/b"), "{}", made.text);
        assert_eq!(server.world.files(&made.member("sandboxID")).len(), 2);
    }
    let made = post(&server, "/v2/sandboxes", &form(&[description()])).is(201);
    assert_eq!(made.json()["uploads"], json!([]));
    assert!(server.post("/v2/sandboxes", json!({"templateID": "base"})).is(201).json().get("uploads").is_none());
}

#[test]
fn a_creation_whose_files_fail_leaves_nothing() {
    let (server, _dir) = with_guests(&[("tools.max_upload_mb", "1")]);
    let create = |parts: &[Vec<u8>]| post(&server, "/v2/sandboxes", &form(parts));
    let message = create(&[description(), file("good", b"x"), file("../bad", b"x")]).error(400, "invalid_request");
    assert!(message.contains("\"../bad\"") && message.contains("no sandbox was created"), "{message}");
    let large = vec![0; (1 << 20) + 1];
    assert!(create(&[description(), file("large", &large)]).error(413, "body_too_large").contains("large"));
    let cut = [description(), file("cut", b"x")].concat();
    assert!(post(&server, "/v2/sandboxes", &cut).error(400, "invalid_request").contains("\"cut\""));

    let first = "The first part of the form must be named sandbox";
    assert!(create(&[]).error(400, "invalid_request").contains(first));
    assert!(create(&[file("a", b"x"), description()]).error(400, "invalid_request").contains(first));
    let oversized = part("name=\"sandbox\"", &vec![b' '; (2 << 20) + 1]);
    assert!(create(&[oversized]).error(400, "invalid_request").contains("larger than 2 MiB"));
    create(&[part("name=\"sandbox\"", b"[]"), file("a", b"x")]).error(400, "invalid_request");
    create(&[part("name=\"sandbox\"", br#"{"templateID": "none"}"#), file("a", b"x")]).error(404, "template_not_found");
    let body = form(&[description(), file("a", b"x")]);
    let message = post_with(&server, "/v2/sandboxes", &[("idempotency-key", "k")], &body).error(400, "invalid_request");
    assert!(message.contains("Idempotency-Key does not go with files"), "{message}");
    assert!(server.listed().is_empty() && server.world.ids().is_empty() && server.world.disks().is_empty());
}

#[test]
fn a_client_that_stops_leaves_nothing() {
    let (server, _dir) = with_guests(&[]);
    let begin = |path: &str, parts: &[Vec<u8>]| {
        let mut stream = TcpStream::connect(server.address).expect("connect");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: {KIND}\r\ncontent-length: 90000000\r\n\r\n",
            server.key
        );
        stream.write_all(head.as_bytes()).expect("write");
        stream.write_all(&parts.concat()).expect("write");
        stream
    };
    // Before the description is complete.
    drop(begin("/v2/sandboxes", &[description()]));
    // In the middle of the second file.
    let stream = begin("/v2/sandboxes", &[description(), file("a", b"x"), file("b", &vec![0; 200_000])]);
    crate::eventually("the sandbox has its first file", || {
        server.listed().first().is_some_and(|id| !server.world.files(id).is_empty())
    });
    drop(stream);
    crate::eventually("the sandbox is killed", || server.listed().is_empty() && server.world.disks().is_empty());

    let id = server.create();
    let stream = begin(&format!("/sandboxes/{id}/uploads"), &[file("a", b"x"), file("b", &vec![0; 200_000])]);
    crate::eventually("the first file is there", || server.world.files(&id).contains_key(&format!("{DIRECTORY}/a")));
    drop(stream);
    // Another upload of the same name shows that nothing of the first is in its way.
    let files = upload(&server, &id, &[file("b", b"whole")]);
    assert_eq!(files[0]["path"], format!("{DIRECTORY}/b"));
    crate::eventually("no part is left", || server.world.files(&id).len() == 2);
}
