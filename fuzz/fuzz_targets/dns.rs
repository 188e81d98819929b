//! Packets that sandboxes send to the name server.

#![no_main]
#![allow(dead_code, reason = "the product uses more of the file than the target does")]

#[path = "../../crates/net/src/dns/packet.rs"]
mod packet;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    packet::fuzz_one(input);
});
