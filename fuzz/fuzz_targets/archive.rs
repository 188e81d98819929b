//! Layers of images: unpacked into an empty folder, next to which nothing may change.

#![no_main]

use std::os::fd::AsFd;
use std::time::Duration;

use cabana_image::stop::Stop;
use cabana_image::unpack::{Limits, Whiteouts, apply};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("root")).expect("a root");
    let root = std::fs::File::open(folder.path().join("root")).expect("the root");
    let limits = Limits { bytes: 1 << 20, entries: 1000, ..Limits::default() };
    let _ = apply(input, root.as_fd(), Whiteouts::Apply, &limits, &Stop::after(Duration::from_secs(20)));
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "something outside was made");
});
