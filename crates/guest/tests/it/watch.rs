//! Watching directories, streamed and polled.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Frames, Guest, eventually};

fn next(frames: &mut Frames) -> (String, String) {
    let (flags, message) = frames.frame();
    assert_eq!(flags, 0, "{message}");
    let event = &message["filesystem"];
    (event["name"].as_str().unwrap().to_owned(), event["type"].as_str().unwrap().replace("EVENT_TYPE_", ""))
}

fn watch(guest: &Guest, path: &str, recursive: bool) -> Frames {
    let message = json!({"path": path, "recursive": recursive});
    let mut frames = guest.stream("filesystem.Filesystem/WatchDir", &[], &message);
    let (_, start) = frames.frame();
    assert!(start.get("start").is_some(), "{start}");
    frames
}

fn poll(guest: &Guest, id: &Value, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    eventually("events", || {
        let (status, body) = guest.call("filesystem.Filesystem/GetWatcherEvents", &json!({"watcherId": id}));
        assert_eq!(status, 200, "{body}");
        for event in body["events"].as_array().into_iter().flatten() {
            told.push(format!("{} {}", event["type"].as_str().unwrap(), event["name"].as_str().unwrap()));
        }
        told.len() >= count
    });
    told
}

#[test]
fn an_upload_is_three_events() {
    let guest = Guest::start();
    let dir = guest.file("dir");
    std::fs::create_dir(&dir).unwrap();
    let mut frames = watch(&guest, &dir, false);
    let (_, created) = guest.call("filesystem.Filesystem/CreateWatcher", &json!({"path": dir}));
    guest.upload(&format!("{dir}/new.txt"), &[], b"data");
    for kind in ["CREATE", "CHMOD", "WRITE"] {
        assert_eq!(next(&mut frames), ("new.txt".to_owned(), kind.to_owned()));
    }
    let id = &created["watcherId"];
    let expected = ["EVENT_TYPE_CREATE new.txt", "EVENT_TYPE_CHMOD new.txt", "EVENT_TYPE_WRITE new.txt"];
    assert_eq!(poll(&guest, id, 3), expected);
    std::fs::rename(format!("{dir}/new.txt"), format!("{dir}/other.txt")).unwrap();
    std::fs::remove_file(format!("{dir}/other.txt")).unwrap();
    let expected = ["EVENT_TYPE_RENAME new.txt", "EVENT_TYPE_CREATE other.txt", "EVENT_TYPE_REMOVE other.txt"];
    assert_eq!(poll(&guest, id, 3), expected);
    assert_eq!(guest.call("filesystem.Filesystem/RemoveWatcher", &json!({"watcherId": id})).0, 200);
    for method in ["RemoveWatcher", "GetWatcherEvents"] {
        assert_eq!(guest.call(&format!("filesystem.Filesystem/{method}"), &json!({"watcherId": id})).0, 404);
    }
}

#[test]
fn new_directories_are_watched() {
    let guest = Guest::start();
    let dir = guest.file("dir");
    std::fs::create_dir_all(format!("{dir}/old/deep")).unwrap();
    let mut frames = watch(&guest, &dir, true);
    let mut expect = |kind: &str, name: &str| {
        while next(&mut frames) != (name.to_owned(), kind.to_owned()) {}
    };
    std::fs::write(format!("{dir}/old/deep/a"), "").unwrap();
    expect("CREATE", "old/deep/a");
    std::fs::create_dir_all(format!("{dir}/new/x/y")).unwrap();
    expect("CREATE", "new");
    expect("CREATE", "new/x");
    expect("CREATE", "new/x/y");
    std::fs::write(format!("{dir}/new/x/y/f"), "text").unwrap();
    expect("CREATE", "new/x/y/f");
    expect("WRITE", "new/x/y/f");
    std::fs::rename(format!("{dir}/new/x"), format!("{dir}/moved")).unwrap();
    expect("RENAME", "new/x");
    expect("CREATE", "moved");
    std::fs::write(format!("{dir}/moved/y/g"), "").unwrap();
    expect("CREATE", "moved/y/g");
    std::fs::remove_dir_all(format!("{dir}/moved")).unwrap();
    expect("REMOVE", "moved");
}

#[test]
fn no_event_is_duplicated() {
    let guest = Guest::start();
    let dir = guest.file("dir");
    std::fs::create_dir(&dir).unwrap();
    let (_, created) = guest
        .call("filesystem.Filesystem/CreateWatcher", &json!({"path": dir, "recursive": true, "includeEntry": true}));
    for n in 0..50 {
        std::fs::create_dir(format!("{dir}/{n}")).unwrap();
        std::fs::write(format!("{dir}/{n}/file"), "").unwrap();
    }
    let mut told = poll(&guest, &created["watcherId"], 100);
    told.retain(|t| t.starts_with("EVENT_TYPE_CREATE"));
    let count = told.len();
    told.sort();
    told.dedup();
    assert_eq!((told.len(), count), (100, 100));
}

#[test]
fn unwatchable_paths_are_rejected() {
    let guest = Guest::start();
    std::fs::write(guest.file("plain"), "").unwrap();
    let create =
        |path: &str| guest.call("filesystem.Filesystem/CreateWatcher", &json!({"path": path})).1["code"].clone();
    assert_eq!(create(&guest.file("none")), "not_found");
    assert_eq!(create(&guest.file("plain")), "invalid_argument");
    let message = json!({"path": guest.file("none")});
    assert_eq!(guest.stream("filesystem.Filesystem/WatchDir", &[], &message).finish().code(), "not_found");
    let message = json!({"path": guest.dir().to_str().unwrap()});
    let done = guest.stream("filesystem.Filesystem/WatchDir", &[("connect-timeout-ms", "200")], &message).finish();
    assert_eq!(done.code(), "deadline_exceeded");
}

#[test]
fn watches_have_limits() {
    let guest = Guest::start();
    let dir = guest.file("many");
    for n in 0..9000 {
        std::fs::create_dir_all(format!("{dir}/{n}")).unwrap();
    }
    let message = json!({"path": dir, "recursive": true});
    assert_eq!(guest.call("filesystem.Filesystem/CreateWatcher", &message).1["code"], "resource_exhausted");
    let message = json!({"path": dir});
    let mut refused = false;
    for _ in 0..101 {
        refused = guest.call("filesystem.Filesystem/CreateWatcher", &message).1["code"] == "resource_exhausted";
    }
    assert!(refused);
    assert!(Path::new(&dir).exists());
}
