//! What a kernel reports while it runs a cell.

use serde_json::{Map, Value};

/// Representations of a value by MIME type.
pub(crate) type Bundle = Map<String, Value>;

/// One report of a kernel.
#[derive(Debug)]
pub(crate) enum Event {
    /// The cell was accepted, as this one of its context.
    Started(u64),
    /// Output.
    Stream { stderr: bool, text: String },
    /// A value to show; `main` for that of the last expression.
    Result { main: bool, data: Bundle },
    /// An exception.
    Error(Failure),
    /// The cell has ended.
    Idle,
    /// The kernel is gone.
    Died,
}

/// An exception, or what stands for one.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) traceback: String,
}

impl Failure {
    /// One that did not happen in the cell.
    pub(crate) fn of_service(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned(), traceback: String::new() }
    }
}
