//! Patches that models write: read, and applied to a file.

#![no_main]

use cabana_agent::patch::{Patch, PatchError};

const FILE: &[u8] = b"one\ntwo\nthree\r\nfour \n\xff\n\nfive\nsix\nseven\neight\nnine\nten";

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    if let Ok(patch) = Patch::parse(&text) {
        let _ = patch.apply(|path| Ok::<_, PatchError>(path.ends_with('x').then(|| FILE.to_vec())));
    }
});
