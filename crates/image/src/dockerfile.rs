//! Dockerfiles: read once, then planned for a target (only the stages it needs), then each stage evaluated with what
//! its base image says. The result is a list of steps with everything expanded; who runs them, and where, is not ours.
//!
//! What cannot be done is refused with the line it stands in; what does no harm is noted and passed over.

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

/// What is wrong with a Dockerfile, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Dockerfile line {line}: {reason}")]
pub struct DockerfileError {
    /// The line where the instruction begins, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Something that the author should know, but that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line where the instruction begins, counted from 1.
    pub line: usize,
    /// What.
    pub text: String,
}

fn fail<T>(line: usize, reason: impl Into<String>) -> Result<T, DockerfileError> {
    Err(DockerfileError { line, reason: reason.into() })
}
