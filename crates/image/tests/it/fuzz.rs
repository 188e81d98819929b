//! Fuzzing for a bounded time: real Dockerfiles and archives, changed at random again and again; what led somewhere new in the answers joins the corpus. Nothing may panic, take long,
//! or change anything outside. Longer: `CABANA_FUZZ_SECONDS=600`; the same again: `CABANA_FUZZ_SEED` as it was printed.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use cabana_image::dockerfile::{Dockerfile, DockerfileError};
use cabana_image::manifest::Defaults;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::archive::{checksum, directory, file, gzip, hard_link, item, symlink, tar};
use crate::scene::Scene;

/// One input takes no longer than this, also on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);
/// Inputs that are kept at most.
const CORPUS: usize = 2000;
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

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Changes inputs of a corpus for a while. `try_one` answers with something that is alike for inputs that go the same way.
fn fuzz(
    what: &str,
    mut corpus: Vec<Vec<u8>>,
    mend: impl Fn(&mut Vec<u8>, &mut StdRng),
    mut try_one: impl FnMut(&[u8]) -> String,
) {
    let seed = from_environment("CABANA_FUZZ_SEED").unwrap_or_else(rand::random);
    eprintln!("{what}: CABANA_FUZZ_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let until = Instant::now() + Duration::from_secs(from_environment("CABANA_FUZZ_SECONDS").unwrap_or(5));
    let mut seen: HashSet<String> = HashSet::new();
    let mut tried = 0_u64;
    while Instant::now() < until {
        let mut input = corpus.choose(&mut random).cloned().unwrap_or_default();
        for _ in 0..random.random_range(1..6) {
            change(&mut input, &corpus, &mut random);
        }
        mend(&mut input, &mut random);
        let begin = Instant::now();
        let way = try_one(&input);
        assert!(begin.elapsed() < LONGEST, "{what}: {:?} for {:?}", begin.elapsed(), input.escape_ascii().to_string());
        tried += 1;
        if seen.insert(way) && corpus.len() < CORPUS {
            corpus.push(input);
        }
    }
    eprintln!("{what}: {tried} inputs, {} ways", seen.len());
    assert!(tried > 10, "too few were tried to say anything");
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut StdRng) {
    let at = random.random_range(0..=input.len());
    let length = random.random_range(0..64).min(input.len() - at);
    match random.random_range(0..7) {
        0 if at < input.len() => input[at] = random.random(),
        1 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        2 => drop(input.drain(at..at + length)),
        3 => {
            let copied = input[at..at + length].to_vec();
            input.splice(at..at, copied);
        }
        4 => {
            let word = WORDS.choose(random).copied().unwrap_or_default();
            input.splice(at..at, word.bytes());
        }
        5 => {
            let other = corpus.choose(random).cloned().unwrap_or_default();
            let from = random.random_range(0..=other.len());
            let to = (from + random.random_range(0..600)).min(other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        _ => input.truncate(at.max(1)),
    }
    input.truncate(1 << 20);
}

/// Digits and names are what differs between answers of the same kind.
fn kind_of(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(60).collect()
}

#[test]
fn dockerfiles() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/dockerfiles");
    let mut corpus: Vec<Vec<u8>> = std::fs::read_dir(examples)
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("Dockerfile")).ok())
        .collect();
    assert!(corpus.len() >= 8, "the examples are not there");
    corpus.push(
        b"FROM a AS b\nARG X=1\nENV Y=${X:-2}\nRUN <<EOF\nx\nEOF\nFROM b\nCOPY --from=b /x /y\nCMD [\"z\"]\n".to_vec(),
    );
    fuzz(
        "Dockerfiles",
        corpus,
        |_, _| {},
        |input| {
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
        },
    );
}

#[test]
fn archives() {
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
    let mend = |input: &mut Vec<u8>, random: &mut StdRng| {
        if random.random() {
            // Headers with wrong fields but a right checksum get further.
            for block in input.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
                checksum(block);
            }
        }
    };
    fuzz("archives", corpus, mend, |input| match Scene::new().apply_bytes(input) {
        Ok(unpacked) => format!("{} {}", unpacked.entries, unpacked.notes.len()),
        Err(error) => kind_of(&error.to_string()),
    });
}
