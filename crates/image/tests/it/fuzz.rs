//! Fuzzing for a bounded time: real Dockerfiles and archives, changed at random. Nothing may panic, take long, or change anything outside.

use std::collections::BTreeMap;
use std::path::Path;

use cabana_fuzz_driver::{Fuzz, Random, kind_of};
use cabana_image::dockerfile::{Dockerfile, DockerfileError};
use cabana_image::manifest::Defaults;
use rand::Rng;

use crate::archive::{checksum, directory, file, gzip, hard_link, item, symlink, tar};
use crate::scene::Scene;

/// What texts are changed with.
const WORDS: [&str; 24] = [
    "FROM ",
    "RUN ",
    "COPY ",
    "ADD ",
    "ENV ",
    "ARG ",
    "USER ",
    "WORKDIR ",
    "SHELL [",
    "HEALTHCHECK CMD ",
    "ONBUILD ",
    "--from=",
    "--mount=",
    "<<EOF\n",
    "\nEOF\n",
    "\\\n",
    "${A:-",
    "$",
    "\"",
    "'",
    "[\"",
    "]",
    "# escape=`\n",
    "\0",
];

#[test]
fn fuzz_dockerfiles() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/dockerfiles");
    let corpus: Vec<Vec<u8>> = std::fs::read_dir(examples)
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("Dockerfile")).ok())
        .collect();
    assert!(corpus.len() >= 8, "the examples are missing");
    Fuzz::new("dockerfile").seeds(corpus).words(&WORDS).run(|input| {
        let text = String::from_utf8_lossy(input);
        let plan = match Dockerfile::parse(&text).and_then(|file| file.plan(None, &BTreeMap::new())) {
            Ok(plan) => plan,
            Err(error) => return kind_of(&error.reason),
        };
        match plan.evaluate_all(|_| Ok::<_, DockerfileError>(Defaults::default())) {
            Ok(stages) => {
                format!("{} {}", stages.len(), stages.iter().map(|stage| stage.steps.len()).sum::<usize>())
            }
            Err(error) => kind_of(&error.reason),
        }
    });
}

#[test]
fn fuzz_archives() {
    let plain = tar(&[
        directory("a"),
        file("a/b", "content").mode(0o4755).owner(1000, 1000),
        symlink("a/link", "../../outside"),
        hard_link("a/hard", "a/b"),
        file("a/.wh.b", ""),
        item("a/device", b'3'),
        file("long", "x").pax("path", "a/b/c").pax("mtime", "1.5").pax("SCHILY.xattr.user.x", "y"),
    ]);
    let corpus = vec![gzip(&plain), plain, tar(&[file("x", "y")])];
    let repair = |input: &mut Vec<u8>, random: &mut Random| {
        if random.random() {
            // Headers with wrong fields but a right checksum get further.
            for block in input.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
                checksum(block);
            }
        }
    };
    Fuzz::new("archive").seeds(corpus).repair(repair).run(|input| match Scene::new().apply_bytes(input) {
        Ok(unpacked) => format!("{} {}", unpacked.entries, unpacked.notes.len()),
        Err(error) => kind_of(&error.to_string()),
    });
}
