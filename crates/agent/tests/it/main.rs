//! Patches and output against models, real git and random input.

#![allow(clippy::unwrap_used)]

mod diffs;
mod fuzz;
mod git;
mod output;
mod sections;

/// Random cases: `PROPTEST_CASES` makes it more.
fn config(cases: u32) -> proptest::prelude::ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    proptest::prelude::ProptestConfig { cases, max_shrink_iters: 2000, failure_persistence: None, ..Default::default() }
}
