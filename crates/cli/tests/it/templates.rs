//! `cabana template`.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::fake_templates::BUILD;
use crate::{against, client, report, stderr, stdout, with_input};

/// A build context named `works`.
fn directory(dockerfile: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    let parent = tempfile::tempdir().expect("directory");
    let root = parent.path().join("works");
    for (name, content) in files.iter().chain([&("Dockerfile", dockerfile)]) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
        std::fs::write(path, content).expect("write");
    }
    parent
}

fn path(parent: &tempfile::TempDir) -> String {
    parent.path().join("works").display().to_string()
}

fn started(fake: &Fake) -> Value {
    fake.world.templates.started.lock().expect("lock").pop().expect("a start")
}

/// Names in an archive, in order.
fn names(archive: &[u8]) -> Vec<String> {
    let mut archive =
        cabana_archive::Reader::new(flate2::read::GzDecoder::new(archive), cabana_archive::Profile::Layer);
    let mut names = vec![];
    while let Some(entry) = archive.next_entry().expect("archive") {
        assert_eq!((entry.uid, entry.gid, entry.mtime), (0, 0, cabana_archive::Time::default()));
        names.push(String::from_utf8(entry.path).expect("name"));
    }
    names
}

const TEXT: &str = "FROM base\nRUN echo one\nRUN echo two\n";

#[test]
fn a_build_uploads_its_files_once() {
    let fake = Fake::start();
    let root = directory(TEXT, &[("b", "1"), ("a/x", "2"), ("a/y.log", "3"), (".dockerignore", "**/*.log\n.*\n")]);
    symlink("/nowhere", root.path().join("works/link")).expect("link");
    let output = against(&fake, &["template", "build", &path(&root)]);
    assert_eq!((stdout(&output), output.status.code()), (format!("works:{BUILD}\n"), Some(0)), "{}", report(&output));
    let said = stderr(&output);
    assert!(said.contains("5 files, ") && said.contains(": uploading\n"), "{said}");
    assert!(
        said.ends_with("FROM the template base\nCACHED [1/2] RUN echo one\n[2/2] RUN echo two\n  two \u{fffd}[2J\n")
    );
    let start = started(&fake);
    let uploads = fake.world.templates.uploads.lock().expect("lock").clone();
    let (hash, archive) = uploads.first_key_value().expect("an upload");
    assert_eq!(start, json!({"dockerfile": TEXT, "context": hash}));
    assert_eq!(names(archive), ["Dockerfile", "a/", "a/x", "b", "link"]);
    assert_eq!(fake.world.templates.requested.lock().expect("lock")[0], json!({"name": "works"}));

    // Modification times do not matter.
    std::fs::write(root.path().join("works/b"), "1").expect("write");
    let again = client(&fake, &["templates", "build"]).current_dir(root.path().join("works")).output().expect("run");
    assert!(stderr(&again).contains(": already uploaded\n"), "{}", report(&again));
    assert_eq!(fake.world.templates.uploads.lock().expect("lock").len(), 1);
}

#[test]
fn a_build_sends_its_options() {
    let fake = Fake::start();
    let root = directory("", &[("docker/My.file", "ARG V\nFROM base AS one\nFROM nothing.test/x\n")]);
    let file = root.path().join("works/docker/My.file").display().to_string();
    let mut command = client(
        &fake,
        &["template", "build", &path(&root), "--name", "works", "--tag", "v1", "--tag", "v2", "--file", &file],
    );
    command.args(["--target", "one", "--build-arg", "V=1=2", "--no-cache", "--start", "serve", "--ready", "check"]);
    command.args(["--cpu", "4", "--memory", "2G", "--disk", "4096", "--registry-user", "me", "--detach", "--json"]);
    let output = command.env("CABANA_REGISTRY_PASSWORD", "hunter2").output().expect("run");
    let made: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(made["buildID"], BUILD, "{}", report(&output));
    assert!(!stderr(&output).contains("[1/2]"), "it does not wait");
    let mut start = started(&fake);
    start["context"].take();
    insta::assert_json_snapshot!("build-start", start);
    insta::assert_json_snapshot!("build-request", fake.world.templates.requested.lock().expect("lock")[0]);

    let piped = ["template", "build", &path(&root), "--file", &file, "--target", "one", "--registry-user", "me"];
    let output = with_input(&fake, &[&piped[..], &["--registry-password-stdin"]].concat(), b"from a pipe\n");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    assert_eq!(started(&fake)["fromImageRegistry"]["password"], "from a pipe");
    let output = against(&fake, &piped);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("CABANA_REGISTRY_PASSWORD"), "{}", report(&output));
}

#[test]
fn an_image_file_is_uploaded_unchanged() {
    let fake = Fake::start();
    let root = directory("FROM acme/base\n", &[("image.tar.gz", "an image")]);
    let file = root.path().join("works/image.tar.gz").display().to_string();
    let hash = cabana_image::Digest::of(b"an image").hex();
    let uploaded = || fake.world.templates.uploads.lock().expect("lock").clone();

    let output = against(&fake, &["template", "import", &file, "--name", "works", "--start", "serve"]);
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    let wanted = json!({"dockerfile": "FROM image\n", "images": {"image": hash}, "startCmd": "serve"});
    assert_eq!(started(&fake), wanted);
    assert_eq!(uploaded().get(&hash).map(|bytes| &bytes[..]), Some(&b"an image"[..]));

    // An image from a pipe has no name.
    let output = with_input(&fake, &["template", "import", "-"], b"an image");
    assert!(stderr(&output).contains("give --name") && output.status.code() == Some(1), "{}", report(&output));
    let output = with_input(&fake, &["template", "import", "-", "--name", "works", "--pick", "app:v2"], b"an image");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    assert_eq!(started(&fake), json!({"dockerfile": "FROM app:v2\n", "images": {"app:v2": hash}}));
    assert_eq!(uploaded().len(), 1, "it was there already");

    let output = against(&fake, &["template", "build", &path(&root), "--image", &format!("acme/base={file}")]);
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    assert_eq!(started(&fake)["images"], json!({"acme/base": hash}));
    assert_eq!(uploaded().len(), 2, "the image and the directory");
}

#[test]
fn a_failed_build_reports_the_reason() {
    let fake = Fake::start();
    let root = directory(TEXT, &[(".dockerignore", "*")]);
    let output = against(&fake, &["template", "build", &path(&root), "--name", "fails"]);
    insta::assert_snapshot!("build-failed", report(&output));
    assert!(fake.world.templates.uploads.lock().expect("lock").is_empty(), "there is nothing to send");
    let output = against(&fake, &["template", "build", &path(&root), "--name", "deleted"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("its template was deleted"), "{}", report(&output));
}

#[test]
fn mistakes_are_reported_before_uploading() {
    let fake = Fake::start();
    let build = |text: &str| {
        let root = directory(text, &[]);
        let output = against(&fake, &["template", "build", &path(&root)]);
        report(&output).replace(&root.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!("build-mistake", build("FROM base\n\nFROBNICATE x\n"));
    let root = directory("FROM base\n", &[]);
    std::fs::remove_file(root.path().join("works/Dockerfile")).expect("remove");
    let output = against(&fake, &["template", "build", &path(&root)]);
    assert!(stderr(&output).contains("template init") && output.status.code() == Some(1), "{}", report(&output));
    let nowhere = against(&fake, &["template", "build", "/nowhere"]);
    assert!(stderr(&nowhere).contains("/nowhere") && nowhere.status.code() == Some(1), "{}", report(&nowhere));
    let root = directory("FROM base\n", &[(".dockerignore", "[")]);
    let output = against(&fake, &["template", "build", &path(&root)]);
    assert!(stderr(&output).contains("line 1") && output.status.code() == Some(1), "{}", report(&output));
    assert!(fake.world.templates.requested.lock().expect("lock").is_empty());
}

#[test]
fn a_too_large_context_reports_the_largest_directories() {
    let fake = Fake::start();
    let noise: String = (0..190_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let root = directory("FROM base\n", &[("data/sets/large", &noise), ("src/small", "1")]);
    let output = against(&fake, &["template", "build", &path(&root)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("larger than the 1 MiB"), "{}", report(&output));
    assert!(stderr(&output).contains("hint: exclude with .dockerignore"), "{}", report(&output));
    assert!(stderr(&output).contains("largest: data (") && stderr(&output).contains("data/sets ("));
    assert!(fake.world.templates.started.lock().expect("lock").is_empty());
    assert_eq!(fake.world.templates.cancelled.load(Ordering::Relaxed), 1, "it does not wait for ever");
}

#[test]
fn an_interrupt_cancels_the_build() {
    let fake = Fake::start();
    let root = directory(TEXT, &[]);
    let mut command = client(&fake, &["template", "build", &path(&root), "--name", "endless"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    // It prints a line when the build is running.
    let mut said = BufReader::new(child.stderr.take().expect("stderr")).lines();
    said.find(|line| line.as_ref().is_ok_and(|line| line.contains("[1/2] RUN"))).expect("a step").expect("text");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
    assert_eq!(child.wait().expect("wait").code(), Some(130));
    assert!(said.any(|line| line.is_ok_and(|line| line.contains("the build was cancelled"))));
    assert_eq!(fake.world.templates.cancelled.load(Ordering::Relaxed), 1);
}

#[test]
fn tags_and_deleting() {
    let fake = Fake::start();
    assert_eq!(
        stdout(&against(&fake, &["template", "tag", "web:v1", "stable", "default"])),
        "web:stable\nweb:default\n"
    );
    assert_eq!(stdout(&against(&fake, &["template", "untag", "web", "v1"])), "web:v1\n");
    assert_eq!(
        *fake.world.templates.tags.lock().expect("lock"),
        [json!({"target": "web:v1", "tags": ["stable", "default"]}), json!({"name": "web", "tags": ["v1"]})]
    );
    let output = against(&fake, &["template", "tag", "web:v9", "x"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("web:v9"), "{}", report(&output));
    insta::assert_snapshot!("template-rm", report(&against(&fake, &["template", "rm", "nope", "web", "used"])));
}

#[test]
fn the_network_of_new_sandboxes() {
    let fake = Fake::start();
    let network = |args: &[&str]| against(&fake, &[&["template", "network"], args].concat());
    assert_eq!(stdout(&network(&["web"])), "default\n");
    assert_eq!(stdout(&network(&["closed"])), "none\n");
    for preset in ["registries", "default"] {
        let output = network(&["web", preset]);
        assert!(output.status.success() && stdout(&output).is_empty(), "{}", report(&output));
    }
    assert_eq!(
        *fake.world.templates.updates.lock().expect("lock"),
        [json!({"network": "registries"}), json!({"network": ""})]
    );
    for args in [&["nope"][..], &["nope", "none"]] {
        let output = network(args);
        assert!(output.status.code() == Some(1) && stderr(&output).contains("template nope"), "{}", report(&output));
    }
    let output = network(&["web", "everything"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("registries"), "{}", report(&output));
}

#[test]
fn logs_of_builds() {
    let fake = Fake::start();
    insta::assert_snapshot!("template-logs", report(&against(&fake, &["template", "logs", "web", "--follow"])));
    // By tag, and without --follow: the result of the build does not affect the exit code.
    let output = against(&fake, &["template", "logs", "web:v1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    let line: Value = serde_json::from_str(stdout(&output).lines().next().expect("a line")).expect("json");
    assert_eq!(line["step"], "base");
    for args in [["logs", "nope"], ["logs", "web:v7"], ["logs", "web:00000000-0000-4000-8000-000000000000"]] {
        let output = against(&fake, &[&["template"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", report(&output));
    }
}

#[test]
fn init_never_overwrites() {
    let fake = Fake::start();
    let parent = tempfile::tempdir().expect("directory");
    let root = parent.path().join("new");
    let init = || against(&fake, &["template", "init", &root.display().to_string()]);
    let read = |name: &str| std::fs::read_to_string(Path::new(&root).join(name)).expect("read");
    assert_eq!(stdout(&init()).lines().count(), 2);
    assert!(read("Dockerfile").contains("FROM base\n") && read(".dockerignore").contains(".git\n"));
    std::fs::write(root.join(".dockerignore"), "mine").expect("write");
    let output = init();
    assert!(output.status.code() == Some(1) && stderr(&output).contains("Dockerfile"), "{}", report(&output));
    std::fs::remove_file(root.join("Dockerfile")).expect("remove");
    assert_eq!((stdout(&init()).lines().count(), read(".dockerignore")), (1, "mine".to_owned()));
}
