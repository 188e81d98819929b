//! Hostile layers: each is refused with its reason; `Scene` checks that nothing outside changes.

use std::io::Read;
use std::time::{Duration, Instant};

use cabana_image::Error;
use cabana_image::unpack::Ratio;

use crate::archive::{
    Item, checksum, directory, file, gzip, hard_link, header, item, raw_block, record, symlink, tar, write_item,
};
use crate::scene::Scene;

fn refused(result: cabana_image::Result<cabana_image::unpack::Unpacked>, reason: &str) {
    match result {
        Err(Error::Refused { path, reason: said }) => {
            assert!(said.contains(reason), "{reason:?} was expected: {path}: {said}");
            assert!(!path.contains('\n') && !path.contains('\x1b') && path.len() < 300, "{path:?}");
        }
        other => panic!("{reason:?} was expected: {other:?}"),
    }
}

#[test]
fn names_outside_of_the_root() {
    for (name, reason) in [
        (&b"/etc/passwd"[..], "absolute"),
        (b"../outside/pwn", ".."),
        (b"a/../../outside/pwn", ".."),
        (b"./../outside/pwn", ".."),
        (b"a/..", ".."),
    ] {
        let scene = Scene::new();
        refused(scene.apply(&[file(name, "pwn")]), reason);
        refused(scene.apply(&[symlink(name, "x")]), reason);
        refused(scene.apply(&[hard_link(name, "x")]), reason);
        refused(scene.apply(&[file("short", "pwn").pax("path", name)]), reason);
    }
    let scene = Scene::new();
    refused(scene.apply(&[directory("../outside/new")]), "..");
    refused(scene.apply(&[directory("/../outside/new")]), "..");
    refused(scene.apply(&[file(scene.outside().join("pwn").as_os_str().as_encoded_bytes(), "pwn")]), "absolute");
    refused(scene.apply(&[file("x", "").pax("path", "a\0b")]), "NUL");
    refused(scene.apply(&[file("x", "").pax("path", "")]), "empty");
    refused(scene.apply(&[symlink("./", "x")]), "root");
    refused(scene.apply(&[file(".", "x")]), "root");
}

#[test]
fn writing_through_a_link() {
    let scene = Scene::new();
    let out = scene.outside().as_os_str().as_encoded_bytes().to_vec();
    for target in [&out[..], b"../outside", b"/", b".", b"inside"] {
        for inner in [
            file("x/pwn", "pwn"),
            directory("x/inner"),
            symlink("x/pwn", "y"),
            hard_link("x/pwn", "here"),
            file("x/.wh.secret", ""),
            file("x/.wh..wh..opq", ""),
        ] {
            let scene = Scene::new();
            let layer = [directory("inside"), file("here", "1"), symlink("x", target), inner];
            refused(scene.apply(&layer), "link of the same archive");
        }
    }
    // In two layers, the link means the image's own file system: what is not there is refused.
    scene.apply(&[symlink("x", &out), symlink("y", "../outside"), symlink("z/secret", out.clone())]).unwrap();
    refused(scene.apply(&[file("x/pwn", "pwn")]), "does not have");
    refused(scene.apply(&[file("y/pwn", "pwn")]), "does not have");
    scene.apply(&[file("x/.wh.secret", ""), file("y/.wh.secret", ""), file("y/.wh..wh..opq", "")]).unwrap();
    // The last part is replaced, not followed.
    scene.apply(&[file("z/secret", "mine").mode(0o777)]).unwrap();
    assert!(scene.status("z/secret").is_file());
    // A directory in place of a link replaces the link.
    scene.apply(&[directory("x").mode(0o777).owner(9, 9), file("x/fine", "1")]).unwrap();
    assert!(scene.status("x").is_dir());
}

#[test]
fn hard_links_to_the_outside() {
    let scene = Scene::new();
    let secret = scene.outside().join("secret");
    refused(scene.apply(&[hard_link("x", secret.as_os_str().as_encoded_bytes())]), "does not have");
    refused(scene.apply(&[hard_link("x", "../outside/secret")]), "outside of the image");
    refused(scene.apply(&[hard_link("x", "/etc/shadow")]), "does not have");
    refused(scene.apply(&[hard_link("x", "x")]), "does not have");
    refused(scene.apply(&[hard_link("x", "")]), "does not have");
    refused(scene.apply(&[directory("d"), hard_link("x", "d")]), "not a file");
    let through = [symlink("l", scene.outside().as_os_str().as_encoded_bytes()), hard_link("x", "l/secret")];
    refused(scene.apply(&through), "link of the same archive");
    // A hard link to a symbolic link is that link, not what it points to; a file of that name then replaces it.
    let scene = Scene::new();
    scene.apply(&[symlink("l", secret.as_os_str().as_encoded_bytes()), hard_link("x", "l")]).unwrap();
    scene.apply(&[file("x", "pwn").mode(0o777).owner(1, 1)]).unwrap();
    assert!(scene.status("x").is_file() && scene.status("l").is_symlink());
    // Its target is inside of what it replaces.
    scene.apply(&[file("d/f", "1")]).unwrap();
    refused(scene.apply(&[hard_link("d", "d/f")]), "does not have");
}

#[test]
fn odd_whiteouts() {
    for (name, reason) in [
        (".wh...", "names nothing"),
        (".wh..", "names nothing"),
        (".wh.", "names nothing"),
        ("a/.wh...", "names nothing"),
        (".wh.x/y", "below a whiteout"),
        ("../.wh.outside", ".."),
    ] {
        let scene = Scene::new();
        scene.apply(&[directory("a")]).unwrap();
        refused(scene.apply(&[file(name, "")]), reason);
    }
    let scene = Scene::new();
    scene.apply(&[file("x", "1")]).unwrap();
    refused(scene.apply(&[symlink(".wh.x", "/")]), "regular file");
    assert!(scene.exists("x"));
}

#[test]
fn the_same_name_twice() {
    let out = "/";
    for (first, second) in [
        (symlink("x", out), file("x", "1")),
        (symlink("x", out), directory("x")),
        (directory("x"), symlink("x", out)),
        (file("x", "1"), directory("x")),
        (directory("x"), file("x", "1")),
        (file("x", "1"), symlink("x", out)),
    ] {
        refused(Scene::new().apply(&[file("y", "1"), first, second]), "comes twice");
    }
    let scene = Scene::new();
    scene.apply(&[file("x", "1"), file("x", "2"), symlink("l", "a"), symlink("l", "b")]).unwrap();
    assert_eq!(scene.read("x"), "2", "of the same kind, the last counts");
    refused(scene.apply(&[file("d/x", "1"), file("d", "1")]), "comes twice");
}

#[test]
fn devices_and_pipes_are_left_out() {
    let scene = Scene::new();
    let unpacked =
        scene.apply(&[item("dev/sda", b'4'), item("dev/mem", b'3'), item("pipe", b'6'), file("x", "1")]).unwrap();
    assert!(!scene.exists("dev/sda") && !scene.exists("dev/mem") && !scene.exists("pipe") && scene.exists("x"));
    assert_eq!(unpacked.notes.len(), 3, "{:?}", unpacked.notes);
    let many: Vec<Item> = (0..1000).map(|n| item(format!("dev/{n}"), b'4')).collect();
    assert!(scene.apply(&many).unwrap().notes.len() < 30, "the log stays short");
}

#[test]
fn entries_that_readers_disagree_about() {
    let scene = Scene::new();
    let inner = header(&file("smuggled", "")).to_vec();
    // Two sizes: who believes the other one finds further entries in the content.
    refused(scene.apply(&[Item { content: inner.clone(), ..file("a", "") }.pax("size", "0")]), "different sizes");
    refused(scene.apply(&[file("a", "").size(0).pax("size", "512"), file("b", "1")]), "different sizes");
    for flag in *b"1256" {
        let mut odd = item("a", flag);
        odd.link = b"b".to_vec();
        odd.content = inner.clone();
        refused(scene.apply(&[odd]), "only regular files");
    }
    for flag in *b"SDMVNzA" {
        let result = scene.apply(&[item("a", flag)]);
        assert!(matches!(result, Err(Error::Refused { .. })), "{}", char::from(flag));
    }
    refused(
        scene.apply(&[file("a", "1").pax("GNU.sparse.major", "1").pax("GNU.sparse.name", "/etc/passwd")]),
        "sparse",
    );
    for wrong in [&b"99 path=b\n"[..], b"8 path=b\n", b"path=b\n", b"10 path=b\n\0\0"] {
        let mut bytes = Vec::new();
        raw_block(&mut bytes, b'x', wrong);
        write_item(&mut bytes, &file("a", "1"));
        refused(scene.apply_bytes(&bytes), "malformed");
    }
    let twice = |first: u8, second: u8| {
        let mut bytes = Vec::new();
        for flag in [first, second] {
            let content = if flag == b'x' { record(b"path", b"b") } else { b"c\0".to_vec() };
            raw_block(&mut bytes, flag, &content);
        }
        write_item(&mut bytes, &file("a", "1"));
        bytes
    };
    for (first, second) in [(b'x', b'x'), (b'L', b'L'), (b'x', b'L'), (b'L', b'x')] {
        refused(scene.apply_bytes(&twice(first, second)), "say the same");
    }
    let mut bytes = Vec::new();
    raw_block(&mut bytes, b'g', &record(b"path", b"everything"));
    refused(scene.apply_bytes(&bytes), "global");
    let mut bytes = tar(&[file("a", "1")]);
    bytes.extend(tar(&[file("hidden", "1")]));
    refused(scene.apply_bytes(&bytes), "follows its end");
    let mut bytes = tar(&[file("a", "1")]);
    bytes[0] = b'b';
    refused(scene.apply_bytes(&bytes), "checksum");
    bytes[257] = b'U';
    checksum(&mut bytes);
    refused(scene.apply_bytes(&bytes), "no known form");
    refused(scene.apply_bytes(&tar(&[file("a", [7; 2000])])[..1000]), "ends too early");
    refused(scene.apply_bytes(&tar(&[file("a", "1")])[..300]), "ends too early");
    let mut bytes = Vec::new();
    raw_block(&mut bytes, b'L', b"name\0");
    refused(scene.apply_bytes(&bytes), "ends behind");
    assert!(!scene.exists("smuggled") && !scene.exists("hidden"));
}

#[test]
fn limits() {
    let mut scene = Scene::new();
    for size in [1 << 40, 8 << 60, u64::MAX >> 1] {
        let started = Instant::now();
        refused(scene.apply(&[file("big", "").size(size)]), "");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
    refused(scene.apply(&[file("big", "").size(0).pax("size", u64::MAX.to_string())]), "");
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&header(&item("x", b'x').size(1 << 30)));
    refused(scene.apply_bytes(&bytes), "too long");
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&header(&item("x", b'L').size(1 << 30)));
    refused(scene.apply_bytes(&bytes), "too long");
    refused(scene.apply(&[file("x", "1").pax("path", "a/".repeat(3000))]), "longer than 4096");
    refused(scene.apply(&[file("x", "").pax("path", "a/".repeat(1000))]), "nested deeper");
    refused(scene.apply(&[file("x", "1").pax("path", "a".repeat(300))]), "too long");
    refused(scene.apply(&[symlink("x", "a".repeat(4096))]), "nowhere");
    refused(scene.apply(&[symlink("x", "")]), "nowhere");

    scene.limits.entries = 100;
    let many: Vec<Item> = (0..101).map(|n| file(n.to_string(), "")).collect();
    refused(scene.apply(&many), "more than 100 entries");
    scene.limits.bytes = 1000;
    refused(scene.apply(&[file("a", [1; 600]), file("b", [1; 600])]), "larger than 1000 bytes");
}

#[test]
fn bombs() {
    let mut scene = Scene::new();
    scene.limits.ratio = Ratio { factor: 100, free: 1 << 20 };
    let zeros = tar(&[file("zeros", vec![0; 32 << 20])]);
    refused(scene.apply_bytes(&gzip(&zeros)), "grows more than 100 times");
    refused(scene.apply_bytes(&zstd::encode_all(&zeros[..], 3).unwrap()), "grows more than 100 times");
    // Zeros without end behind the end.
    scene.limits.bytes = 1 << 20;
    scene.limits.entries = 100;
    let endless = std::io::Cursor::new(tar(&[file("x", "1")])).chain(std::io::repeat(0));
    refused(scene.apply_reader(endless), "larger than images may be");
}

#[test]
fn unpacking_can_be_stopped() {
    use std::os::fd::AsFd;

    use cabana_image::Stop;
    use cabana_image::unpack::{Limits, Whiteouts, apply};
    let scene = Scene::new();
    let root = std::fs::File::open(scene.root()).unwrap();
    let layer = tar(&[file("x", vec![1; 1 << 20])]);
    let late = Stop::after(Duration::ZERO);
    let result = apply(&layer[..], root.as_fd(), Whiteouts::Apply, &Limits::default(), &late);
    assert!(matches!(result, Err(Error::TimedOut(_))), "{result:?}");
    let stop = Stop::after(Duration::from_secs(60));
    stop.cancel();
    let result = apply(&layer[..], root.as_fd(), Whiteouts::Apply, &Limits::default(), &stop);
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    // In an archive that is no layer, such names are files.
    let stop = Stop::after(Duration::from_secs(60));
    let items = tar(&[file("a", "1"), file(".wh.a", "2")]);
    apply(&items[..], root.as_fd(), Whiteouts::Ignore, &Limits::default(), &stop).unwrap();
    assert!(scene.exists("a") && scene.exists(".wh.a"));
}
