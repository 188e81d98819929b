//! Files over HTTP and over Connect.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Guest, basic};

fn fs(guest: &Guest, method: &str, message: &Value) -> (u16, Value) {
    guest.call(&format!("filesystem.Filesystem/{method}"), message)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = std::process::Command::new("gzip")
        .arg("-c")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = encoder.stdin.take().unwrap();
    let data = data.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&data));
    let output = encoder.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output.stdout
}

/// Bytes that cannot be compressed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(state >> 56).unwrap()
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn raw_uploads_and_downloads() {
    let guest = Guest::start();
    let file = guest.file("a/b/c.txt");
    let answer = guest.upload(&format!("{file}&username=nobody"), &[], b"hello");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!([{"name": "c.txt", "path": file, "type": "file"}]));
    let metadata = std::fs::metadata(&file).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (65534, 0o644));
    assert_eq!(std::fs::metadata(guest.file("a")).unwrap().uid(), 65534);
    let answer = guest.get(&format!("/files?path={file}"));
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hello"[..]));
    assert_eq!(answer.header("content-disposition"), Some("inline; filename=\"c.txt\""));
    assert_eq!(answer.header("content-length"), Some("5"));

    guest.upload(&file, &[], b"");
    let empty = guest.get(&format!("/files?path={file}"));
    assert_eq!((empty.body.len(), empty.header("content-length")), (0, Some("0")));
    let head = guest.http("HEAD", &format!("/files?path={file}"), &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("0")));
}

#[test]
fn large_files_ranges_and_conditions() {
    let guest = Guest::start();
    let file = guest.file("large");
    let data: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.to_le_bytes().into_iter().take(1)).collect();
    assert_eq!(guest.upload(&file, &[], &data).status, 200);
    let path = format!("/files?path={file}");
    assert!(guest.get(&path).body == data);
    let part = guest.http("GET", &path, &[("range", "bytes=1000000-1000009")], b"");
    assert_eq!((part.status, part.body.as_slice()), (206, &data[1_000_000..1_000_010]));
    assert_eq!(part.header("content-range"), Some("bytes 1000000-1000009/3000000"));
    let tail = guest.http("GET", &path, &[("range", "bytes=-5"), ("accept-encoding", "gzip")], b"");
    assert_eq!((tail.status, tail.body.as_slice()), (206, &data[2_999_995..]));
    let beyond = guest.http("GET", &path, &[("range", "bytes=3000000-")], b"");
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */3000000")));
    let modified = part.header("last-modified").unwrap().to_owned();
    assert_eq!(guest.http("GET", &path, &[("if-modified-since", &modified)], b"").status, 304);
}

#[test]
fn compression_both_ways() {
    let guest = Guest::start();
    let file = guest.file("text");
    let data = "all work and no play ".repeat(10_000).into_bytes();
    assert_eq!(guest.upload(&file, &[("content-encoding", "gzip")], &gzip(&data)).status, 200);
    assert!(std::fs::read(&file).unwrap() == data);
    let answer = guest.http("GET", &format!("/files?path={file}"), &[("accept-encoding", "br, gzip")], b"");
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert!(answer.body.len() < data.len() / 10);
    std::fs::write(guest.file("text.gz"), &answer.body).unwrap();
    let unpacked = std::process::Command::new("gzip").args(["-dc", &guest.file("text.gz")]).output().unwrap();
    assert!(unpacked.stdout == data);
    for plain in [b"a".repeat(1000), gzip(&noise(100_000)), noise(10_000), b"a".repeat(300_000)] {
        guest.upload(&file, &[], &plain);
        let answer = guest.http("GET", &format!("/files?path={file}"), &[("accept-encoding", "gzip")], b"");
        assert_eq!(answer.header("content-encoding"), None, "{} bytes", plain.len());
        assert_eq!(answer.header("content-length"), Some(plain.len().to_string().as_str()));
        assert!(answer.body == plain);
    }
    let broken = guest.upload(&guest.file("new"), &[("content-encoding", "gzip")], b"not gzip at all");
    assert_eq!(broken.status, 400);
    assert!(!Path::new(&guest.file("new")).exists());
}

#[test]
fn forms_with_many_files() {
    let guest = Guest::start();
    let (one, two) = (guest.file("one"), guest.file("deep/two \u{e9}"));
    let part = |name: &str, text: &str| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n")
    };
    let other = "--XX\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nignored\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=XX")];
    let body = format!("{}{other}{}--XX--\r\n", part(&one, "1"), part(&two, &"2".repeat(400_000)));
    let answer = guest.http("POST", "/files", &kind, body.as_bytes());
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.json().as_array().unwrap().len(), 2);
    assert_eq!(std::fs::read_to_string(&one).unwrap(), "1");
    assert_eq!(std::fs::read_to_string(&two).unwrap().len(), 400_000);

    let body = format!("{}{}--XX--\r\n", part(&one, "1"), part(&one, "2"));
    let answer = guest.http("POST", "/files", &kind, body.as_bytes());
    assert_eq!(answer.status, 400);
    assert!(answer.message().contains("multiple files to the same path"));
    let body = format!("{}--XX--\r\n", part("ignored name", "by query"));
    assert_eq!(guest.http("POST", &format!("/files?path={one}"), &kind, body.as_bytes()).status, 200);
    assert_eq!(std::fs::read_to_string(&one).unwrap(), "by query");
}

#[test]
fn a_broken_upload_leaves_nothing() {
    let guest = Guest::start();
    let file = guest.file("partial");
    {
        let crate::client::Address::Unix(socket) = &guest.address else { panic!("a unix socket") };
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let head = format!(
            "POST /files?path={file} HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n\
             content-length: 9000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'x'; 2_000_000]).unwrap();
        crate::client::eventually("it is being written", || Path::new(&file).exists());
    }
    crate::client::eventually("it is removed", || !Path::new(&file).exists());

    let form = "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/never-there\"\r\n\r\nhalf";
    let answer = guest.http("POST", "/files", &[("content-type", "multipart/form-data; boundary=XX")], form.as_bytes());
    assert_eq!(answer.status, 400);
    assert!(!Path::new("/tmp/never-there").exists());
}

#[test]
fn invalid_requests_are_rejected() {
    let guest = Guest::start();
    let missing = guest.file("missing");
    let answer = guest.get(&format!("/files?path={missing}"));
    assert_eq!(answer.json(), json!({"code": 404, "message": format!("path '{missing}' does not exist")}));
    let fifo = guest.file("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fifo.as_str(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    let dir = guest.file("");
    for path in [dir.as_str(), "/dev/zero", &fifo, "a%00b", "~other/x", "/proc/self/environ", "/proc/1/../self/mem"] {
        let answer = guest.get(&format!("/files?path={path}"));
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!(400)), "{path}: {}", answer.message());
    }
    for path in [dir.as_str(), "/", &fifo, "/proc/sys/kernel/hostname", "/dev/null"] {
        assert_eq!(guest.upload(path, &[], b"x").status, 400, "{path}");
    }
    assert_eq!(guest.http("POST", "/files?path=x", &[("content-type", "text/plain")], b"x").status, 400);
    assert_eq!(guest.upload("x&username=nope", &[], b"x").status, 401);
    assert_eq!(guest.get("/nothing").json()["code"], 404);
    assert_eq!(guest.http("DELETE", "/files", &[], b"").status, 405);
    let memory = guest.get("/files?path=/proc/meminfo");
    assert!(String::from_utf8_lossy(&memory.body).contains("MemTotal"));
    assert_eq!(memory.header("content-length").unwrap().parse::<usize>().unwrap(), memory.body.len());
}

#[test]
fn a_full_disk_is_507() {
    let guest = Guest::start();
    let mount = guest.file("small");
    std::fs::create_dir(&mount).unwrap();
    let status =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs", &mount]).status().unwrap();
    if !status.success() {
        return; // not allowed to mount here
    }
    let file = format!("{mount}/file");
    let known = guest.upload(&file, &[], &vec![b'x'; 3 << 20]);
    let unknown = guest.upload(&file, &[("content-encoding", "gzip")], &gzip(&vec![b'x'; 3 << 20]));
    let left = Path::new(&file).exists();
    std::process::Command::new("umount").arg(&mount).status().unwrap();
    assert_eq!((known.status, unknown.status, left), (507, 507, false));
}

#[test]
fn metadata_round_trips() {
    let guest = Guest::start();
    let file = guest.file("noted");
    let answer = guest.upload(&file, &[("x-metadata-Author", "me"), ("x-metadata-n", "1")], b"x");
    assert_eq!(answer.json()[0]["metadata"], json!({"author": "me", "n": "1"}));
    let (_, stat) = fs(&guest, "Stat", &json!({"path": file}));
    assert_eq!(stat["entry"]["metadata"], json!({"author": "me", "n": "1"}));
    guest.upload(&file, &[("x-metadata-n", "2")], b"x");
    let (_, stat) = fs(&guest, "Stat", &json!({"path": file}));
    assert_eq!(stat["entry"]["metadata"], json!({"n": "2"}));
    assert_eq!(guest.upload(&file, &[("x-metadata-n", &"x".repeat(5000))], b"x").status, 400);
}

#[test]
fn composing() {
    let guest = Guest::start();
    let (a, b, all) = (guest.file("a"), guest.file("b"), guest.file("new/all"));
    std::fs::write(&a, "first ").unwrap();
    std::fs::write(&b, "second").unwrap();
    let post = |message: &Value| guest.http("POST", "/files/compose", &[], message.to_string().as_bytes());
    assert_eq!(post(&json!({"source_paths": [a, guest.file("none")], "destination": all})).status, 404);
    assert_eq!(post(&json!({"source_paths": [], "destination": all})).status, 400);
    assert_eq!(post(&json!({"source_paths": [a], "destination": a})).status, 400);
    let answer = post(&json!({"source_paths": [a, b], "destination": all}));
    assert_eq!(answer.json(), json!({"name": "all", "path": all, "type": "file"}));
    assert_eq!(std::fs::read_to_string(&all).unwrap(), "first second");
    assert!(!Path::new(&a).exists() && !Path::new(&b).exists());
}

#[test]
fn directories_by_rpc() {
    let guest = Guest::start();
    let (dir, file) = (guest.file("d/e"), guest.file("f"));
    let user = basic("nobody");
    let (status, made) =
        guest.call_with("filesystem.Filesystem/MakeDir", &[("authorization", &user)], &json!({"path": dir}));
    assert_eq!(status, 200);
    let entry = &made["entry"];
    assert_eq!(
        (&entry["name"], &entry["type"], &entry["owner"]),
        (&json!("e"), &json!("FILE_TYPE_DIRECTORY"), &json!("nobody"))
    );
    assert_eq!((&entry["mode"], &entry["permissions"]), (&json!(0o755), &json!("drwxr-xr-x")));
    assert_eq!(fs(&guest, "MakeDir", &json!({"path": dir})).1["code"], "already_exists");
    std::fs::write(&file, "1234").unwrap();
    assert_eq!(fs(&guest, "MakeDir", &json!({"path": file})).1["code"], "invalid_argument");
    let (_, stat) = fs(&guest, "Stat", &json!({"path": file}));
    assert_eq!((&stat["entry"]["size"], &stat["entry"]["type"]), (&json!("4"), &json!("FILE_TYPE_FILE")));
    assert!(stat["entry"]["modifiedTime"].as_str().unwrap().ends_with('Z'));
    assert_eq!(fs(&guest, "Stat", &json!({"path": guest.file("none")})).0, 404);
    let moved = guest.file("x/y/z");
    assert_eq!(fs(&guest, "Move", &json!({"source": file, "destination": moved})).1["entry"]["path"], json!(moved));
    assert_eq!(fs(&guest, "Move", &json!({"source": file, "destination": moved})).1["code"], "not_found");
    let (_, list) = fs(&guest, "ListDir", &json!({"path": guest.file("x"), "depth": 5}));
    let names: Vec<_> =
        list["entries"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, [guest.file("x/y"), moved.clone()]);
    assert_eq!(fs(&guest, "ListDir", &json!({"path": moved})).1["code"], "invalid_argument");
    assert_eq!(fs(&guest, "ListDir", &json!({"path": guest.file("none")})).1["code"], "not_found");
    assert_eq!(fs(&guest, "Remove", &json!({"path": guest.file("x")})), (200, json!({})));
    assert_eq!(fs(&guest, "Remove", &json!({"path": guest.file("x")})), (200, json!({})));
    assert_eq!(fs(&guest, "Remove", &json!({"path": "/a/.."})).1["code"], "invalid_argument");
}

#[test]
fn moving_between_file_systems() {
    let guest = Guest::start();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let source = guest.file("tree");
    std::fs::create_dir_all(format!("{source}/sub")).unwrap();
    std::fs::write(format!("{source}/sub/file"), "text").unwrap();
    let destination = other.path().join("moved");
    let (status, _) = fs(&guest, "Move", &json!({"source": source, "destination": destination.to_str().unwrap()}));
    assert_eq!(status, 200);
    assert_eq!(std::fs::read_to_string(destination.join("sub/file")).unwrap(), "text");
    assert!(!Path::new(&source).exists());
}

#[test]
fn decompression_bombs_use_bounded_memory() {
    let guest = Guest::start();
    let mut form = b"--XX\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n".to_vec();
    form.resize(100 << 20, b'x');
    let bomb = gzip(&form);
    let headers = [("content-type", "multipart/form-data; boundary=XX"), ("content-encoding", "gzip")];
    assert_eq!(guest.http("POST", "/files", &headers, &bomb).status, 400);
    let file = guest.file("bomb");
    assert_eq!(guest.upload(&file, &[("content-encoding", "gzip")], &bomb).status, 200);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 100 << 20);
    assert_eq!(guest.http("GET", &format!("/files?path={file}"), &[("accept-encoding", "gzip")], b"").status, 200);
    let peak = std::fs::read_to_string(format!("/proc/{}/status", guest.child.id())).unwrap();
    let peak =
        peak.lines().find(|l| l.starts_with("VmHWM:")).unwrap().split_ascii_whitespace().nth(1).unwrap().to_owned();
    assert!(peak.parse::<u64>().unwrap() < 32 << 10, "{peak} kB");
}
