//! Dockerfiles: parsed once, then planned for a target (only the stages it needs), then each stage is evaluated with
//! the defaults of its base image. The result is a list of steps with everything expanded; running them is up to the
//! caller.
//!
//! Unsupported features are refused with their line; harmless ones are noted and skipped.

mod context;
mod evaluate;
mod expand;
mod glob;
mod ignore;
mod instruction;
mod lines;
mod parse;
mod placement;
mod plan;

pub use self::context::{Context, ContextEntry, ContextKind, ContextLimits, Selection};
pub use self::evaluate::{Action, Copy, CopyFrom, Evaluated, Inline, Step};
pub use self::ignore::Ignore;
pub use self::instruction::Command;
pub use self::parse::Dockerfile;
pub use self::placement::{EPOCH, Owner, Placed, Placement};
pub use self::plan::{Plan, Stage, StageBase};

/// An error in a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Dockerfile line {line}: {reason}")]
pub struct DockerfileError {
    /// The line where the instruction begins, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// A note for the author that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line where the instruction begins, counted from 1.
    pub line: usize,
    pub text: String,
}

fn fail<T>(line: usize, reason: impl Into<String>) -> Result<T, DockerfileError> {
    Err(DockerfileError { line, reason: reason.into() })
}
