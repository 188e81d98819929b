//! A string that cannot be printed or logged by accident: keys, access tokens, passwords.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret. `Debug` redacts it and there is no `Display`; [`Secret::expose`] is the only access to the text.
/// Serializing writes the text, because the wire and the guest's configuration need it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself; call it only to send or compare it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_redacts_the_text() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "<secret>");
    }
}
