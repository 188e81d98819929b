//! The first bytes of TLS connections of sandboxes: a complete ClientHello is the same whatever follows it.

#![no_main]
#![allow(dead_code, reason = "the product uses more of the file than the target does")]

#[path = "../../crates/egress/src/hello.rs"]
mod hello;

use hello::Step;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match hello::parse(input) {
        Ok(Step::Need(needed)) => assert!(needed > input.len()),
        Ok(complete) => assert_eq!(hello::parse(&[input, b"more"].concat()), Ok(complete)),
        Err(_) => {}
    }
});
