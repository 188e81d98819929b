//! `cabana cp`.

use std::os::unix::fs::PermissionsExt;

use crate::fake::Fake;
use crate::{against, report, stderr, with_input};

#[test]
fn a_file_in_and_out() {
    let fake = Fake::start();
    let (id, local) = (fake.sandbox(), tempfile::tempdir().expect("directory"));
    let file = local.path().join("a ü+&.txt");
    std::fs::write(&file, "contents").expect("write");
    std::fs::create_dir(fake.disk.path().join("home")).expect("directory");
    let output = against(&fake, &["cp", file.to_str().expect("path"), &format!("{id}:/home/")]);
    assert_eq!(report(&output), "exit Some(0)\n--- stdout\n--- stderr\n");
    let inside = fake.disk.path().join("home/a ü+&.txt");
    assert_eq!(std::fs::read_to_string(&inside).expect("read"), "contents");

    std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o4750)).expect("mode");
    let back = local.path().join("back");
    let output = against(&fake, &["cp", &format!("{id}:/home/a ü+&.txt"), back.to_str().expect("path")]);
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    assert_eq!(std::fs::read_to_string(&back).expect("read"), "contents");
    let mode = std::fs::metadata(&back).expect("metadata").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o750, "permissions are kept, but not the set-uid bit");

    let output = against(&fake, &["cp", &format!("{id}:/nope"), back.to_str().expect("path")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("path '/nope' does not exist"), "{}", report(&output));
}

#[test]
fn streams() {
    let fake = Fake::start();
    let id = fake.sandbox();
    let large = vec![7; 3_000_000];
    let output = with_input(&fake, &["cp", "-", &format!("{id}:/big")], &large);
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    let output = against(&fake, &["cp", &format!("{id}:/big"), "-"]);
    assert!(output.status.success() && output.stdout == large);
}

#[test]
fn a_directory_in_and_out() {
    let fake = Fake::start();
    let (id, local) = (fake.sandbox(), tempfile::tempdir().expect("directory"));
    let tree = local.path().join("tree");
    std::fs::create_dir_all(tree.join("deep/er")).expect("directories");
    std::fs::create_dir_all(tree.join("empty")).expect("directories");
    for n in 0..20 {
        std::fs::write(tree.join(format!("deep/er/{n}")), n.to_string()).expect("write");
    }
    std::fs::write(tree.join("run.sh"), "#!/bin/sh\n").expect("write");
    std::fs::set_permissions(tree.join("run.sh"), std::fs::Permissions::from_mode(0o755)).expect("mode");
    let output = against(&fake, &["cp", tree.to_str().expect("path"), &format!("{id}:/copy")]);
    assert_eq!(report(&output), "exit Some(0)\n--- stdout\n--- stderr\n");
    assert_eq!(std::fs::read_to_string(fake.disk.path().join("copy/deep/er/19")).expect("read"), "19");
    assert!(fake.disk.path().join("copy/empty").is_dir());

    let back = local.path().join("back");
    let output = against(&fake, &["cp", &format!("{id}:/copy"), back.to_str().expect("path")]);
    assert_eq!(report(&output), "exit Some(0)\n--- stdout\n--- stderr\n");
    assert_eq!(std::fs::read_to_string(back.join("deep/er/7")).expect("read"), "7");
    assert!(back.join("empty").is_dir());
}

#[test]
fn a_sandbox_cannot_write_beside_the_destination() {
    let fake = Fake::start();
    let (id, local) = (fake.sandbox(), tempfile::tempdir().expect("directory"));
    std::fs::create_dir(fake.disk.path().join("evil")).expect("directory");
    let into = local.path().join("into");
    let output = against(&fake, &["cp", &format!("{id}:/evil"), into.to_str().expect("path")]);
    assert_eq!(output.status.code(), Some(1), "{}", report(&output));
    assert!(stderr(&output).contains("invalid name"));
    assert!(!local.path().join("escaped").exists() && !into.exists());
}
