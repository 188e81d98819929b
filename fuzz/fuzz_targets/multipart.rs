//! Forms that clients upload to the server and to the guest.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    cabana_form::fuzz_one(input);
});
