//! HTTP/1 byte streams before the edge parses them: what passes must not depend on how the stream is cut into pieces. The first byte
//! is the size of the pieces.

#![no_main]
#![allow(dead_code, reason = "the product uses more of the files than the target does")]

#[path = "../../crates/edge/src/guard/chunks.rs"]
mod chunks;
#[path = "../../crates/edge/src/guard/framing.rs"]
mod framing;
#[path = "../../crates/edge/src/guard/head.rs"]
mod head;
#[path = "../../crates/edge/src/guard/rejection.rs"]
mod rejection;

use framing::{Framing, Remainder};

/// Feeds a stream in pieces, as the guard does; what passed, and the verdict at the end.
fn feed(stream: &[u8], size: usize) -> (Vec<u8>, Remainder) {
    let mut framing = Framing::new();
    let (mut passed, mut held, mut last) = (Vec::new(), Vec::new(), Remainder::None);
    for piece in stream.chunks(size) {
        held.extend_from_slice(piece);
        loop {
            let (valid, remainder) = framing.follow(&held);
            passed.extend(held.drain(..valid));
            last = remainder;
            if matches!(remainder, Remainder::Reject(_) | Remainder::BrokenBody(_)) {
                return (passed, last);
            }
            if valid == 0 {
                break;
            }
        }
    }
    (passed, last)
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((size, stream)) = input.split_first() {
        assert_eq!(feed(stream, usize::MAX), feed(stream, usize::from(*size).max(1)));
    }
});
