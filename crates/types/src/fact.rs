//! Checks of `cabana doctor`.

/// A check of the machine and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Name of the check.
    pub name: &'static str,
    /// Whether the check passed.
    pub ok: bool,
    /// Whether the server requires it.
    pub required: bool,
    /// What was found.
    pub detail: String,
    /// How to fix it, as a command if there is one.
    pub remedy: Option<String>,
}
