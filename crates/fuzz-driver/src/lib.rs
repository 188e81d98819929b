//! Bounded fuzzing on stable Rust, for tests: inputs of a corpus are changed at random; one that leads to a new answer joins the corpus.
//! No input may panic or take long. `CABANA_FUZZ_SECONDS` makes it longer, `CABANA_FUZZ_SEED` repeats a run. It sees answers, not
//! branches: for coverage, `fuzz/` has the same targets for cargo-fuzz.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// One input takes no longer than this, also on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);
/// Seconds for each target, unless the environment says otherwise.
const SECONDS: u64 = 5;
/// Inputs that are kept at most.
const CORPUS: usize = 2000;
/// Length of an input.
const LENGTH: usize = 1 << 20;

/// The source of randomness for a run.
pub type Random = StdRng;

/// Corrects a changed input, for example its checksum.
type Repair<'a> = dyn Fn(&mut Vec<u8>, &mut Random) + 'a;

/// What is fuzzed, and with what.
pub struct Fuzz<'a> {
    name: &'a str,
    corpus: Vec<Vec<u8>>,
    words: &'a [&'a str],
    repair: Box<Repair<'a>>,
}

impl<'a> Fuzz<'a> {
    /// A target with the seeds in `fuzz/seeds/<name>`.
    pub fn new(name: &'a str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let corpus = files.filter_map(|file| fs::read(file.path()).ok()).collect();
        Self { name, corpus, words: &[], repair: Box::new(|_, _| {}) }
    }

    /// More inputs to begin with.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.corpus.extend(seeds);
        self
    }

    /// Words of the language, which changes insert.
    #[must_use]
    pub fn words(mut self, words: &'a [&'a str]) -> Self {
        self.words = words;
        self
    }

    /// Makes a changed input right where a wrong one would go no further, such as a checksum.
    #[must_use]
    pub fn repair(mut self, repair: impl Fn(&mut Vec<u8>, &mut Random) + 'a) -> Self {
        self.repair = Box::new(repair);
        self
    }

    /// Tries inputs until the time is over. `try_one` answers alike for inputs that take the same way.
    ///
    /// # Panics
    /// If an input takes too long, or if there are no seeds.
    pub fn run(self, mut try_one: impl FnMut(&[u8]) -> String) {
        let Self { name, mut corpus, words, repair } = self;
        assert!(!corpus.is_empty(), "{name}: fuzz/seeds/{name} is empty");
        let seed = from_environment("CABANA_FUZZ_SEED").unwrap_or_else(rand::random);
        eprintln!("{name}: CABANA_FUZZ_SEED={seed}");
        let mut random = Random::seed_from_u64(seed);
        let end = Instant::now() + Duration::from_secs(from_environment("CABANA_FUZZ_SECONDS").unwrap_or(SECONDS));
        let mut seen: HashSet<String> = corpus.iter().map(|input| try_one(input)).collect();
        let mut tried = 0_u64;
        while Instant::now() < end {
            let mut input = corpus.choose(&mut random).cloned().unwrap_or_default();
            for _ in 0..random.random_range(1..6) {
                change(&mut input, &corpus, words, &mut random);
            }
            repair(&mut input, &mut random);
            let begin = Instant::now();
            let answer = try_one(&input);
            let took = begin.elapsed();
            assert!(took < LONGEST, "{name}: {took:?} for {:?}", input.escape_ascii().to_string());
            tried += 1;
            if seen.insert(answer) && corpus.len() < CORPUS {
                corpus.push(input);
            }
        }
        eprintln!("{name}: {tried} inputs, {} different answers", seen.len());
        assert!(tried > 10, "{name}: too few inputs were tried to say anything");
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str], random: &mut Random) {
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
            let word = words.choose(random).copied().unwrap_or_default();
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
    input.truncate(LENGTH);
}

/// What answers of the same kind share: their letters, without the digits and names that differ.
pub fn kind_of(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(60).collect()
}
