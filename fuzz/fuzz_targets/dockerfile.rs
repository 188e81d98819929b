//! Dockerfiles: read, planned and evaluated.

#![no_main]

use std::collections::BTreeMap;

use cabana_image::dockerfile::{Dockerfile, DockerfileError};
use cabana_image::manifest::Defaults;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    if let Ok(plan) = Dockerfile::parse(&text).and_then(|file| file.plan(None, &BTreeMap::new())) {
        let _ = plan.evaluate_all(|_| Ok::<_, DockerfileError>(Defaults::default()));
    }
});
