//! Forms that clients upload to the guest.

#![no_main]
#![allow(dead_code, reason = "the product uses more of the file than the target does")]

#[path = "../../crates/guest/src/form.rs"]
mod form;

/// Stands in for the guest's errors.
mod error {
    #[derive(Debug)]
    pub(crate) struct Problem(String);

    impl Problem {
        pub(crate) fn bad_request(why: impl Into<String>) -> Self {
            Self(why.into())
        }
    }

    impl std::fmt::Display for Problem {
        fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            to.write_str(&self.0)
        }
    }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    form::fuzz_one(input);
});
