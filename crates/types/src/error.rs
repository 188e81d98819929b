//! Printing errors.

use std::error::Error;

/// An error and its causes on one line: `open /x: No such file or directory`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("read the settings")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn causes_follow_their_error() {
        let cause = "x".parse::<u8>().expect_err("no number");
        assert_eq!(chain(&cause), cause.to_string());
        assert_eq!(chain(&Outer(cause)), "read the settings: invalid digit found in string");
    }
}
