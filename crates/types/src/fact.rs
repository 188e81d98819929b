//! What `cabana doctor` finds out about a machine.

/// One check of the machine and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What was checked.
    pub name: &'static str,
    /// Whether the check passed.
    pub ok: bool,
    /// Whether the server cannot work without it.
    pub required: bool,
    /// What was found.
    pub detail: String,
    /// How to repair it, as a command where there is one.
    pub remedy: Option<String>,
}
