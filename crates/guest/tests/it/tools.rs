//! Agent tools on the control socket: reading, listing, searching, ports, permissions and cancellation.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Guest, config, eventually};

/// A daemon whose paths start in its own directory, which everybody may enter.
pub(crate) fn guest() -> Guest {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = config(Some("token"));
    config["default_workdir"] = json!(dir.path().join("w"));
    std::fs::create_dir(dir.path().join("w")).unwrap();
    std::fs::set_permissions(dir.path().join("w"), PermissionsExt::from_mode(0o777)).unwrap();
    Guest::configured(dir, &config)
}

/// Calls a tool; the status and the answer.
pub(crate) fn ask(guest: &Guest, tool: &str, body: &Value) -> (u16, Value) {
    let answer = guest.control("POST", tool, &[], body.to_string().as_bytes());
    (answer.status, answer.json())
}

pub(crate) fn ok(guest: &Guest, tool: &str, body: &Value) -> Value {
    let (status, answer) = ask(guest, tool, body);
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The code of a refusal.
pub(crate) fn code(guest: &Guest, tool: &str, body: &Value) -> String {
    let (status, answer) = ask(guest, tool, body);
    assert_eq!(status, 422, "{answer}");
    assert!(answer["message"].as_str().unwrap().len() > 5, "{answer}");
    answer["code"].as_str().unwrap().to_owned()
}

fn lines(path: &str) -> Value {
    json!({"path": path, "what": {"kind": "lines", "start": 1, "max_lines": 2000, "max_bytes": 65536, "max_line": 2000,
        "max_image": 5_000_000}})
}

pub(crate) fn put(guest: &Guest, name: &str, content: impl AsRef<[u8]>) {
    let path = guest.dir().join("w").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn reading() {
    let guest = guest();
    put(&guest, "text", b"one\r\ntwo \xff\xc3\xa4\n\nlast");
    let answer = ok(&guest, "/read", &lines("text"));
    assert_eq!(answer["path"], guest.dir().join("w/text").to_str().unwrap());
    let content = json!({"kind": "lines", "total": 4, "truncated": false,
        "lines": [{"text": "one"}, {"text": "two \u{fffd}ä"}, {"text": ""}, {"text": "last"}]});
    assert_eq!((&answer["content"], &answer["size"]), (&content, &json!(18)));
    let mut part = lines("text");
    part["what"]["start"] = json!(2);
    part["what"]["end"] = json!(2);
    assert_eq!(ok(&guest, "/read", &part)["content"]["lines"].as_array().unwrap().len(), 1);
    part["what"]["start"] = json!(0);
    assert_eq!(code(&guest, "/read", &part), "invalid_arguments");

    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    put(&guest, "image", png);
    let image = ok(&guest, "/read", &lines("image"));
    assert_eq!(image["content"], json!({"kind": "image", "media_type": "image/png", "data": STANDARD.encode(png)}));
    put(&guest, "binary", b"\x7fELF\0\0");
    let (_, refusal) = ask(&guest, "/read", &lines("binary"));
    assert_eq!((&refusal["code"], &refusal["size"]), (&json!("binary_file"), &json!(6)));
    assert_eq!(refusal["media_type"], "application/x-executable");
    put(&guest, "large.png", [png, &[0; 6_000_000][..]].concat());
    assert_eq!(code(&guest, "/read", &lines("large.png")), "binary_file");

    let bytes = |max: u64| json!({"path": "text", "what": {"kind": "bytes", "max": max}});
    let whole = ok(&guest, "/read", &bytes(18))["content"].clone();
    assert_eq!(whole["data"], STANDARD.encode(b"one\r\ntwo \xff\xc3\xa4\n\nlast"));
    assert_eq!((whole["sha256"].as_str().unwrap().len(), &whole["mode"]), (64, &json!(0o644)));
    assert_eq!(code(&guest, "/read", &bytes(17)), "too_large");
}

#[test]
fn only_regular_files_are_read() {
    let guest = guest();
    let fifo = guest.dir().join("w/fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::os::unix::net::UnixListener::bind(guest.dir().join("w/socket")).unwrap();
    symlink(&fifo, guest.dir().join("w/to-fifo")).unwrap();
    symlink("loop", guest.dir().join("w/loop")).unwrap();
    let pid = guest.child.id();
    for (path, expected) in [
        ("fifo", "not_a_file"),
        ("to-fifo", "not_a_file"),
        ("socket", "not_a_file"),
        (".", "not_a_file"),
        ("/dev/zero", "not_a_file"),
        ("missing", "file_not_found"),
        ("missing/x", "file_not_found"),
        ("loop", "invalid_arguments"),
        ("", "invalid_arguments"),
        ("a\0b", "invalid_arguments"),
        ("~other/x", "invalid_arguments"),
        (&"x".repeat(300), "invalid_arguments"),
        (&"x/".repeat(3000), "invalid_arguments"),
        ("/proc/self/environ", "permission_denied"),
        (&format!("/proc/{pid}/maps"), "permission_denied"),
        ("/proc/self/exe", "invalid_arguments"),
        ("/proc/self/root/etc/passwd", "invalid_arguments"),
    ] {
        assert_eq!(code(&guest, "/read", &lines(path)), expected, "{path}");
    }
    assert!(ok(&guest, "/read", &lines("/proc/meminfo"))["content"]["total"].as_u64().unwrap() > 5);
    assert_eq!(guest.control("POST", "/read", &[], b"{}").status, 400);
    assert_eq!(guest.http("POST", "/read", &[("x-access-token", "token")], b"{}").status, 404, "only for the host");
}

#[test]
fn a_huge_file_is_read_with_little_memory() {
    let guest = guest();
    let line = "x".repeat(999) + "\n";
    let path = guest.dir().join("w/huge");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for _ in 0..200_000 {
        std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    }
    drop(file);
    let before = guest.memory();
    let mut request = lines("huge");
    request["what"]["start"] = json!(150_000);
    let answer = ok(&guest, "/read", &request);
    let content = &answer["content"];
    assert_eq!((&content["total"], &content["truncated"]), (&json!(200_000), &json!(true)));
    assert_eq!(content["lines"].as_array().unwrap().len(), 65);
    assert!(guest.memory() < before + (4 << 20), "{} bytes more", guest.memory() - before);
    // One line of 200 MB.
    std::fs::write(&path, vec![b'y'; 200_000_000]).unwrap();
    let content = ok(&guest, "/read", &lines("huge"))["content"].clone();
    assert_eq!(content["lines"][0]["cut"], 200_000_000 - 2000);
    assert!(guest.memory() < before + (4 << 20), "{} bytes more", guest.memory() - before);
}

#[test]
fn permissions_are_those_of_the_account() {
    let guest = guest();
    put(&guest, "secret", "hidden words");
    std::fs::set_permissions(guest.dir().join("w/secret"), PermissionsExt::from_mode(0o600)).unwrap();
    put(&guest, "closed/file", "hidden words");
    std::fs::set_permissions(guest.dir().join("w/closed"), PermissionsExt::from_mode(0o700)).unwrap();
    put(&guest, "open", "open words");
    let as_user = |mut body: Value, user: &str| {
        body["user"] = json!(user);
        body
    };
    for (path, expected) in
        [("secret", "permission_denied"), ("closed/file", "permission_denied"), ("/etc/shadow", "permission_denied")]
    {
        assert_eq!(code(&guest, "/read", &as_user(lines(path), "nobody")), expected, "{path}");
        ok(&guest, "/read", &as_user(lines(path), "root"));
        ok(&guest, "/read", &lines(path));
    }
    assert_eq!(code(&guest, "/read", &as_user(lines("open"), "no-such-user")), "invalid_arguments");
    let list = json!({"path": "closed", "depth": 1, "hidden": true, "limit": 10});
    assert_eq!(code(&guest, "/list", &as_user(list, "nobody")), "permission_denied");
    let grep = grep_request("words");
    let files = |user: &str| {
        let answer = ok(&guest, "/grep", &as_user(grep.clone(), user));
        answer["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(files("nobody"), ["open"], "threads of a search have the user's permissions too");
    assert_eq!(files("root"), ["closed/file", "open", "secret"]);
    let find = json!({"query": "file", "path": ".", "kind": "file", "limit": 10, "ignored": false});
    assert_eq!(ok(&guest, "/find", &as_user(find.clone(), "nobody"))["total"], 0);
    assert_eq!(ok(&guest, "/find", &find)["paths"], json!(["closed/file"]));

    let write = |path: &str| json!({"changes": [{"path": path, "expect": {"kind": "anything"}, "action": {"kind": "write", "data": ""}}]});
    for path in ["secret", "closed/new", "/etc/new", "/root/x", "open"] {
        assert_eq!(code(&guest, "/edit", &as_user(write(path), "nobody")), "permission_denied", "{path}");
    }
    ok(&guest, "/edit", &as_user(write("made/by/nobody"), "nobody"));
    let owner =
        |name: &str| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(guest.dir().join("w").join(name)).unwrap());
    assert_eq!((owner("made"), owner("made/by/nobody")), (65534, 65534));
    // Writable by all, owned by root: it stays root's.
    std::fs::set_permissions(guest.dir().join("w/open"), PermissionsExt::from_mode(0o666)).unwrap();
    ok(&guest, "/edit", &as_user(write("open"), "nobody"));
    assert_eq!(owner("open"), 0);
}

#[test]
fn listing() {
    let guest = guest();
    for name in ["b/x", "b/c/d/e", "a/1", ".hidden/f", "z"] {
        put(&guest, name, "12345");
    }
    symlink("b", guest.dir().join("w/link")).unwrap();
    let list = |depth: u32, hidden: bool, limit: usize| {
        let answer = ok(&guest, "/list", &json!({"path": ".", "depth": depth, "hidden": hidden, "limit": limit}));
        let paths: Vec<_> =
            answer["entries"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap().to_owned()).collect();
        (paths.join(" "), answer["truncated"].as_bool().unwrap())
    };
    assert_eq!(list(1, false, 10), ("a b link z".to_owned(), false));
    assert_eq!(list(1, true, 10), (".hidden a b link z".to_owned(), false));
    assert_eq!(list(2, false, 10), ("a a/1 b b/c b/x link z".to_owned(), false));
    assert_eq!(list(9, false, 10), ("a a/1 b b/c b/c/d b/c/d/e b/x link z".to_owned(), false));
    assert_eq!(list(9, false, 5), ("a a/1 b link z".to_owned(), true), "what is near the top comes first");
    assert_eq!(list(1, false, 4), ("a b link z".to_owned(), false));
    assert_eq!(list(2, false, 4), ("a b link z".to_owned(), true));
    assert_eq!(list(1, false, 2), ("a b".to_owned(), true));
    let entries =
        ok(&guest, "/list", &json!({"path": ".", "depth": 1, "hidden": false, "limit": 10}))["entries"].clone();
    assert_eq!((&entries[2]["kind"], &entries[2]["target"]), (&json!("link"), &json!("b")));
    assert_eq!(
        (&entries[3]["kind"], &entries[3]["size"], &entries[3]["mode"]),
        (&json!("file"), &json!(5), &json!(0o644))
    );
    assert_eq!(code(&guest, "/list", &json!({"path": "z", "depth": 1, "hidden": true, "limit": 9})), "not_a_directory");
    assert_eq!(
        code(&guest, "/list", &json!({"path": "/proc/self/fd", "depth": 1, "hidden": true, "limit": 9})),
        "permission_denied"
    );
}

#[test]
fn a_directory_with_many_entries_takes_little_memory() {
    let guest = guest();
    let many = guest.dir().join("w/many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..50_000 {
        std::fs::File::create(many.join(format!("{number:0100}"))).unwrap();
    }
    let before = guest.memory();
    let answer = ok(&guest, "/list", &json!({"path": "many", "depth": 3, "hidden": true, "limit": 100}));
    assert_eq!((answer["entries"].as_array().unwrap().len(), &answer["truncated"]), (100, &json!(true)));
    assert_eq!(answer["entries"][99]["path"], format!("{:0100}", 99));
    assert!(guest.memory() < before + (3 << 20), "{} bytes more", guest.memory() - before);
}

pub(crate) fn grep_request(pattern: &str) -> Value {
    json!({"pattern": pattern, "path": ".", "include": [], "exclude": [], "literal": false, "case": "smart", "context": 0,
        "output": "lines", "limit": 1000, "per_file": 100, "max_line": 200, "ignored": false})
}

#[test]
fn ports_and_their_processes() {
    let guest = guest();
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let script = format!(
        "exec python3 -c 'import socket,time; s=socket.socket(); s.bind((\"127.0.0.1\",{port})); s.listen(); time.sleep(300)'"
    );
    let headers = [("x-access-token", "token"), ("authorization", &crate::client::basic("nobody"))];
    let mut frames = guest.command_with(&headers, &json!({}), &script);
    let pid = frames.pid();
    let find = || guest.control_get("/ports").json().as_array().unwrap().iter().find(|p| p["port"] == port).cloned();
    eventually("it listens", || find().is_some());
    assert_eq!(find().unwrap(), json!({"port": port, "address": "127.0.0.1", "pid": pid, "command": "python3"}));
}

#[test]
fn work_stops_when_the_host_goes_away() {
    let guest = guest();
    // Sparse, without a newline: it is read for a long time.
    let file = std::fs::File::create(guest.dir().join("w/endless")).unwrap();
    std::io::Write::write_all(&mut &file, &[b'x'; 9000]).unwrap();
    file.set_len(1 << 40).unwrap();
    let threads = || {
        std::fs::read_dir(format!("/proc/{}/task", guest.child.id()))
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.trim() == "tool")
            .count()
    };
    let body = lines("endless").to_string();
    for _ in 0..3 {
        let mut stream = std::os::unix::net::UnixStream::connect(guest.dir().join("control")).unwrap();
        let request = format!("POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        eventually("it works", || threads() == 1);
        let left = Instant::now();
        drop(stream);
        eventually("it stops", || threads() == 0);
        assert!(left.elapsed() < Duration::from_secs(2), "{:?}", left.elapsed());
    }
}
