//! What `cabana doctor` finds out about a machine.

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether the server cannot do without it.
    pub required: bool,
    /// What was found.
    pub detail: String,
    /// What to do about it, as a command where there is one.
    pub remedy: Option<String>,
}
