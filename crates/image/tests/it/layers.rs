//! Regular layers.

use std::os::unix::fs::MetadataExt;

use cabana_image::Digest;

use crate::archive::{directory, file, gzip, hard_link, item, raw_block, symlink, tar, write_item};
use crate::scene::Scene;

#[test]
fn files_keep_owner_mode_time_and_attributes() {
    let scene = Scene::new();
    let mut capability = vec![1, 0, 0, 2];
    capability.extend([0; 16]);
    let unpacked = scene
        .apply(&[
            directory("./").mode(0o755),
            directory("etc/").mode(0o2750).owner(3, 4),
            file("etc/motd", "hello").mode(0o640).owner(1000, 1001).pax("mtime", "1600000000.25"),
            file("bin/su", "x").mode(0o4755),
            file("bin/other's", "x").mode(0o6711).owner(5, 6),
            file("bin/ping", "x").pax("SCHILY.xattr.security.capability", &capability),
            file("attributes", "x")
                .pax("SCHILY.xattr.user.kept", b"1\n2")
                .pax("SCHILY.xattr.user.overlay.opaque", "y")
                .pax("SCHILY.xattr.trusted.overlay.opaque", "y")
                .pax("SCHILY.xattr.security.selinux", "x"),
            symlink("etc/link", "/somewhere/else").owner(7, 8),
            file("huge-owner", "").owner(1_000_000, 4_294_967_295),
        ])
        .unwrap();
    assert_eq!(scene.read("etc/motd"), "hello");
    let motd = scene.status("etc/motd");
    assert_eq!((motd.mode() & 0o7777, motd.uid(), motd.gid()), (0o640, 1000, 1001));
    assert_eq!((motd.mtime(), motd.mtime_nsec()), (1_600_000_000, 250_000_000));
    let etc = scene.status("etc");
    assert_eq!((etc.mode() & 0o7777, etc.uid(), etc.gid(), etc.mtime()), (0o2750, 3, 4, 1_700_000_000));
    assert_eq!(scene.status("bin/su").mode() & 0o7777, 0o4755, "set-uid is kept as Docker keeps it");
    assert_eq!(scene.status("bin/other's").mode() & 0o7777, 0o6711);
    assert_eq!(scene.status("bin").mode() & 0o7777, 0o755, "parents that nobody describes are open to all");
    assert_eq!(std::fs::read_link(scene.root().join("etc/link")).unwrap().to_str(), Some("/somewhere/else"));
    assert_eq!((scene.status("etc/link").uid(), scene.status("etc/link").mtime()), (7, 1_700_000_000));
    assert_eq!((scene.status("huge-owner").uid(), scene.status("huge-owner").gid()), (65_534, 65_534));
    let names = |path: &str| {
        let mut list = vec![0_u8; 4096];
        let n = rustix::fs::llistxattr(scene.root().join(path), &mut list[..]).unwrap();
        String::from_utf8(list[..n].to_vec()).unwrap()
    };
    // Where the filesystem or our rights do not allow them, a note says so.
    let noted = |word: &str| unpacked.notes.iter().any(|note| note.contains(word));
    assert!(names("attributes").contains("user.kept") || noted("user.kept"), "{:?}", unpacked.notes);
    assert!(names("bin/ping").contains("security.capability") || noted("security.capability"));
    for dropped in ["overlay", "selinux"] {
        assert!(!names("attributes").contains(dropped), "{}", names("attributes"));
    }
    assert!(noted("user 1000000"), "{:?}", unpacked.notes);
}

#[test]
fn compressions_give_the_same_tree_and_digest() {
    let plain = tar(&[file("a", "1"), directory("d"), file("d/b", vec![7; 100_000])]);
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    for bytes in [plain.clone(), gzip(&plain), zstd] {
        let scene = Scene::new();
        let unpacked = scene.apply_bytes(&bytes).unwrap();
        assert_eq!(unpacked.diff_id, Digest::of(&plain));
        assert_eq!((unpacked.bytes, unpacked.entries), (100_001, 3));
        assert_eq!(scene.read("a"), "1");
        assert_eq!(scene.status("d/b").len(), 100_000);
    }
}

#[test]
fn whiteouts_remove_what_lower_layers_have_and_nothing_else() {
    let scene = Scene::new();
    let lower = [
        file("gone", "1"),
        file("gone-tree/a/b/c", "1"),
        symlink("gone-link", scene.outside().as_os_str().as_encoded_bytes()),
        file("opaque/old", "1"),
        file("opaque/sub/old", "1"),
        file("opaque/listed/old", "1"),
        file("stays", "1"),
    ];
    scene.apply(&lower).unwrap();
    scene
        .apply(&[
            // New things may come before the marker: it speaks of lower layers only.
            file("opaque/new", "2"),
            file("opaque/sub/new", "2"),
            directory("opaque/listed"),
            file("opaque/.wh..wh..opq", ""),
            file(".wh.gone", ""),
            file(".wh.gone-tree", ""),
            file(".wh.gone-link", ""),
            file(".wh.never-there", ""),
            file("no/such/.wh.directory", ""),
            file("again", "2"),
            file(".wh.again", ""),
            directory(".wh..wh.plnk"),
            file(".wh..wh.plnk/1.2", "aufs"),
        ])
        .unwrap();
    for gone in
        ["gone", "gone-tree", "gone-link", "opaque/old", "opaque/sub/old", "opaque/listed/old", "no", ".wh.gone"]
    {
        assert!(!scene.exists(gone), "{gone}");
    }
    for there in ["opaque/new", "opaque/sub/new", "opaque/listed", "stays", "again"] {
        assert!(scene.exists(there), "{there}");
    }
    assert!(!scene.exists(".wh..wh.plnk") && !scene.exists("opaque/.wh..wh..opq"));
}

#[test]
fn later_layers_replace_what_earlier_ones_have() {
    let scene = Scene::new();
    let lower = [
        file("file-to-directory", "1"),
        file("directory-to-file/x", "1"),
        symlink("link-to-directory", "stays"),
        file("stays/x", "1"),
        file("linked", "1"),
        hard_link("other-name", "linked"),
        directory("kept-directory").mode(0o700),
        file("kept-directory/x", "1"),
    ];
    scene.apply(&lower).unwrap();
    assert_eq!(scene.status("linked").ino(), scene.status("other-name").ino());
    let upper = [
        directory("file-to-directory"),
        file("file-to-directory/y", "2"),
        file("directory-to-file", "2"),
        directory("link-to-directory"),
        file("link-to-directory/x", "2"),
        file("linked", "2"),
        directory("kept-directory").mode(0o711),
    ];
    scene.apply(&upper).unwrap();
    assert_eq!(scene.read("file-to-directory/y"), "2");
    assert_eq!(scene.read("directory-to-file"), "2");
    assert_eq!((scene.read("stays/x"), scene.read("link-to-directory/x")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(scene.read("other-name"), "1", "a new file does not write through a hard link");
    assert_eq!(scene.read("kept-directory/x"), "1");
    assert_eq!(scene.status("kept-directory").mode() & 0o777, 0o711);
}

#[test]
fn links_of_lower_layers_are_followed_with_the_image_as_root() {
    let scene = Scene::new();
    let lower = [
        directory("usr/lib"),
        directory("run"),
        symlink("lib", "usr/lib"),
        symlink("var/run", "/run"),
        symlink("up", "../../../../../usr"),
        symlink("dangling", "/nothing/here"),
        symlink("loop", "loop"),
        file("plain", ""),
    ];
    scene.apply(&lower).unwrap();
    scene.apply(&[file("lib/a", "1"), file("var/run/b", "1"), file("up/lib/c", "1"), file("lib/.wh.zzz", "")]).unwrap();
    for there in ["usr/lib/a", "run/b", "usr/lib/c"] {
        assert!(scene.exists(there), "{there}");
    }
    for refused in ["dangling/x", "loop/x", "plain/x"] {
        scene.apply(&[file(refused, "1")]).expect_err(refused);
    }
    scene.apply(&[hard_link("lib/d", "/usr/lib/a")]).unwrap();
    assert_eq!(scene.status("usr/lib/d").ino(), scene.status("usr/lib/a").ino());
}

#[test]
fn all_forms_of_tar_are_read() {
    let scene = Scene::new();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(150));
    let mut bytes = Vec::new();
    raw_block(&mut bytes, b'g', &crate::archive::record(b"comment", b"a commit"));
    for item in [
        file(&long, "gnu").owner(3_000_000, 0),
        file("short", "pax").pax("path", format!("pax/{long}")),
        symlink("l", "t".repeat(300)),
        file("with\nnewline\x1b[31m", "odd but legal"),
        item("old-directory/", b'0'),
        item("contiguous", b'7'),
        directory("/nix/store"),
    ] {
        write_item(&mut bytes, &item);
    }
    // The prefix of POSIX's form.
    let mut block = crate::archive::header(&file("name", ""));
    block[345..351].copy_from_slice(b"prefix");
    crate::archive::checksum(&mut block);
    bytes.extend_from_slice(&block);
    // No end: some writers leave it out.
    scene.apply_bytes(&bytes).unwrap();
    assert_eq!(scene.read(&long), "gnu");
    assert_eq!(scene.read(&format!("pax/{long}")), "pax");
    assert_eq!(scene.read("with\nnewline\x1b[31m"), "odd but legal");
    assert!(scene.status("old-directory").is_dir() && scene.status("nix/store").is_dir());
    assert!(scene.exists("contiguous") && scene.exists("prefix/name"));
    assert_eq!(std::fs::read_link(scene.root().join("l")).unwrap().as_os_str().len(), 300);
}

#[test]
fn archives_of_the_system_tar_are_read() {
    let scene = Scene::new();
    let from = tempfile::tempdir().unwrap();
    std::fs::create_dir(from.path().join("d")).unwrap();
    std::fs::write(from.path().join("d/x"), "content").unwrap();
    std::fs::hard_link(from.path().join("d/x"), from.path().join("d/y")).unwrap();
    std::os::unix::fs::symlink("x", from.path().join("d/z")).unwrap();
    for format in ["gnu", "pax", "ustar", "v7", "oldgnu"] {
        let output = std::process::Command::new("tar")
            .args(["-c", "--format", format, "-C"])
            .arg(from.path())
            .arg(".")
            .output()
            .unwrap();
        assert!(output.status.success(), "{format}");
        scene.apply_bytes(&output.stdout).unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(scene.read("d/y"), "content");
        assert_eq!(scene.status("d/x").nlink(), 2);
    }
}
